package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
)

// loadVisited is the end of a run that is a visit of an experiment: what it has made is
// removed, nothing is kept of it, and its numbers are printed.
func (a *app) loadVisited(ctx context.Context, cluster *load.Cluster, d *driven, l *plan.Load, out *load.Result, err error) error {
	a.screen.Status("")
	doc := newLoadRun(d, l, out, d.meter, d.meter.Judge(nil, out.DriveOutcome))
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		doc.State = "interrupted"
		err = ui.Exit(ui.Interrupted, errors.New("interrupted"))
	case err != nil:
		doc.State = "failed"
		err = loadExit(err)
	case doc.Objects.Failed > 0 || doc.NotReady > 0 || doc.Actions != nil && doc.Actions.Failed > 0:
		err = doc.unmeasured()
	}
	undone := a.loadCleanUp(context.WithoutCancel(ctx), cluster, d.id, doc)
	if undone == nil {
		undone = cluster.Store.Remove(d.id)
	}
	if err = errors.Join(err, undone); err != nil || a.data() {
		if a.data() {
			return a.result(doc, err)
		}
		return err
	}
	for _, line := range doc.numbers() {
		fmt.Fprintln(a.screen.Out, line)
	}
	return nil
}

// unmeasured is the error of a visit that is no measurement: not all was made, or ready. It
// says why by itself, for nothing of the run is kept, neither to look at nor to resume.
func (x *LoadRun) unmeasured() error {
	err := x.judge(false)
	if x.Objects.Failed == 0 {
		return err
	}
	why, most := "", 0
	for _, text := range slices.Sorted(maps.Keys(x.Errors)) {
		if n := x.Errors[text]; n > most {
			why, most = ": "+text, n
		}
	}
	if len(x.Errors) > 1 {
		why += fmt.Sprintf(" (and %s)", counted(len(x.Errors)-1, "other error"))
	}
	return ui.Hinted(ui.Code(err), fmt.Errorf("%d of %d objects could not be made%s", x.Objects.Failed, x.Objects.Planned, why), "nothing of a visit is kept to be resumed: see to what it says, and begin anew")
}

// numbers are a measurement a line, as fettle prove finds them in what a command prints:
// its name, the number, its unit.
func (x *LoadRun) numbers() []string {
	var all []string
	add := func(what string, t engine.Times) {
		if t.N == 0 {
			return
		}
		for _, p := range []struct {
			name  string
			value float64
		}{{"mean", t.MeanS}, {"p50", t.P50S}, {"p95", t.P95S}, {"p99", t.P99S}, {"max", t.MaxS}} {
			all = append(all, fmt.Sprintf("%s-%s %.7f s", what, p.name, p.value))
		}
	}
	add("create", x.Times.Create)
	for _, c := range x.Times.Calls {
		add(cmp.Or(c.Do, "call")+"-"+c.Kind, c.Times)
	}
	add("scheduled", x.Times.Scheduled)
	add("ready", x.Times.Ready)
	return append(all, fmt.Sprintf("made %.3f /s", x.RatePerS))
}
