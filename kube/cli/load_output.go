package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// LoadRun is the JSON result of a load run.
type LoadRun struct {
	Schema string `json:"schema"` // fettle/cluster-load-run/v1
	// Headline is set at the end: expected and created objects, and how long pods took.
	Headline ui.Headline `json:"headline"`
	Run      string      `json:"run"`
	File     string      `json:"file,omitempty"`
	// State is done, failed, stopped (by the brake) or interrupted; "undone" follows if the run was
	// undone.
	State string `json:"state"`
	// Verdict is met, not met or cannot tell; "" for an incomplete run.
	Verdict string `json:"verdict"`
	// Began is the start time, Server the address of the API server.
	Began   time.Time         `json:"began"`
	Server  string            `json:"server"`
	Cluster string            `json:"cluster,omitempty"` // UID of the namespace kube-system
	Version string            `json:"kubernetes,omitempty"`
	About   map[string]string `json:"about,omitempty"`
	Objects struct {
		Planned int `json:"planned"`
		Before  int `json:"made_before"` // created by an earlier process
		Created int `json:"created"`
		Adopted int `json:"adopted"` // part of created: created without a received response
		Reused  int `json:"reused"`
		Failed  int `json:"failed"`
	} `json:"objects"`
	// Actions counts the actions of patch, delete and read jobs.
	Actions   *LoadActions `json:"actions,omitempty"`
	DurationS float64      `json:"duration_s"`
	// RatePerS is the number of objects started per second.
	RatePerS  float64 `json:"rate_per_s"`
	Throttled int64   `json:"throttled"` // responses 429
	Retried   int64   `json:"retried"`
	Late      int64   `json:"late"`      // started late, because the maximum number of requests was running
	Widest    int     `json:"in_flight"` // maximum number of concurrent requests
	// NotReady is the number of objects that were not ready within the time limit.
	NotReady int             `json:"not_ready"`
	Example  string          `json:"not_ready_example,omitempty"`
	Times    load.Times      `json:"times"`
	Gates    []load.Measured `json:"gates"`
	// Servers has the API server's metrics; NotSeen names unreadable ones.
	Servers *loadrun.Servers `json:"servers,omitempty"`
	NotSeen string           `json:"not_seen,omitempty"`
	Errors  map[string]int   `json:"errors,omitempty"`
	Removed int              `json:"removed"`
	Kept    []KeptObject     `json:"kept,omitempty"`
	// Absent is the number of objects that were gone before the run removed them.
	Absent  int      `json:"absent,omitempty"`
	Waiting []string `json:"namespaces_terminating,omitempty"`
	// Record is the ID of the stored measurements, for load compare.
	Record string `json:"record,omitempty"`
}

// LoadActions counts actions on objects of the run.
type LoadActions struct {
	Planned int `json:"planned"`
	Before  int `json:"done_before"` // by an earlier process
	Patched int `json:"patched"`
	Deleted int `json:"deleted"`
	Read    int `json:"read"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"` // the object did not exist
	// Others names actions whose labels also match other clients' objects. These objects stay
	// untouched.
	Others []string `json:"others,omitempty"`
}

// KeptObject is an object that an undo left in the cluster.
type KeptObject struct {
	Object string `json:"object"`
	Why    string `json:"why"`
}

func newLoadRun(d *driven, l *plan.Load, out *load.Result, m *load.Meter, gates []load.Measured) *LoadRun {
	x := &LoadRun{
		Schema: "fettle/cluster-load-run/v1", Run: d.id, File: l.File, State: "done", Verdict: verdictNone, Began: d.began,
		DurationS: time.Since(d.began).Seconds(), RatePerS: out.Rate(), Throttled: out.Throttled, Retried: out.Retried, Late: out.Late, Widest: out.Widest,
		NotReady: out.NotReady, Example: out.Example, Times: m.Times(), Gates: gates, Errors: out.Errors,
		Servers: out.Servers, NotSeen: out.Blind,
	}
	x.Objects.Planned, x.Objects.Before, x.Objects.Created = d.plan.Len(), out.Before+out.Found, out.Created-out.Found
	if n := d.plan.Actions(); n > 0 {
		x.Actions = &LoadActions{
			Planned: n, Before: out.ActedBefore, Patched: out.Acted[plan.Patch], Deleted: out.Acted[plan.Remove], Read: out.Acted[plan.Get],
			Failed: out.ActFailed, Skipped: out.Skipped, Others: out.Others,
		}
	}
	x.Objects.Adopted, x.Objects.Reused, x.Objects.Failed = out.Adopted-out.Found, out.Reused, out.Failed
	return x
}

// undone records an undo's result.
func (x *LoadRun) undone(out *loadrun.UndoOutcome) {
	x.Removed, x.Absent = out.Removed, out.Absent
	for _, k := range out.Kept {
		x.Kept = append(x.Kept, KeptObject{k.Object, k.Why})
	}
	x.Waiting = out.Waiting
}

// either returns one if n is 1, otherwise more.
func either(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// sum returns the result in one line.
func (x *LoadRun) sum() string {
	o := x.Objects
	line := fmt.Sprintf("%s: %s made", x.State, text.Count(o.Created, "object"))
	type more struct {
		n    int
		what string
	}
	add := func(all ...more) {
		for _, m := range all {
			if m.n > 0 {
				line += text.Sprintf(", %d %s", m.n, m.what)
			}
		}
	}
	add(more{o.Adopted, "of them after a request whose answer was lost"}, more{o.Before, "made before"}, more{o.Reused, "reused"}, more{o.Failed, "could not be created"},
		more{x.NotReady, "not ready"}, more{x.Removed, "removed"}, more{x.Absent, "gone already"})
	if o.Created > 0 {
		line += fmt.Sprintf("; %s/s", unit.Digits(x.RatePerS))
	}
	if a := x.Actions; a != nil {
		add(more{a.Patched, "patched"}, more{a.Deleted, "deleted"}, more{a.Read, "read"}, more{a.Before, "of these done by an earlier call"}, more{a.Failed, "failed"}, more{a.Skipped, "skipped"})
	}
	if x.Throttled > 0 {
		line += ", throttled " + text.Count(x.Throttled, "time")
	}
	return line
}

// headline returns the verdict, the created objects, and how long pods took.
func (x *LoadRun) headline() (h ui.Headline) {
	mark, expected := x.expected()
	var missed []string
	for _, g := range x.Gates {
		if !g.Met {
			missed = append(missed, g.Gate+" ("+g.Text+")")
		}
	}
	if len(missed) > 0 {
		h.Count("gates_not_met", len(missed), "")
		expected += text.Sprintf("; %d of %s: %s", len(missed), h.Count("gates", len(x.Gates), "gate"), strings.Join(missed, ", "))
	}
	h.Line("%s %s", mark.Sign(), expected)
	h.Count("objects_created", x.Objects.Created, "")
	if x.Objects.Created > 0 {
		h.Figure("rate_per_s", x.RatePerS, "")
	}
	if x.Throttled > 0 {
		h.Count("throttled", int(x.Throttled), "")
	}
	h.Line("%s", x.sum())
	if t := x.Times.Ready; t.N > 0 {
		line := fmt.Sprintf("%s ready: p50 %s, p99 %s", h.Count("pods_ready", int(t.N), "pod"), h.Value("ready_p50_s", t.P50S, unit.FormatSeconds(t.P50S)), h.Value("ready_p99_s", t.P99S, unit.FormatSeconds(t.P99S)))
		if x.Late > 0 {
			line += fmt.Sprintf("; %s started late: all %s were in progress", h.Count("started_late", int(x.Late), "object"), h.Count("in_flight", x.Widest, "request"))
		}
		h.Line("%s", line)
	}
	return h
}

// shownReasons is the number of reasons printed; the JSON has all.
const shownReasons = 5

// reasons returns why objects could not be created: most frequent reason first, the sum of unlisted
// reasons last.
func (x *LoadRun) reasons() []string {
	rest := x.Errors[loadrun.OtherReasons]
	reasons := slices.DeleteFunc(slices.Sorted(maps.Keys(x.Errors)), func(why string) bool { return why == loadrun.OtherReasons })
	slices.SortStableFunc(reasons, func(a, b string) int { return cmp.Compare(x.Errors[b], x.Errors[a]) })
	var all []string
	for i, why := range reasons {
		if i < shownReasons {
			all = append(all, text.Count(x.Errors[why], "time")+": "+why)
		} else {
			rest += x.Errors[why]
		}
	}
	if rest > 0 {
		all = append(all, text.Count(rest, "time")+": for other reasons (see --output json)")
	}
	return all
}

// lines returns further details of the result.
func (x *LoadRun) lines() []string {
	var all []string
	all = append(all, x.reasons()...)
	if x.Actions != nil {
		all = append(all, x.Actions.Others...)
	}
	for _, k := range x.Kept {
		all = append(all, k.Object+" is kept: "+k.Why)
	}
	for _, name := range x.Waiting {
		all = append(all, "the namespace "+name+" is still being removed by the server")
	}
	if x.NotSeen != "" {
		all = append(all, "not checked: "+x.NotSeen)
	}
	return all
}

// shownCalls is the number of rows in a table of calls; the JSON has all.
const shownCalls = 8

// toSecond returns the mark for a time that includes n differences of whole seconds.
func toSecond(n int64) string {
	if n > 0 {
		return " (±1 s)"
	}
	return ""
}

// tables returns the tables that are not empty.
func (x *LoadRun) tables() []ui.Grid {
	times := ui.Grid{Columns: ui.Columns("time", "number", "p50", "p95", "p99", "max")}
	row := func(what string, t engine.Times) {
		if t.N > 0 {
			times.Rows = append(times.Rows, []string{what, thousands(int(t.N)), unit.FormatSeconds(t.P50S), unit.FormatSeconds(t.P95S), unit.FormatSeconds(t.P99S), unit.FormatSeconds(t.MaxS)})
		}
	}
	row("create", x.Times.Create)
	for _, c := range x.Times.Calls {
		row(cmp.Or(c.Do, "call for")+" "+c.Kind, c.Times)
	}
	row("pod scheduled"+toSecond(x.Times.WholeSeconds.Scheduled), x.Times.Scheduled)
	row("pod ready"+toSecond(x.Times.WholeSeconds.Ready), x.Times.Ready)

	calls := ui.Grid{Columns: ui.Columns("by the API server's metrics", "calls", "p50", "p99", "objective", "verdict")}
	if s := x.Servers; s != nil {
		for i, c := range s.Calls {
			if i < shownCalls || c.Verdict == "missed" {
				calls.Rows = append(calls.Rows, []string{c.Verb + " " + c.Resource + " (" + c.Scope + ")", thousands(c.N), unit.FormatSeconds(c.P50S), unit.FormatSeconds(c.P99S), unit.FormatSeconds(c.LimitS), c.Verdict})
			}
		}
		if s.EtcdN > 0 {
			calls.Rows = append(calls.Rows, []string{"calls to etcd", thousands(s.EtcdN), "", unit.FormatSeconds(s.EtcdP99S), "", ""})
		}
		for _, m := range s.Members {
			if m.FsyncN > 0 {
				calls.Rows = append(calls.Rows, []string{"etcd's log to the disk (" + m.Member + ")", thousands(m.FsyncN), "", unit.FormatSeconds(m.FsyncP99S), "", ""})
			}
		}
	}

	gates := ui.Grid{Columns: []ui.Column{{Head: "expected"}, {Head: "verdict"}, {Head: "measured", Below: true}}}
	for _, gate := range x.Gates {
		word := verdictNotMet
		switch {
		case gate.Met:
			word = verdictMet
		case gate.Unknown:
			word = verdictOpen
		}
		gates.Rows = append(gates.Rows, []string{gate.Gate, word, gate.Text})
	}
	var all []ui.Grid
	for _, g := range []ui.Grid{times, calls, gates} {
		if len(g.Rows) > 0 {
			all = append(all, g)
		}
	}
	return all
}

func (a *app) printRun(x *LoadRun) {
	if p := a.screen.Page; p != nil {
		p.Tone, _ = x.expected()
		p.Note(x.where())
	}
	ui.PrintHeadline(a.screen, &x.Headline)
	for _, line := range x.lines() {
		a.screen.Say("%s", line)
	}
	for _, t := range x.tables() {
		fmt.Fprintln(a.screen.Out)
		t.Write(a.screen)
	}
	if left := x.Objects.Created + x.Objects.Before - x.Removed - x.Absent; left > 0 {
		ui.PrintLine(a.screen, "to remove the objects of the run:")
		ui.PrintCommand(a.screen, text.CommandLine([]string{"kubectl", "fettle", "load", "undo", x.Run}))
	}
}

// where returns the loaded cluster and the start time.
func (x *LoadRun) where() string {
	text := fmt.Sprintf("%s, begun %s, %s", cmp.Or(x.File, "the built-in load"), x.Began.UTC().Format("2006-01-02 15:04:05 UTC"), unit.FormatSeconds(x.DurationS))
	if x.Server != "" {
		text += ", at " + x.Server
	}
	if x.Version != "" {
		text += ", Kubernetes " + x.Version
	}
	for _, name := range slices.Sorted(maps.Keys(x.About)) {
		text += fmt.Sprintf(", %s: %s", name, x.About[name])
	}
	return text
}
