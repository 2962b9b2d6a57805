package balance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// victim is a process with threads that starts a child when asked to.
type victim struct {
	pid   int
	start func() int
}

func startVictim(t *testing.T) *victim {
	c := exec.Command(os.Args[0], "4")
	c.Env = append(os.Environ(), "FETTLE_TEST_BALANCE=hold")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	var children []int
	t.Cleanup(func() {
		in.Close()
		_ = c.Wait()
		for _, pid := range children {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	})
	return &victim{pid: c.Process.Pid, start: func() int {
		fmt.Fprintln(in)
		line, err := lines.ReadString('\n')
		pid, err2 := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || err2 != nil {
			t.Fatal(line, err, err2)
		}
		children = append(children, pid)
		return pid
	}}
}

// affinities returns the CPUs of the threads of processes.
func affinities(t *testing.T, pids ...int) map[host.TaskID]string {
	all := map[host.TaskID]string{}
	h := host.Live()
	for _, pid := range pids {
		for _, id := range threadsOf(h, taskOf(t, pid)) {
			if cpus, err := h.Sched.Affinity(id); err == nil {
				all[id] = cpus.String()
			} else if !errors.Is(err, host.ErrEnded) {
				t.Fatal(err)
			}
		}
	}
	return all
}

// differs returns the tasks whose CPUs are not those of all tasks before.
func differs(now map[host.TaskID]string, want string) (bad []string) {
	for id, cpus := range now {
		if cpus != want {
			bad = append(bad, id.String()+": "+cpus)
		}
	}
	return bad
}

// TestKilledMove kills the mover at every write of a journal and of a thread's CPUs. Undo then
// restores the CPUs of all threads, and of a child that has started since.
func TestKilledMove(t *testing.T) {
	root.Undisturbed(t) // the quiet state of another test binds each process of this machine
	all, err := host.Live().Sched.Affinity(taskOf(t, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if all.Len() < 2 {
		root.Missing(t, "needs two CPUs")
	}
	if nodes, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*"); len(nodes) != 1 {
		root.Missing(t, "needs a machine with one NUMA node; TestBalanceInGuest has four")
	}
	last := unit.CPUs(all.Max()).String()
	step := 1
	if testing.Short() {
		step = 4
	}
	v, narrowed, points := startVictim(t), 0, 0
	for n := 1; ; n += step {
		state := filepath.Join(t.TempDir(), "state")
		c := exec.Command(os.Args[0], state, strconv.Itoa(n), strconv.Itoa(v.pid), "0", last)
		c.Env = append(os.Environ(), "FETTLE_TEST_BALANCE=move")
		out, err := c.CombinedOutput()
		killed := err != nil && err.Error() == "signal: killed"
		if err != nil && !killed {
			t.Fatalf("%v\n%s", err, out)
		}
		if len(differs(affinities(t, v.pid), all.String())) > 0 {
			narrowed++
		}
		child := v.start()
		if _, err := newEngine(state).Undo(context.Background()); err != nil && !errors.Is(err, tune.ErrNothing) {
			t.Fatalf("killed at point %d: %v", n, err)
		}
		if bad := differs(affinities(t, v.pid, child), all.String()); len(bad) > 0 {
			t.Fatalf("killed at point %d: not restored: %v", n, bad)
		}
		if !killed {
			break
		}
		points++
	}
	if narrowed < 2 || points*step < 10 {
		t.Errorf("%d points, at %d of which threads were bound", points, narrowed)
	}
}

// TestMove binds all threads to the CPUs, those of a process in one transaction.
func TestMove(t *testing.T) {
	root.Undisturbed(t) // the quiet state of another test binds each process of this machine
	all, err := host.Live().Sched.Affinity(taskOf(t, os.Getpid()))
	if err != nil || all.Len() < 2 {
		root.Missing(t, "needs two CPUs")
	}
	v, e := startVictim(t), newEngine(filepath.Join(t.TempDir(), "state"))
	before := affinities(t, v.pid)
	last := unit.CPUs(all.Max()).String()
	d := Decision{PID: v.pid, Name: "hold", Nodes: "0", CPUs: last, Move: true, id: taskOf(t, v.pid)}
	if d.spread, err = cpu.ReadSpread(e.Host, d.id); err != nil {
		t.Fatal(err)
	}
	if err := move(t.Context(), e, &d); err != nil || d.Result != Moved {
		t.Fatalf("%+v, %v", d, err)
	}
	child := v.start()
	if bad := differs(affinities(t, v.pid, child), last); len(bad) > 0 {
		t.Errorf("not bound: %v", bad)
	}
	state, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	bound := unit.CPUs(all.Max())
	if !placedBy(state)(d.id, bound) || placedBy(&journal.State{})(d.id, bound) {
		t.Error("the journal does not show who has placed the process")
	}
	if placedBy(state)(d.id, unit.CPUs(0)) {
		t.Error("CPUs that an administrator has set since count as those of the pass")
	}
	if err := (&Report{last: d.Transaction}).current(e); err != nil {
		t.Error(err)
	}
	if err := (&Report{last: d.Transaction - 1}).current(e); !errors.Is(err, tune.ErrPass) {
		t.Errorf("a plan from before another pass: %v", err)
	}
	if err := d.undo(t.Context(), e, "worse"); err != nil || d.Result != Undone || d.Why != "worse" {
		t.Fatalf("%v, %+v", err, d)
	}
	now := affinities(t, v.pid)
	maps.DeleteFunc(now, func(id host.TaskID, _ string) bool { return before[id] == "" })
	if !maps.Equal(before, now) || len(differs(affinities(t, child), all.String())) > 0 {
		t.Errorf("undone: %v, before: %v", slices.Sorted(maps.Values(now)), before)
	}
}

// TestUndoInPart: CPUs that another program has set after the move stay, and the result says so.
func TestUndoInPart(t *testing.T) {
	root.Undisturbed(t) // the quiet state of another test binds each process of this machine
	all, err := host.Live().Sched.Affinity(taskOf(t, os.Getpid()))
	if err != nil || all.Len() < 2 {
		root.Missing(t, "needs two CPUs")
	}
	v, e := startVictim(t), newEngine(filepath.Join(t.TempDir(), "state"))
	d := Decision{PID: v.pid, Name: "hold", Nodes: "0", CPUs: unit.CPUs(all.Max()).String(), Move: true, id: taskOf(t, v.pid)}
	if d.spread, err = cpu.ReadSpread(e.Host, d.id); err != nil {
		t.Fatal(err)
	}
	if err := move(t.Context(), e, &d); err != nil || d.Result != Moved {
		t.Fatalf("%+v, %v", d, err)
	}
	other := unit.CPUs(all.Numbers()[0])
	if err := e.Host.Sched.SetAffinity(d.id, other); err != nil {
		t.Fatal(err)
	}
	if err := d.undo(t.Context(), e, "worse"); err != nil || d.Result != UndoneInPart || !strings.HasPrefix(d.Why, "worse; task:") {
		t.Errorf("%v, %s: %s", err, d.Result, d.Why)
	}
	if now, err := e.Host.Sched.Affinity(d.id); err != nil || !now.Equal(other) {
		t.Errorf("CPUs %s, %v", now, err)
	}
}

// TestOnePass: a second pass changes nothing while another one runs.
func TestOnePass(t *testing.T) {
	e := newEngine(filepath.Join(t.TempDir(), "state"))
	lock, err := tune.Pass(e.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), e, example()); !errors.Is(err, tune.ErrPass) || ui.Code(err) != ui.Busy {
		t.Errorf("%v, want %v", err, tune.ErrPass)
	}
	lock.Close()
	if lock, err = tune.Pass(e.StateDir); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if s, err := e.State(); err != nil || len(s.Txs) > 0 {
		t.Errorf("%v, %v", s, err)
	}
}

// TestMoveEnded: a process that has ended is named as not moved, and one that has its number since is
// left alone.
func TestMoveEnded(t *testing.T) {
	root.Undisturbed(t) // the quiet state of another test binds each process of this machine
	e := newEngine(filepath.Join(t.TempDir(), "state"))
	id := taskOf(t, startVictim(t).pid)
	all, err := e.Host.Sched.Affinity(id)
	if err != nil {
		t.Fatal(err)
	}
	for name, gone := range map[string]host.TaskID{"ended": {TID: 1 << 22, Start: 1}, "number in use": {TID: id.TID, Start: id.Start - 1}} {
		d := Decision{PID: gone.TID, Name: "hold", Nodes: "0", CPUs: unit.CPUs(all.Max()).String(), Move: true, id: gone, spread: cpu.Spread{0: 1 << 20}}
		if err := move(t.Context(), e, &d); err != nil || d.Result != Failed || d.Why != "it has ended" {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if now := affinities(t, id.TID); len(differs(now, all.String())) > 0 {
		t.Errorf("bound: %v", now)
	}
}

func taskOf(t *testing.T, pid int) host.TaskID {
	t.Helper()
	task, err := host.Live().Sched.Task(pid)
	if err != nil {
		t.Fatal(err)
	}
	return task.TaskID
}
