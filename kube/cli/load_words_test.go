package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/ui/page"
	"fettle.dev/fettle/kube/load"
	"fettle.dev/fettle/kube/load/plan"
	loadrun "fettle.dev/fettle/kube/load/run"
	"fettle.dev/fettle/kube/strict"
)

// TestLoadStdin tests that "-" is standard input, as for kubectl, and not a file.
func TestLoadStdin(t *testing.T) {
	const one = "ClusterLoader:\n  projects:\n  - num: 1\n    basename: p\n    tuning: t\n    pods: [{num: 1, basename: a, image: i}]\n  tuningsets: [{name: t, pods: {stepping: {stepsize: 1}}}]\n"
	for text, want := range map[string]struct {
		code int
		says string
	}{
		one:     {ui.Done, "2 objects, 1 pod, "},
		one[:9]: {ui.Usage, `standard input:1: want the top-level key ClusterLoader (with projects)`},
		"# " + strings.Repeat("x", strict.MaxFile) + "\n" + one: {ui.Usage, "standard input: larger than 16 MiB"},
	} {
		name := filepath.Join(t.TempDir(), "stdin")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		was := os.Stdin
		os.Stdin = f
		code, out, errs := run(t, "load", "plan", "--offline", "-")
		os.Stdin = was
		f.Close()
		if code != want.code || !strings.Contains(errs+out, want.says) {
			t.Errorf("exit code %d, want %d and %q\n%s%s", code, want.code, want.says, out, errs)
		}
		if code == ui.Done && !strings.Contains(out, "1 step to wait for\n") {
			t.Errorf("steps: %s", out)
		}
	}
}

// TestOne tests the singular for one object.
func TestOne(t *testing.T) {
	p, err := plan.Compile(t.Context(), &plan.Load{Stages: []plan.Stage{{Prefix: "p", Iterations: 1, PerNamespace: 1}}}, "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	of := func(n int) *LoadRun {
		out := &load.Result{DriveOutcome: &loadrun.DriveOutcome{Created: n, Throttled: int64(n), NotReady: n, Errors: map[string]int{"full": n}}}
		return newLoadRun(&driven{plan: p}, &plan.Load{}, out, load.New(p), nil)
	}
	for n, want := range map[int][]string{
		1: {"done: 1 object made, 1 not ready; 0/s, throttled 1 time", "1 time: full", "1 object was not ready"},
		2: {"done: 2 objects made, 2 not ready; 0/s, throttled 2 times", "2 times: full", "2 objects were not ready"},
	} {
		x := of(n)
		x.judge(true)
		x.Gates = []load.Measured{{Gate: "ready p99 < 5s", Text: "7.2 s"}}
		if h := x.headline(); len(h.Lines) != 2 || h.Lines[0] != "✗ an objective is not met; 1 of 1 gate: ready p99 < 5s (7.2 s)" || h.Lines[1] != x.sum() || h.Figures["objects_created"] != float64(n) || h.Figures["gates_not_met"] != 1 {
			t.Errorf("%+v", h)
		}
		x.Gates = nil
		text := x.sum() + "\n" + strings.Join(x.lines(), "\n") + "\n" + x.judge(true).Error()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%q is not in %q", w, text)
			}
		}
	}
}

// TestVerdict tests that an undecided objective is neither met nor missed, on the page and
// elsewhere, and that missed objectives are shown before undecided ones.
func TestVerdict(t *testing.T) {
	met, unknown, missed := load.Measured{Gate: "a", Met: true}, load.Measured{Gate: "b", Unknown: true, Text: "4 answers"}, load.Measured{Gate: "c", Text: "2 s"}
	slow := &loadrun.Servers{Calls: []loadrun.Calls{{Series: loadrun.Series{Verb: "GET", Resource: "pods", Scope: "resource"}, P99S: 2, LimitS: 1, Verdict: "missed"}}}
	for _, c := range []struct {
		gates   []load.Measured
		asked   bool
		failed  int
		servers *loadrun.Servers
		err     string
		code    int
		verdict string
		mark    page.Tone
		says    string
	}{
		{gates: []load.Measured{met, met}, verdict: "met", mark: page.Good, says: "all objectives met"},
		{gates: []load.Measured{met, unknown}, verdict: "cannot tell", mark: page.Warn, says: "1 of 2 objectives had too few answers"},
		{gates: []load.Measured{unknown}, asked: true, err: "unknown whether b is met: 4 answers", code: ui.GateNotMet, verdict: "cannot tell", mark: page.Warn, says: "1 of 1 objective had too few answers"},
		{gates: []load.Measured{unknown, missed}, asked: true, err: "c is not met: 2 s", code: ui.GateNotMet, verdict: "not met", mark: page.Bad, says: "is not met"},
		{gates: []load.Measured{unknown}, failed: 1, err: "1 of 3 objects could not be created", code: ui.Partial, verdict: "not met", mark: page.Bad, says: "is not met"},
		{gates: []load.Measured{met}, servers: slow, err: "API server metrics: p99 of GET of pods", code: ui.GateNotMet, verdict: "not met", mark: page.Bad, says: "is not met"},
		{gates: []load.Measured{met}, asked: true, servers: slow, verdict: "met", mark: page.Good, says: "all objectives met"},
	} {
		x := &LoadRun{Verdict: "none", Gates: c.gates, Servers: c.servers}
		x.Objects.Planned, x.Objects.Created, x.Objects.Failed = 3, 3-c.failed, c.failed
		if mark, text := x.expected(); mark != page.Bad || !strings.HasPrefix(text, "not judged") {
			t.Errorf("before its end: %s %s", mark, text)
		}
		err := x.judge(c.asked)
		if (err == nil) != (c.err == "") || err != nil && (!strings.HasPrefix(err.Error(), c.err) || ui.Code(err) != c.code) {
			t.Errorf("%+v: ends with %v (%d), want %q (%d)", c.gates, err, ui.Code(err), c.err, c.code)
		}
		if mark, text := x.expected(); x.Verdict != c.verdict || mark != c.mark || !strings.Contains(text, c.says) {
			t.Errorf("%+v: %s, %s, %s", c.gates, x.Verdict, mark, text)
		}
	}
}

// TestReasons tests that the most frequent reason comes first, and the sum of other reasons last.
func TestReasons(t *testing.T) {
	x := &LoadRun{Errors: map[string]int{loadrun.OtherReasons: 30, "a": 1, "b": 7, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}}
	if got := strings.Join(x.reasons(), "|"); got != "7 times: b|1 time: a|1 time: c|1 time: d|1 time: e|32 times: for other reasons (see --output json)" {
		t.Error(got)
	}
}

// TestPodsOnEachNode tests that the headline contains the pods of DaemonSets.
func TestPodsOnEachNode(t *testing.T) {
	dir := t.TempDir()
	set := filepath.Join(dir, "set.yml")
	if err := os.WriteFile(set, []byte("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d-{{.Replica}}}\nspec: {template: {spec: {}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := filepath.Join(dir, "load.yml")
	if err := os.WriteFile(load, []byte("jobs: [{name: a, namespace: a, qps: 1, objects: [{objectTemplate: "+set+", replicas: 2}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := run(t, "load", "plan", "--offline", load); code != ui.Done || !strings.Contains(out, "3 objects, 0 pods and 2 more on each node, ") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}
