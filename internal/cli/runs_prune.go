package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// PruneResult is the JSON form of fettle runs prune.
type PruneResult struct {
	Schema   string      `json:"schema"` // fettle/prune/v1
	Headline ui.Headline `json:"headline"`
	Runs     []ListedRun `json:"runs"` // to be removed
	Kept     []KeptRun   `json:"kept,omitempty"`
	Gone     bool        `json:"removed"`
}

// KeptRun is a selected run that is not removed.
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
	var o pruneOptions
	c := &cobra.Command{
		Use: "prune (--keep N | --older-than TIME | --cut-off)", Short: "Remove records of runs (shows them first)",
		Long: `Removes records of runs: all but the newest (--keep), old ones (--older-than), or those
of interrupted runs (--cut-off). It shows them first and asks. A run in progress is
never removed.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f := c.Flags()
			var age time.Duration
			if !f.Changed("keep") {
				o.keep = -1
			}
			switch {
			case !f.Changed("keep") && !f.Changed("older-than") && !o.cutOff:
				return ui.Retry(ui.Usage, errors.New("want --keep N, --older-than TIME or --cut-off"), "", "--older-than=90d")
			case f.Changed("older-than"):
				age, _ = unit.ParseDuration(o.older, 0) // the option has validated it
			}
			return a.runsPrune(c, o, age)
		},
	}
	f := c.Flags()
	f.IntVar(&o.keep, "keep", 0, "keep this many of the newest runs, and remove all other ended runs")
	f.StringVar(&o.older, "older-than", "", "remove runs that ended longer ago than this, such as 90d")
	cliutil.Between(f, "keep", 0, 1_000_000, 100)
	cliutil.Reads(f, "older-than", "90d", func(word string) error {
		if age, err := unit.ParseDuration(word, 0); err != nil || age == 0 {
			return errors.New("want an age such as 90d or 12h")
		}
		return nil
	})
	cliutil.Exclusive(c, "older-than", "keep")
	f.BoolVar(&o.cutOff, "cut-off", false, "remove the remains of interrupted runs")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
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
	going, unread := a.going(m, o, age)
	if unread != nil {
		return m.Unreadable(unread)
	}
	res := PruneResult{Schema: "fettle/prune/v1"}
	if going, res.Kept, err = needed(m, going); err != nil {
		return err
	}
	res.Runs = going
	res.Headline.Line("%s to remove", res.Headline.Count("runs", len(going), "run"))
	for _, k := range res.Kept {
		a.screen.Say("not removed: %s: %s", k.Name, k.Why)
	}
	if len(going) == 0 {
		if a.data() {
			return a.result(res, nil)
		}
		ui.PrintHeadline(a.screen, &res.Headline)
		return nil
	}
	if !a.data() {
		ui.PrintHeadline(a.screen, &res.Headline)
		listRuns(going).Write(a.screen)
	}
	if !o.yes {
		agreed, err := a.screen.Confirm(c.Context(), fmt.Sprintf("Remove the records of these %s? This cannot be undone.", text.Count(len(going), "run")))
		if err != nil || !agreed {
			if a.data() {
				return a.result(res, err)
			}
			return err
		}
	}
	for _, r := range going {
		if r.ID != "" {
			err = errors.Join(err, experiment.Store(m).Remove(r.ID))
		} else if drop := experiment.Store(m).Drop(r.Name); errors.Is(drop, evidence.ErrInProgress) {
			a.screen.Say("%s is running again; not removed", r.Name)
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

// going returns the runs to remove, oldest first. It keeps and reports unreadable records.
func (a *app) going(m *tune.Machine, o pruneOptions, age time.Duration) ([]ListedRun, error) {
	out := []ListedRun{}
	if o.keep >= 0 || age > 0 {
		runs, err := experiment.Store(m).All()
		if err != nil && runs == nil {
			return nil, err
		}
		if err != nil {
			a.screen.Say("not removed: %v", err)
		}
		if o.keep >= 0 {
			runs = runs[:max(0, len(runs)-o.keep)]
		}
		before := m.Host.Clock.Now().Add(-age)
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
	names, err := experiment.Store(m).Unfinished()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		l, err := listedOpen(m, name)
		if err != nil {
			a.screen.Say("not removed: %v", err)
		} else if l.State != underWayState {
			out = append(out, l)
		}
	}
	return out, nil
}

// needed splits off the runs to keep: a run that was cut off is kept while the change of its
// experiment may be in force, because only the record identifies it.
func needed(m *tune.Machine, going []ListedRun) (rest []ListedRun, kept []KeptRun, err error) {
	why, err := standing(m)
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

// standing returns why the change of a cut-off experiment may still be in force, and the
// command that undoes it. Without such a change it returns "".
func standing(m *tune.Machine) (string, error) {
	if how := tune.Armed(m.Engine.StateDir); how != "" {
		return "the change of an interrupted experiment may still be in force; to undo it: " + how, nil
	}
	s, err := m.ReadState()
	if err != nil {
		return "", err
	}
	for _, t := range s.Live() {
		if t.Try != nil && t.Try.Experiment {
			return fmt.Sprintf("the change of an interrupted experiment is in force (transaction %d); fettle undo reverts it", t.ID), nil
		}
	}
	return "", nil
}
