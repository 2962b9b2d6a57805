package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// PruneResult is the JSON form of fettle runs prune.
type PruneResult struct {
	Schema string      `json:"schema"` // fettle/prune/v1
	Runs   []ListedRun `json:"runs"`   // those that are to go
	Kept   []KeptRun   `json:"kept,omitempty"`
	Gone   bool        `json:"removed"`
}

// KeptRun is a run that was meant, and stays.
type KeptRun struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

type pruneOptions struct {
	keep   int
	older  string
	cutOff bool
	yes    bool
}

func runsPruneCommand(a *app) *cobra.Command {
	o := pruneOptions{keep: -1}
	c := &cobra.Command{
		Use: "prune (--keep N | --older-than TIME | --cut-off)", Short: "Remove records of runs, which are shown first",
		Long: `Removes records: all but the newest (--keep), those that ended long ago (--older-than),
those of runs that were cut off and nobody will resume (--cut-off). What would go is
shown first. One that is under way is never removed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f := c.Flags()
			var age time.Duration
			switch {
			case f.Changed("keep") && f.Changed("older-than"):
				return ui.Without(errors.New("want one of --keep and --older-than"), "--keep")
			case !f.Changed("keep") && !f.Changed("older-than") && !o.cutOff:
				return ui.Retry(ui.Usage, errors.New("want --keep N, --older-than TIME or --cut-off"), "", "--older-than=90d")
			case f.Changed("older-than"):
				age, _ = unit.ParseDuration(o.older, 0) // the option has read it
			}
			return a.runsPrune(c, o, age)
		},
	}
	f := c.Flags()
	f.IntVar(&o.keep, "keep", -1, "remove all runs that have ended but this many, the newest")
	f.StringVar(&o.older, "older-than", "", "remove the runs that ended longer ago, as 90d")
	cliutil.Between(f, "keep", 0, 1_000_000, 100)
	cliutil.Reads(f, "older-than", "90d", func(word string) error {
		if age, err := unit.ParseDuration(word, 0); err != nil || age == 0 {
			return errors.New("want a time, as 90d or 12h")
		}
		return nil
	})
	f.BoolVar(&o.cutOff, "cut-off", false, "remove what was left of runs that were cut off")
	f.BoolVarP(&o.yes, "yes", "y", false, "remove without asking")
	return c
}

func (a *app) runsPrune(c *cobra.Command, o pruneOptions, age time.Duration) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	m, err := a.machineAsIs(c.Context())
	if err != nil {
		return err
	}
	going, unread := m.going(o, age)
	if unread != nil {
		return m.unread(unread)
	}
	res := PruneResult{Schema: "fettle/prune/v1"}
	if going, res.Kept, err = m.needed(going); err != nil {
		return err
	}
	res.Runs = going
	for _, k := range res.Kept {
		a.screen.Say("%s stays: %s", k.Name, k.Why)
	}
	if len(going) == 0 {
		if a.data() {
			return a.result(res, nil)
		}
		a.screen.Say("nothing is to be removed")
		return nil
	}
	if !a.data() {
		listRuns(going).Write(a.screen)
	}
	if !o.yes {
		agreed, err := a.screen.Confirm(c.Context(), fmt.Sprintf("Remove the records of these %d runs? It cannot be undone.", len(going)))
		if err != nil || !agreed {
			if a.data() {
				return a.result(res, err)
			}
			return err
		}
	}
	for _, r := range going {
		if r.ID != "" {
			err = errors.Join(err, m.runs().Remove(r.ID))
		} else if drop := m.runs().Drop(r.Name); errors.Is(drop, evidence.ErrInProgress) {
			a.screen.Say("%s is under way again, and stays", r.Name)
		} else {
			err = errors.Join(err, drop)
		}
	}
	res.Gone = err == nil
	if a.data() {
		return a.result(res, err)
	}
	return err
}

// going are the runs that the options mean, oldest first. A record that cannot be read
// is told and stays.
func (m *machine) going(o pruneOptions, age time.Duration) ([]ListedRun, error) {
	out := []ListedRun{}
	if o.keep >= 0 || age > 0 {
		runs, err := m.runs().All()
		if err != nil && runs == nil {
			return nil, err
		}
		if err != nil {
			m.screen.Say("left as it is: %v", err)
		}
		if o.keep >= 0 {
			runs = runs[:max(0, len(runs)-o.keep)]
		}
		before := m.host.Clock.Now().Add(-age)
		for _, r := range runs {
			ended := r.Ended
			if ended.IsZero() {
				ended = r.Began
			}
			if age == 0 || ended.Before(before) {
				out = append(out, listed(r))
			}
		}
	}
	if !o.cutOff {
		return out, nil
	}
	names, err := m.runs().Unfinished()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		l, err := m.listedOpen(name)
		if err != nil {
			m.screen.Say("left as it is: %v", err)
		} else if l.State != underWayState {
			out = append(out, l)
		}
	}
	return out, nil
}

// needed takes out of the runs that are to go those that were cut off while the change
// of an experiment may still stand: which of them it was, its record alone tells.
func (m *machine) needed(going []ListedRun) (rest []ListedRun, kept []KeptRun, err error) {
	why, err := m.standing()
	if err != nil || why == "" {
		return going, nil, err
	}
	rest = []ListedRun{}
	for _, r := range going {
		if r.Resumable {
			kept = append(kept, KeptRun{r.Name, why})
		} else {
			rest = append(rest, r)
		}
	}
	return rest, kept, nil
}

// standing says why the change of an experiment that was cut off may still stand, and
// what takes it back; empty where nothing of one is left.
func (m *machine) standing() (string, error) {
	if how := tune.Armed(m.engine.StateDir); how != "" {
		return "the change of an experiment that was cut off may still stand; what takes it back: " + how, nil
	}
	s, err := m.state()
	if err != nil {
		return "", err
	}
	for _, t := range s.Live() {
		if t.Try != nil && t.Try.Experiment {
			return fmt.Sprintf("the change of an experiment that was cut off stands (transaction %d); fettle undo takes it back", t.ID), nil
		}
	}
	return "", nil
}
