package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/runpage"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// RunList is the JSON form of fettle runs list.
type RunList struct {
	Schema   string      `json:"schema"` // fettle/runs/v1
	Headline ui.Headline `json:"headline"`
	Runs     []ListedRun `json:"runs"`
}

// ListedRun is the summary of one run.
type ListedRun struct {
	// ID identifies a finished run. Name identifies a run in progress or cut off.
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	// State is ended, failed, under-way, interrupted (by a signal), or cut-off (its process
	// was killed). A failed run may have a complete record, or be resumable.
	State     string    `json:"state"`
	Resumable bool      `json:"resumable,omitempty"` // by --resume of fettle prove or fettle search
	Kind      string    `json:"kind"`
	Began     time.Time `json:"began"`
	Command   string    `json:"command"`
	Verdict   string    `json:"verdict"`
	// Blocks is the number of complete blocks of an experiment that count.
	Blocks int `json:"blocks,omitempty"`
	// Method is the method of an experiment's verdict. VerdictNow is the verdict of this
	// version's method on the same samples, if it differs.
	Method     int    `json:"method,omitempty"`
	VerdictNow string `json:"verdict_now,omitempty"`
}

func runsCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "runs", Short: "List, show, compare measurements; find when they changed", Args: cliutil.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the runs, oldest first", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return a.runsList(c) }},
		&cobra.Command{Use: "show [RUN...]", Short: "Show the result of a run, by ID or file",
			Long: `Prints the result of a run again. Without RUN it shows the last run that ended. RUN is an
ID, the beginning of an ID, last (the latest run, also an interrupted one), or a file of
fettle runs export, also from another machine. --output html writes one page with
intervals, all samples in order, curves, and the command that repeats the measurement.
It accepts several runs and lists how they differ.`,
			RunE: func(c *cobra.Command, args []string) error { return a.runsShow(c, args) }},
		runsCompareCommand(a),
		runsExportCommand(a),
		runsPruneCommand(a),
		runsTrendCommand(a),
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
	runs, err := experiment.Store(m).All()
	if runs == nil && err != nil {
		return m.Unreadable(err)
	}
	list := RunList{Schema: "fettle/runs/v1", Runs: []ListedRun{}}
	for _, r := range runs {
		list.Runs = append(list.Runs, listed(r))
	}
	names, unlisted := experiment.Store(m).Unfinished()
	err = errors.Join(err, unlisted)
	for _, name := range names {
		l, looked := listedOpen(m, name)
		if looked != nil {
			err = errors.Join(err, looked)
			continue
		}
		list.Runs = append(list.Runs, l)
	}
	list.Headline = headlineOfRuns(list.Runs)
	err = experiment.Damaged(err)
	if a.data() {
		return a.result(list, err)
	}
	ui.PrintHeadline(a.screen, &list.Headline)
	if len(list.Runs) > 0 {
		listRuns(list.Runs).Write(a.screen)
	}
	next, call := "to measure:", "fettle bench --help"
	for i, r := range slices.Backward(list.Runs) {
		if r.Resumable {
			// The proof of a search goes on with the search.
			if i > 0 && r.Kind == "prove" && list.Runs[i-1].Kind == search.Kind && list.Runs[i-1].Resumable {
				r = list.Runs[i-1]
			}
			next, call = "to resume the interrupted run:", a.next(r.Kind, "--resume", r.Name)
			break
		}
		if r.ID != "" {
			next, call = "to show the last run:", a.next("runs", "show", r.ID)
			break
		}
	}
	ui.PrintLine(a.screen, "%s", next)
	ui.PrintCommand(a.screen, call)
	return err
}

// headlineOfRuns counts the runs, and the runs that failed or were interrupted.
func headlineOfRuns(all []ListedRun) (h ui.Headline) {
	if len(all) == 0 {
		h.Line("%s: nothing was measured on this machine yet", h.Count("runs", 0, "run"))
		return h
	}
	states, order := map[string]int{}, []string{"failed", underWayState, "interrupted", "cut-off"}
	last := all[0]
	for _, r := range all {
		states[r.State]++
		if r.Began.After(last.Began) {
			last = r
		}
	}
	line := h.Count("runs", len(all), "run")
	for _, state := range order {
		if n := states[state]; n > 0 {
			line += ", " + h.Count(strings.ReplaceAll(state, "-", "_"), n, "") + " " + state
		}
	}
	h.Line("%s; the last one: %s, %s", line, last.Kind, last.Verdict)
	return h
}

// listRuns returns a table of runs. With --wide it includes the commands.
func listRuns(runs []ListedRun) *ui.Grid {
	g := &ui.Grid{Columns: []ui.Column{{Head: "run"}, {Head: "began", Optional: true}, {Head: "measured"}, {Head: "command", Wide: true}, {Head: "state"}, {Head: "verdict", Below: true}}}
	for _, r := range runs {
		verdict := r.Verdict
		if r.VerdictNow != "" {
			verdict += fmt.Sprintf(" (judged by method %d; the current method %d says: %s)", r.Method, prove.Method, r.VerdictNow)
		}
		g.Rows = append(g.Rows, []string{r.ID + r.Name, r.Began.Local().Format("2006-01-02 15:04"), r.Kind, r.Command, r.state(), verdict})
	}
	return g
}

// state describes the state of the run.
func (r *ListedRun) state() string {
	switch {
	case r.Resumable && r.Blocks == 0 && r.Kind == "prove":
		return r.State + " before its first block, can be resumed"
	case r.Resumable:
		return r.State + ", can be resumed"
	}
	return r.State
}

// listed summarizes a finished run.
func listed(r *evidence.Run) ListedRun {
	l := ListedRun{ID: r.ID, State: "ended", Kind: r.Kind, Began: r.Began, Command: r.Command, Verdict: r.Verdict}
	if cut := evidence.InterruptionOf(r); cut != nil && cut.Failed != "" {
		l.State = "failed"
	} else if cut != nil {
		l.State = string(prove.EndedInterrupted)
	}
	var e prove.Evidence
	if r.Kind != "prove" || json.Unmarshal(r.Body, &e) != nil {
		return l // runs show reports an error in the body
	}
	if e.Ending == prove.EndedFailed {
		l.State = "failed"
	}
	l.Method, l.Blocks = e.JudgedBy(), len(e.Blocks)
	otherwise := (*prove.Otherwise)(nil)
	// With the same method the verdict is the same. runs show detects a modified record.
	if l.Method != prove.Method && errors.As(e.Again(), &otherwise) {
		l.VerdictNow = otherwise.Text
		if otherwise.Err != nil {
			l.VerdictNow = "cannot be judged again"
		}
	}
	return l
}

// listedOpen summarizes a run that is in progress or was cut off.
func listedOpen(m *tune.Machine, name string) (ListedRun, error) {
	r, err := experiment.Peek(experiment.Store(m), name)
	if err != nil {
		return ListedRun{}, err
	}
	l := ListedRun{Name: name, State: "cut-off", Kind: r.Kind, Began: r.Began, Command: r.Command, Verdict: r.Verdict}
	if r.Proof != nil {
		l.Resumable, l.Blocks, l.Method = !r.Alive, len(r.Proof.Blocks), r.Proof.Method
	}
	l.Resumable = l.Resumable || r.Kind == search.Kind && !r.Alive
	switch cut := evidence.InterruptionOf(r.Run); {
	case r.Alive:
		l.State = underWayState
		if r.Proof == nil && cut != nil { // nothing has interrupted the run yet
			l.Verdict = text.Sprintf("%d of %d %s are finished", cut.Done, cut.Planned, cut.Of)
		}
	case r.Proof != nil && r.Proof.Ending != "":
		l.State = string(r.Proof.Ending)
	}
	return l, nil
}

// underWayState is the state of a run whose process is still running.
const underWayState = "under-way"

func (a *app) runsShow(c *cobra.Command, words []string) error {
	runs, err := a.findRuns(c, words)
	if err != nil {
		return err
	}
	if len(runs) > 1 && a.screen.Page == nil {
		return ui.Hinted(ui.Usage, text.Errorf("want one run, not %d", len(runs)), "--output html shows several on one page")
	}
	results := make([]runpage.Result, len(runs))
	for i, r := range runs {
		if results[i], err = runpage.ResultOf(r); err != nil {
			return err
		}
		e, ok := results[i].(*prove.Evidence)
		if !ok {
			continue
		}
		otherwise, err := experiment.Credible(r, e)
		if err != nil {
			return err
		}
		if otherwise != nil {
			a.screen.Say("%v", otherwise)
		}
	}
	switch {
	case a.screen.Page != nil:
		return runpage.PrintAll(a.screen, runs)
	case results[0] == nil: // of a later version, or of kubectl fettle
		h := ui.Headline{}
		h.Line("%s: %s", runs[0].Kind, runs[0].Verdict)
		return a.result(RunResult{h, runs[0]}, nil)
	}
	id := runs[0].ID
	if len(words) > 0 { // a file, or the beginning of an ID
		id = words[0]
	}
	return a.printRun(runs[0], id, results[0], nil)
}
