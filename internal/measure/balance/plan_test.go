package balance

import (
	"bytes"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// example has one process for each result, and one that stays.
func example() *Report {
	r := &Report{Nodes: 4, Processes: []Decision{
		{PID: 1234567, Name: "fifteen-letters", MemoryBytes: 350 << 20, Move: true, Nodes: "0-1,3", CPUs: "0-31,96-127", MoveBytes: 262 << 20, LocalPercent: new(25.0)},
		{PID: 12, Name: "b", MemoryBytes: 350 << 20, Move: true, Nodes: "1", CPUs: "1", MoveBytes: 262 << 20, LocalPercent: new(30.0)},
		{PID: 13, Name: "c", MemoryBytes: 350 << 20, Move: true, Nodes: "2", CPUs: "2", MoveBytes: 262 << 20, LocalPercent: new(60.0)},
		{PID: 14, Name: "d", MemoryBytes: 350 << 20, Move: true, Nodes: "3", CPUs: "3", MoveBytes: 262 << 20},
		{PID: 15, Name: "e", MemoryBytes: 8 << 30, Why: "kubelet: in a pod: /kubepods.slice/kubepods-podaaaaaaaa_bbbb_cccc_dddd_eeeeeeeeeeee.slice"},
	}}
	r.Headline = r.summarize()
	return r
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	s := ui.NewScreen(&out, &out)
	s.Width = 80
	r := example()
	r.Print(s)
	for i, result := range []string{Moved, MovedInPart, Undone, Failed} {
		d := &r.Processes[i]
		d.Result, d.Transaction = result, 10+i
		if d.LocalPercent != nil {
			d.LocalAfterPercent = new(98.0)
		}
	}
	r.Processes[1].Why = "stopped: node 1 has 60 MiB free, limit 64 MiB"
	r.Headline = r.summarizeResults()
	r.PrintResults(s)
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 && strings.Contains(line, " ") && !strings.Contains(line, "kubepods") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		"4 processes to move, with 1.02 GiB on other nodes; 1 left where they are",
		"2 of 4 processes moved: 27.5 % local before, 98 % now; 1 in part, 1 undone, 1 failed",
		"to restore: fettle undo 10 11\n", "stopped: node 1 has 60 MiB free",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " ")+"\n", strings.TrimSuffix(want, "\n")) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
	if err := r.Err(); ui.Code(err) != ui.Partial || !strings.HasPrefix(err.Error(), "2 of 4 processes") {
		t.Error(err)
	}
}

func TestWorse(t *testing.T) {
	for _, c := range []struct {
		before, after         *float64
		waitBefore, waitAfter float64
		want                  string
	}{
		{new(25.0), new(98.0), 0, 0, ""},
		{new(60.0), new(59.5), 0, 20, ""}, // a helper thread of its runtime waits
		{new(25.0), new(98.0), 50, 70, ""},
		{new(60.0), new(40.0), 0, 0, "40 % local after the move, 60 % before"},
		{new(25.0), new(98.0), 2, 50, "it waits for a CPU 50 % of its runnable time, 2 % before"},
		{new(25.0), nil, 60, 0, ""},
	} {
		d := Decision{LocalPercent: c.before, LocalAfterPercent: c.after}
		if got := d.worse(c.waitBefore, c.waitAfter); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A thread that ends takes its time along, and a new one brings its own.
func TestWaitPercent(t *testing.T) {
	one, two, three := host.TaskID{TID: 1}, host.TaskID{TID: 2}, host.TaskID{TID: 3}
	before := map[host.TaskID]runnable{one: {ran: 1e12, waited: 1e12}, two: {ran: 5e9, waited: 5e9}}
	for _, c := range []struct {
		after map[host.TaskID]runnable
		want  float64
	}{
		{map[host.TaskID]runnable{two: {ran: 5.5e9, waited: 5.5e9}, three: {ran: 0.5e9}}, 25},
		{map[host.TaskID]runnable{two: {ran: 6e9, waited: 5e9}, three: {waited: 0.5e9}}, 0}, // a helper thread
		{map[host.TaskID]runnable{two: {ran: 5.001e9, waited: 5.002e9}}, 0},
		{map[host.TaskID]runnable{two: {ran: 5e9, waited: 5.9e9}}, 100},
		{nil, 0},
	} {
		if got := waitPercent(before, c.after); got != c.want {
			t.Errorf("%v: %g %%, want %g", c.after, got, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	id := host.TaskID{TID: 5, Start: 7}
	step := func(v plugin.Verdict, why string) tune.Step {
		return tune.Step{Setting: cpu.TaskSpread(id), Verdict: v, Why: why}
	}
	for _, c := range []struct {
		steps       []tune.Step
		stopped     string
		result, why string
	}{
		{[]tune.Step{step(plugin.OK, "")}, "", Moved, ""},
		{[]tune.Step{step(plugin.OK, "")}, "stopped: at the end", Moved, ""},
		{[]tune.Step{step(plugin.Rejected, "the kernel kept 0=1kB")}, "", MovedInPart, "memory: the kernel kept 0=1kB"},
		{[]tune.Step{step(plugin.Rejected, "the kernel kept 0=1kB")}, "stopped: full", MovedInPart, "stopped: full"},
		{[]tune.Step{{Setting: cpu.TaskAffinity(id), Verdict: plugin.Rejected, Why: "no"}, step(plugin.OK, "")}, "", MovedInPart, "task:5@7/affinity: no"},
		{[]tune.Step{{Setting: cpu.TaskAffinity(id), Verdict: plugin.Unsupported, Why: tune.EndedItself}}, "", Moved, ""},
	} {
		d := Decision{id: id}
		if d.judge(&tune.Plan{Steps: c.steps}, c.stopped); d.Result != c.result || d.Why != c.why {
			t.Errorf("%s: %q, want %s: %q", d.Result, d.Why, c.result, c.why)
		}
	}
}
