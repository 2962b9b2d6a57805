package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/bench/disk"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/prove"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/ui"
)

// RunList is the JSON form of fettle runs list.
type RunList struct {
	Schema string      `json:"schema"` // fettle/runs/v1
	Runs   []ListedRun `json:"runs"`
}

// ListedRun is a run in brief.
type ListedRun struct {
	// ID names a run that has ended, Name one that is under way or was cut off.
	ID      string    `json:"id,omitempty"`
	Name    string    `json:"name,omitempty"`
	State   string    `json:"state"` // ended, under-way, cut-off
	Kind    string    `json:"kind"`
	Began   time.Time `json:"began"`
	Command string    `json:"command"`
	Verdict string    `json:"verdict"`
}

func runsCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "runs", Short: "What was measured: list the runs, show and compare them, take them elsewhere, remove them", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the runs, oldest first", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.runsList(c) }},
		&cobra.Command{Use: "show RUN", Short: "Show a run: by its ID, of which the beginning is enough, or by a file that holds it", Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error { return a.runsShow(c, args[0]) }},
		runsCompareCommand(a),
		runsExportCommand(a),
		runsPruneCommand(a),
	)
	return c
}

func (a *app) runsList(c *cobra.Command) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	m, err := a.machineAsIs(c.Context())
	if err != nil {
		return err
	}
	runs, err := m.runs().All()
	if runs == nil && err != nil {
		return m.unread(err)
	}
	list := RunList{Schema: "fettle/runs/v1", Runs: []ListedRun{}}
	for _, r := range runs {
		list.Runs = append(list.Runs, listed(r))
	}
	names, unlisted := m.runs().CutOff()
	err = errors.Join(err, unlisted)
	for _, name := range names {
		l, looked := m.listedOpen(name)
		if looked != nil {
			err = errors.Join(err, looked)
			continue
		}
		list.Runs = append(list.Runs, l)
	}
	if a.data() {
		return a.result(list, err)
	}
	listRuns(list.Runs).Write(a.screen)
	return err
}

// listRuns is a list of runs for eyes.
func listRuns(runs []ListedRun) *report.Grid {
	g := &report.Grid{Head: []string{"run", "began", "state", "verdict", "command"}}
	for _, r := range runs {
		g.Rows = append(g.Rows, []string{r.ID + r.Name, r.Began.Local().Format("2006-01-02 15:04"), r.State, r.Verdict, r.Command})
	}
	return g
}

// listed is a run that has ended, in brief.
func listed(r *evidence.Run) ListedRun {
	return ListedRun{ID: r.ID, State: "ended", Kind: r.Kind, Began: r.Began, Command: r.Command, Verdict: r.Verdict}
}

// listedOpen is a run that is under way or was cut off, in brief.
func (m *machine) listedOpen(name string) (ListedRun, error) {
	r, alive, e, err := m.lookAt(name)
	if err != nil {
		return ListedRun{}, err
	}
	l := ListedRun{Name: name, State: "cut-off", Kind: r.Kind, Began: r.Began, Command: r.Command, Verdict: e.Text}
	if alive {
		l.State = "under-way"
	}
	return l, nil
}

// lookAt reads a run that has not ended, with the verdict of what was measured.
func (m *machine) lookAt(name string) (*evidence.Run, bool, *prove.Evidence, error) {
	var visits []prove.Visit
	r, alive, err := m.runs().Look(name, func(line []byte) error {
		var v prove.Visit
		err := json.Unmarshal(line, &v)
		visits = append(visits, v)
		return err
	})
	if err != nil {
		return nil, alive, nil, err
	}
	var e prove.Evidence
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return nil, alive, nil, fmt.Errorf("run %s: %w", name, err)
	}
	course, err := prove.Replay(e.Design, visits)
	if err != nil {
		return nil, alive, nil, fmt.Errorf("run %s: %w", name, err)
	}
	return r, alive, e.Summed(prove.Sum(course, prove.EndedInterrupted, nil, visits)), nil
}

// findRun is the run that a word names: one that has ended by its ID, or one that was
// cut off or is under way by its name, with what it has measured so far.
func (m *machine) findRun(word string) (*evidence.Run, error) {
	r, err := m.runs().Get(word)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return r, m.unread(err)
	}
	r, _, e, err := m.lookAt(word)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ui.Hinted(ui.Usage, fmt.Errorf("no run %q", word), "fettle runs list shows them")
	}
	if err != nil {
		return nil, m.unread(err)
	}
	r.Verdict = e.Text
	r.Body, err = json.Marshal(e)
	return r, err
}

// credible is an error where a record says something else than its samples do.
func credible(r *evidence.Run, e *prove.Evidence) error {
	doubt, err := e.Doubt()
	if err == nil && doubt == "" && r.Verdict != e.Text {
		doubt = fmt.Sprintf("the record says %q at its top, and %q in its body: do not rely on it", r.Verdict, e.Text)
	}
	if err == nil && doubt != "" {
		err = errors.New(doubt)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	return nil
}

func (a *app) runsShow(c *cobra.Command, id string) error {
	runs, err := a.findRuns(c, []string{id})
	if err != nil {
		return err
	}
	if len(runs) > 1 {
		return ui.Exit(ui.Usage, fmt.Errorf("%s holds %d runs, and one is shown at a time", id, len(runs)))
	}
	r := runs[0]
	if r.Kind == disk.Kind && !a.data() {
		return a.showDisk(r)
	}
	if r.Kind != "prove" {
		return a.result(ProveResult{r}, nil)
	}
	var e prove.Evidence
	if err := json.Unmarshal(r.Body, &e); err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	if err := credible(r, &e); err != nil {
		return err
	}
	if a.data() {
		return a.result(ProveResult{r}, nil)
	}
	report.Proof(a.screen, r, &e)
	return nil
}
