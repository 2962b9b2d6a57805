package cpu_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/unit"
)

// TestHeirs restricts the CPUs of a process. Children that start later inherit these CPUs, and have
// the former ones after undo. A child that has chosen its own CPUs keeps them.
func TestHeirs(t *testing.T) {
	root.Undisturbed(t) // the quiet state of another test binds each process of this machine
	sched := host.Live().Sched
	parent := exec.Command("/bin/sh", "-c", "all=; while read x; do sleep 600 >/dev/null & all=\"$all $!\"; echo $!; done; kill $all")
	ask, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(answers)
	t.Cleanup(func() { ask.Close(); _ = parent.Wait() })
	spawn := func() host.TaskID {
		fmt.Fprintln(ask)
		line, err := lines.ReadString('\n')
		pid, err2 := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		return taskID(t, pid)
	}
	id := taskID(t, parent.Process.Pid)
	all, err := sched.Affinity(id)
	if err != nil {
		t.Fatal(err)
	}
	if all.Len() < 2 {
		root.Missing(t, "needs two CPUs")
	}
	first, last := unit.CPUs(all.Numbers()[0]), unit.CPUs(all.Max())
	early := spawn()
	e := engine(t)
	want := func(s setting.Setting) setting.Change {
		return setting.Change{Setting: s, Want: setting.Text(last.String()), Reason: setting.Reason{Text: "test"}}
	}
	a, err := e.Apply(context.Background(), func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return e.PlanChanges(ctx, []setting.Change{want(cpu.TaskAffinity(id)), want(cpu.TaskHeirs(id))}, s)
	}, tune.ApplyOptions{Kind: journal.Apply, Atomic: true})
	if err != nil || a.Result != journal.ResultDone {
		t.Fatal(a, err)
	}
	heir, own := spawn(), spawn()
	if err := sched.SetAffinity(own, first); err != nil {
		t.Fatal(err)
	}
	check := func(when string, want map[host.TaskID]unit.CPUSet) {
		t.Helper()
		for id, cpus := range want {
			if got, err := sched.Affinity(id); err != nil || !got.Equal(cpus) {
				t.Errorf("%s: process %s has CPUs %s, want %s (%v)", when, id, got, cpus, err)
			}
		}
	}
	check("applied", map[host.TaskID]unit.CPUSet{id: last, heir: last, early: all, own: first})
	// A new engine, as in the process of fettle undo.
	again := engine(t)
	again.StateDir = e.StateDir
	if _, err := again.Undo(context.Background()); err != nil {
		t.Fatal(err)
	}
	check("undone", map[host.TaskID]unit.CPUSet{id: all, heir: all, early: all, own: first})
}

func taskID(t *testing.T, pid int) host.TaskID {
	t.Helper()
	task, err := host.Live().Sched.Task(pid)
	if err != nil {
		t.Fatal(err)
	}
	return task.TaskID
}
