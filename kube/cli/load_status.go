package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/load"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// LoadStatus is the JSON result of load status.
type LoadStatus struct {
	Schema   string          `json:"schema"` // fettle/cluster-load-status/v1
	Headline ui.Headline     `json:"headline"`
	Runs     []LoadRunStatus `json:"runs"`
}

// LoadRunStatus is a run's status according to its journal.
type LoadRunStatus struct {
	Run     string    `json:"run"`
	File    string    `json:"file,omitempty"`
	Server  string    `json:"server,omitempty"`
	Began   time.Time `json:"began"`
	Phase   string    `json:"phase"` // running, stopped (killed, or by the brake), ended, undoing, undo incomplete, undone, unreadable
	Objects int       `json:"objects"`
	Created int       `json:"created"`
	Reused  int       `json:"reused"`
	Failed  int       `json:"failed"`
	Removed int       `json:"removed"`
	Kept    int       `json:"kept"`
	Error   string    `json:"error,omitempty"`
	// Unnoted is the number of objects that exist in the cluster but have no result in the journal;
	// undo removes them.
	Unnoted int `json:"not_noted,omitempty"`
	// Unknown is the number of objects in the cluster with the run's label that its journal lacks.
	// Delete is the kubectl command that deletes them.
	Unknown int    `json:"not_in_journal,omitempty"`
	Delete  string `json:"delete_not_in_journal,omitempty"`
}

func (a *app) loadStatusCommand(o *loadOptions) *cobra.Command {
	var details bool
	c := &cobra.Command{
		Use: "status", Short: "List load runs, and objects that remain of them",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.loadStatus(c.Context(), o, details) },
	}
	c.Flags().BoolVar(&details, "details", false, text.Sprintf("list all runs, not just %d", shownRuns))
	return c
}

func (a *app) loadStatus(ctx context.Context, o *loadOptions, details bool) error {
	s, err := a.loadStore(o)
	if err != nil {
		return err
	}
	kept, err := s.List()
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	doc := LoadStatus{Schema: "fettle/cluster-load-status/v1", Runs: []LoadRunStatus{}}
	for _, k := range kept {
		r := LoadRunStatus{Run: k.ID, Phase: "unreadable"}
		if k.Err != nil {
			r.Error = k.Err.Error()
		} else {
			h := k.State.Header
			r.File, r.Server, r.Began, r.Phase, r.Objects = h.File, h.Server, h.Began, phaseOf(k.State), h.Objects
			r.Created, r.Reused, r.Failed = k.State.Count(loadrun.Created), k.State.Count(loadrun.Reused), k.State.Count(loadrun.Failed)
			r.Removed, r.Kept = k.State.Count(loadrun.Gone), k.State.Count(loadrun.JournalKept)
		}
		doc.Runs = append(doc.Runs, r)
	}
	lost := make([]bool, len(kept))
	for i, k := range kept {
		if k.Err == nil && (k.State.Phase == loadrun.Undone || k.State.Held) {
			continue // the load's content is not needed
		}
		var damaged *loadrun.Damaged
		if _, err := s.Load(k.ID); errors.As(err, &damaged) {
			lost[i] = true
			r := &doc.Runs[i]
			r.Error = strings.TrimPrefix(r.Error+"; "+damaged.Error(), "; ")
		}
	}
	err = a.loadStanding(ctx, o, kept, lost, doc.Runs)
	doc.Headline = doc.headline(s.Dir)
	return a.show(doc, err, func() { a.printLoadStatus(&doc, o, details) })
}

// shownRuns is the number of runs shown without --details.
const shownRuns = 20

// phases are a run's phases; those that need attention come first.
var phases = []string{"unreadable", "undo incomplete", "stopped", string(loadrun.Running), string(loadrun.Undoing), string(loadrun.Ended), string(loadrun.Undone)}

// there returns the number of the run's objects that are in the cluster.
func (r *LoadRunStatus) there() int {
	if r.Phase == string(loadrun.Undone) {
		return r.Created + r.Unnoted // reused objects do not count
	}
	return r.Created + r.Unnoted + r.Reused
}

// headline counts the runs by phase, and the remaining objects.
func (d *LoadStatus) headline(dir string) (h ui.Headline) {
	if len(d.Runs) == 0 {
		h.Line("there are no runs in %s", dir)
		return h
	}
	var counts []string
	left, unknown := 0, 0
	for _, phase := range phases {
		n := 0
		for i := range d.Runs {
			if d.Runs[i].Phase == phase {
				n++
				left += d.Runs[i].there()
				unknown += d.Runs[i].Unknown
			}
		}
		if n > 0 {
			counts = append(counts, h.Count(strings.ReplaceAll(phase, " ", "_"), n, "")+" "+phase)
		}
	}
	objects := h.Count("objects", left, "object")
	if unknown > 0 {
		objects += fmt.Sprintf(" and %s without a journal", h.Count("not_in_journal", unknown, ""))
	}
	h.Line("%s: %s; %s in the cluster", h.Count("runs", len(d.Runs), "run"), strings.Join(counts, ", "), objects)
	return h
}

// printLoadStatus prints the runs that need attention first, then the newest.
func (a *app) printLoadStatus(d *LoadStatus, o *loadOptions, details bool) {
	runs := slices.Clone(d.Runs)
	slices.Reverse(runs)
	slices.SortStableFunc(runs, func(x, y LoadRunStatus) int { return slices.Index(phases, x.Phase) - slices.Index(phases, y.Phase) })
	if !details {
		runs = runs[:min(len(runs), shownRuns)]
	}
	ui.PrintHeadline(a.screen, &d.Headline)
	g := ui.Grid{Columns: []ui.Column{{Head: "run"}, {Head: "phase"}, {Head: "objects", Right: true}, {Head: "there", Right: true}, {Head: "failed", Right: true}, {Head: "removed", Right: true}, {Head: "kept", Right: true, Optional: true}, {Head: "file", Optional: true}}}
	next := ""
	for i := range runs {
		r := &runs[i]
		g.Rows = append(g.Rows, []string{r.Run, r.Phase, thousands(r.Objects), thousands(r.there()), thousands(r.Failed), thousands(r.Removed), thousands(r.Kept), r.File})
		if r.Error != "" {
			a.screen.Say("%s: %s", r.Run, r.Error)
		}
		if next == "" && r.there() > 0 && r.Phase != string(loadrun.Running) {
			next = r.Run
		}
	}
	section(a.screen, "Runs, those that need attention first", &g)
	notShown(a.screen, text.Count(len(d.Runs)-len(runs), "run"))
	if next != "" {
		words := []string{"kubectl", "fettle", "load", "undo", next}
		if o.stateDir != "" {
			words = append(words, "--state-dir", o.stateDir)
		}
		ui.Heading(a.screen, "Delete the objects of "+ui.Line(next)+" with")
		ui.PrintCommand(a.screen, text.CommandLine(words))
	}
}

func thousands(n int) string { return unit.Thousands(uint64(max(n, 0))) }

// phaseOf returns a run's phase. A run in progress without a process is stopped; resume or undo
// continues it.
func phaseOf(s *loadrun.State) string {
	switch {
	case s.Held:
	case s.Phase == loadrun.Running, s.Phase == "": // no phase: the journal ends after its header
		return "stopped"
	case s.Phase == loadrun.Undoing:
		return "undo incomplete"
	}
	return string(s.Phase)
}

// LoadUndo is the JSON result of load undo.
type LoadUndo struct {
	Schema   string       `json:"schema"` // fettle/cluster-load-undo/v1
	Headline ui.Headline  `json:"headline"`
	Run      string       `json:"run"`
	Removed  int          `json:"removed"`
	Absent   int          `json:"absent"` // already gone
	Kept     []KeptObject `json:"kept"`
	Waiting  []string     `json:"namespaces_terminating,omitempty"`
	// Unknown is the number of the run's objects that its journal lacks; undo leaves them. Delete
	// is the kubectl command that deletes them.
	Unknown int    `json:"not_in_journal,omitempty"`
	Delete  string `json:"delete_not_in_journal,omitempty"`
}

func (a *app) loadUndoCommand(o *loadOptions) *cobra.Command {
	return &cobra.Command{
		Use: "undo [RUN]", Short: "Delete the objects that a run created",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.loadUndo(c.Context(), o, args) },
	}
}

// shownWaiting is the number of terminating namespaces shown; the JSON has all.
const shownWaiting = 5

func (a *app) loadUndo(ctx context.Context, o *loadOptions, args []string) error {
	s, err := a.loadStore(o)
	if err != nil {
		return err
	}
	id, err := runNamed(s, args)
	if err != nil {
		return err
	}
	if _, err := s.Load(id); err != nil {
		return a.unloaded(ctx, o, id, err)
	}
	cluster, err := a.loadCluster(o, 0)
	if err != nil {
		return err
	}
	defer lean()()
	step, stop := a.screen.Steps(0)
	out, err := cluster.Undo(ctx, id, func(done, all int) { step(text.Sprintf("%d of %d removed", done, all), done, all) })
	stop()
	if out != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = ui.Hinted(ui.Incomplete, fmt.Errorf("interrupted; the undo of run %s is incomplete", id), fmt.Sprintf("to continue: kubectl fettle load undo %s", id))
	}
	err = loadExit(err)
	if out == nil {
		return err
	}
	doc := LoadUndo{Schema: "fettle/cluster-load-undo/v1", Run: id, Removed: out.Removed, Absent: out.Absent, Kept: []KeptObject{}, Waiting: out.Waiting}
	if out.Unknown != nil {
		doc.Unknown, doc.Delete = out.Unknown.Objects, out.Unknown.Command()
	}
	for _, k := range out.Kept {
		doc.Kept = append(doc.Kept, KeptObject{k.Object, k.Why})
	}
	doc.Headline = doc.headline()
	return a.show(doc, err, func() { a.printUndo(&doc, out.Unseen) })
}

// printUndo prints the removed and the remaining objects. unseen is why the remaining objects of
// the run are unknown.
func (a *app) printUndo(doc *LoadUndo, unseen string) {
	ui.PrintHeadline(a.screen, &doc.Headline)
	if doc.Delete != "" {
		ui.PrintLine(a.screen, "to delete all objects with the run's label, including those not in its journal:")
		ui.PrintCommand(a.screen, doc.Delete)
	}
	for _, k := range doc.Kept {
		a.screen.Say("%s not removed: %s", k.Object, k.Why)
	}
	if n := len(doc.Waiting); n > shownWaiting {
		a.screen.Say("%s are still being removed by the server: %s and %s more", text.Count(n, "namespace"), strings.Join(doc.Waiting[:shownWaiting], ", "), thousands(n-shownWaiting))
	} else {
		for _, name := range doc.Waiting {
			a.screen.Say("the namespace %s is still being removed by the server", name)
		}
	}
	if unseen != "" {
		a.screen.Say("cannot check for objects of the run that are not in its journal: %s", unseen)
	}
}

// headline counts removed and remaining objects, with the reason.
func (d *LoadUndo) headline() (h ui.Headline) {
	line := fmt.Sprintf("run %s: %s removed", d.Run, h.Count("removed", d.Removed, "object"))
	if d.Absent > 0 {
		line += fmt.Sprintf(", %s %s gone already", h.Count("gone_already", d.Absent, ""), either(d.Absent, "was", "were"))
	}
	if n := len(d.Kept); n > 0 {
		line += fmt.Sprintf(", %s kept", h.Count("kept", n, ""))
	}
	if n := len(d.Waiting); n > 0 {
		line += ", " + h.Count("namespaces_terminating", n, "namespace") + " still terminating"
	}
	if d.Unknown > 0 {
		line += fmt.Sprintf("; %s not in its journal %s left", h.Count("not_in_journal", d.Unknown, "object"), either(d.Unknown, "is", "are"))
	}
	h.Line("%s", line)
	return h
}

// standingWithin limits the search for objects that journals lack.
const standingWithin = 20 * time.Second

// loadStanding searches the cluster for objects of runs with incomplete journals or lost loads, and
// reports them. runs and lost correspond to kept by index. It returns an error if it finds objects.
// An unreachable cluster is reported but is not an error.
func (a *app) loadStanding(ctx context.Context, o *loadOptions, kept []loadrun.StoreKept, lost []bool, runs []LoadRunStatus) error {
	if !slices.ContainsFunc(kept, load.Doubtful) && !slices.Contains(lost, true) {
		return nil
	}
	blind := func(run string, why any) {
		a.screen.Say("%scannot check for objects that are not in the journal: %v", run, why)
	}
	cluster, err := a.loadCluster(o, 1)
	if err != nil {
		blind("", err)
		return nil
	}
	began, cancel := context.WithTimeout(ctx, standingWithin)
	defer cancel()
	n := 0
	for i, k := range kept {
		if !load.Doubtful(k) && !lost[i] {
			continue
		}
		x, err := cluster.Standing(began, k)
		found, unseen := x.Unknown, x.Unseen
		runs[i].Unnoted = x.Unnoted
		switch {
		case ctx.Err() != nil:
			return loadExit(ctx.Err())
		case began.Err() != nil:
			blind("", fmt.Sprintf("no answer in %s", standingWithin))
			return standing(n)
		case err != nil:
			blind(k.ID+": ", err)
		case found != nil:
			n++
			runs[i].Unknown, runs[i].Delete = found.Objects, found.Command()
			a.screen.Say("%s: %s; to delete by this label: %s", k.ID, found.Standing(), found.Command())
		case unseen != "":
			blind(k.ID+": ", unseen)
		}
	}
	return standing(n)
}

// runsListed is the hint for an unknown run.
const runsListed = "kubectl fettle load status lists the runs; --state-dir names another directory of runs"

// unloaded returns the error for a run whose load is unreadable, including its objects in the
// cluster.
func (a *app) unloaded(ctx context.Context, o *loadOptions, id string, why error) error {
	var damaged *loadrun.Damaged
	if !errors.As(why, &damaged) {
		return ui.Hinted(ui.Usage, why, runsListed)
	}
	cluster, err := a.loadCluster(o, 1)
	if err != nil {
		return errors.Join(ui.Exit(ui.Incomplete, why), err)
	}
	return loadExit(cluster.Unloaded(ctx, id, damaged))
}

// standing returns the error of a status with runs whose objects are missing from their journals.
func standing(runs int) error {
	if runs == 0 {
		return nil
	}
	return ui.Exit(ui.Failed, errors.New("the cluster contains objects of runs that fettle cannot remove"))
}
