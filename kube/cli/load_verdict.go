package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/ui/page"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
)

// Verdicts on a cluster load.
const (
	verdictMet    = "met"
	verdictNotMet = "not met"
	verdictOpen   = "cannot tell"
	verdictNone   = "none"
)

// judge sets a completed run's verdict, and returns the run's error. If gates were requested, only
// they count. Otherwise, Kubernetes' gates and the API server's metrics fail only if certainly not
// met.
func (x *LoadRun) judge(asked bool) error {
	x.Verdict = verdictNotMet
	switch {
	case x.Objects.Failed > 0:
		code := ui.Partial
		if x.Objects.Created+x.Objects.Reused+x.Objects.Before == 0 {
			code = ui.Failed
		}
		return ui.Hinted(code, text.Errorf("%d of %d objects could not be created", x.Objects.Failed, x.Objects.Planned), "kubectl fettle load resume "+x.Run+" tries them again")
	case x.Actions != nil && x.Actions.Failed > 0:
		return ui.Hinted(ui.Partial, text.Errorf("%d of %d patches, deletions and reads failed", x.Actions.Failed, x.Actions.Planned), "kubectl fettle load resume "+x.Run+" tries them again")
	case x.NotReady > 0:
		return ui.Exit(ui.GateNotMet, fmt.Errorf("%s %s not ready within the time limit: %s", text.Count(x.NotReady, "object"), either(x.NotReady, "was", "were"), x.Example))
	}
	var open error
	for _, g := range x.Gates {
		switch {
		case g.Met:
		case !g.Unknown:
			return ui.Exit(ui.GateNotMet, fmt.Errorf("%s is not met: %s", g.Gate, g.Text))
		case open == nil:
			open = ui.Exit(ui.GateNotMet, fmt.Errorf("unknown whether %s is met: %s", g.Gate, g.Text))
		}
	}
	if x.Servers != nil && !asked {
		for _, c := range x.Servers.Missed() {
			return ui.Exit(ui.GateNotMet, fmt.Errorf("API server metrics: p99 of %s of %s (%s) is %s, the objective is %s", c.Verb, c.Resource, c.Scope, unit.FormatSeconds(c.P99S), unit.FormatSeconds(c.LimitS)))
		}
	}
	if open == nil {
		x.Verdict = verdictMet
		return nil
	}
	x.Verdict = verdictOpen
	if !asked {
		return nil
	}
	return open
}

// expected returns the verdict as text, with its tone.
func (x *LoadRun) expected() (page.Tone, string) {
	switch x.Verdict {
	case verdictMet:
		return page.Good, "all objectives met"
	case verdictNotMet:
		return page.Bad, "an objective is not met"
	case verdictOpen:
		unknown := 0
		for _, g := range x.Gates {
			if g.Unknown {
				unknown++
			}
		}
		return page.Warn, text.Sprintf("not all objectives judged: %d of %s had too few answers", unknown, text.Count(len(x.Gates), "objective"))
	}
	return page.Bad, "not judged: the run did not finish"
}

// loadVisited ends a run that is a phase of an experiment: it removes the objects, stores no
// record, and prints the measurements.
func (a *app) loadVisited(ctx context.Context, cluster *load.Cluster, d *driven, l *plan.Load, out *load.Result, err error) error {
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
		if doc.Headline = doc.headline(); a.data() {
			return a.result(doc, err)
		}
		return err
	}
	for _, line := range doc.numbers() {
		fmt.Fprintln(a.screen.Out, line)
	}
	return nil
}

// unmeasured returns an error if a phase did not create all objects, or not all became ready. The
// error has the full reason, because nothing else of the run is stored.
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
		why += fmt.Sprintf(" (and %s)", text.Count(len(x.Errors)-1, "other error"))
	}
	return ui.Hinted(ui.Code(err), text.Errorf("%d of %d objects could not be created%s", x.Objects.Failed, x.Objects.Planned, why), "a run of fettle prove cannot be resumed; fix the reported cause and start again")
}

// numbers returns one measurement per line as name, number and unit. fettle prove parses this form.
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
