package host

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/unit"
)

func sleeper(t *testing.T) (*exec.Cmd, Task) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	task, err := Live().Sched.Task(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, task
}

func TestTasks(t *testing.T) {
	_, want := sleeper(t)
	tasks, err := Live().Sched.Tasks()
	if err != nil {
		t.Fatal(err)
	}
	found, kernel := false, 0
	for _, task := range tasks {
		if task.TaskID == want.TaskID {
			found = task.PID == task.TID && task.Parent == os.Getpid() && !task.Kernel
		}
		if task.Kernel {
			kernel++
			if task.Cmdline != "["+task.Comm+"]" {
				t.Errorf("kernel thread %q has command line %q", task.Comm, task.Cmdline)
			}
		}
	}
	if !found || kernel == 0 {
		t.Errorf("of %d tasks %d are kernel threads; the child is found: %v", len(tasks), kernel, found)
	}
}

func TestAffinityAndPolicy(t *testing.T) {
	root.Undisturbed(t) // the quiet state of another test binds each process of this machine
	cmd, task := sleeper(t)
	s := Live().Sched
	all, err := s.Affinity(task.TaskID)
	if err != nil || all.IsEmpty() {
		t.Fatal(all, err)
	}
	one := unit.CPUs(all.Max())
	if err := s.SetAffinity(task.TaskID, one); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Affinity(task.TaskID); err != nil || !got.Equal(one) {
		t.Errorf("affinity %s, %v: want %s", got, err, one)
	}
	if err := s.SetPolicy(task.TaskID, Policy{Name: "batch", Nice: 7, ResetOnFork: true}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Policy(task.TaskID); err != nil || got.Name != "batch" || got.Nice != 7 || !got.ResetOnFork {
		t.Errorf("policy %+v, %v", got, err)
	}
	if os.Geteuid() == 0 {
		for _, p := range []Policy{{Name: "fifo", Priority: 3, Nice: 7}, {Name: "other", Nice: 7}} {
			if err := s.SetPolicy(task.TaskID, p); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Policy(task.TaskID); err != nil || got != p {
				t.Errorf("policy %+v, %v: want %+v", got, err, p)
			}
		}
	}
	// The thread id alone does not identify a task.
	other := TaskID{task.TID, task.Start - 1}
	if err := s.SetAffinity(other, all); !errors.Is(err, ErrEnded) {
		t.Errorf("another task with this number: %v", err)
	}
	if err := s.SetAffinity(task.TaskID, unit.CPUSet{}); err == nil {
		t.Error("no CPU at all was taken")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if _, err := s.Policy(task.TaskID); !errors.Is(err, ErrEnded) {
		t.Errorf("after its end: %v", err)
	}
}

func TestEvents(t *testing.T) {
	if os.Geteuid() != 0 {
		root.Missing(t, "process events are for root")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := Live().Sched.Events(ctx, EventFork|EventExec)
	if err != nil {
		t.Fatal(err)
	}
	// A busy kernel drops some events.
	seen := map[int]EventKind{}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		cmd := exec.Command("/bin/true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		for wait := time.After(time.Second); wait != nil; {
			select {
			case ev := <-events:
				if ev.Kind == EventComm {
					t.Errorf("not asked for: %+v", ev)
				}
				seen[ev.PID] |= ev.Kind
				if seen[cmd.Process.Pid] == EventFork|EventExec {
					return
				}
			case <-wait:
				wait = nil
			}
		}
	}
	t.Error("of no program the fork and the exec were told in a minute")
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (init) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 25 1 1")
	f.Add("7 (a) b) (c)) Z 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 99")
	f.Add("7 ) (")
	f.Fuzz(func(t *testing.T, text string) {
		task, err := parseStat(text)
		if err == nil && !strings.Contains(text, "("+task.Comm+")") {
			t.Errorf("%q: name %q", text, task.Comm)
		}
	})
}
