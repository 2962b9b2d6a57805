package cpu_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

func TestFollows(t *testing.T) {
	for _, tt := range []struct {
		typ   string
		lines []string
		want  bool
	}{
		{"scheduler", []string{"isolated_cores=1"}, true},
		{"scheduler", []string{"group.x=0:f:1:*:x", "runtime=1"}, true},
		{"scheduler", []string{"group.x=0:f:1:*:x", "runtime=0"}, false},
		{"scheduler", []string{"group.x=", "sched_nr_migrate=8"}, false},
		{"sysctl", []string{"isolated_cores=1"}, false},
	} {
		if got := cpu.Follows(plugin.Unit(tt.typ, tt.lines...)); got != tt.want {
			t.Errorf("%v: %v", tt.lines, got)
		}
	}
	plugin.Proves(t, plugin.FakeTree, "scheduler", "runtime")
}

// TestFollow uses the kernel's events for new tasks: a task that runs a matching program gets its
// policy and CPUs, and its former values when following ends.
func TestFollow(t *testing.T) {
	root.Disposable(t)
	h := host.Live()
	early := child(t, "fettle-early")
	was, all := policy(t, early), affinity(t, early)
	u := plugin.Unit("scheduler", "perf_mmap_pages=1", "group.follow=0:f:4:1:^fettle-follow", "group.early=0:b:0:*:^fettle-early")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- cpu.Follow(ctx, h, table.Kinds(h), *u, func(err error) { t.Errorf("told: %v", err) })
	}()
	is := func(id host.TaskID, want string) bool {
		return root.Eventually(time.Minute, func() bool { return policy(t, id) == want })
	}
	if !is(early, "batch 0") {
		t.Errorf("one that began before: %s", policy(t, early))
	}
	start := time.Now()
	new, other := child(t, "fettle-follow"), child(t, "fettle-other")
	if !is(new, "fifo 4") || !root.Eventually(time.Minute, func() bool { return affinity(t, new) == "0" }) {
		t.Errorf("a new task: %s on %s", policy(t, new), affinity(t, new))
	}
	t.Logf("policy and CPUs set within %v of the start", time.Since(start))
	// A burst is not lost: the kernel tells of what did not fit.
	var burst []*exec.Cmd
	for i := range 200 {
		c := exec.Command("/bin/sleep", "600")
		c.Args[0] = "fettle-follow-burst"
		if err := c.Start(); err != nil {
			t.Fatal(i, err)
		}
		burst = append(burst, c)
	}
	defer func() {
		for _, c := range burst {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	missing := 0
	root.Eventually(time.Minute, func() bool {
		missing = 0
		for _, c := range burst {
			if task, err := h.Sched.Task(c.Process.Pid); err != nil || policy(t, task.TaskID) != "fifo 4" {
				missing++
			}
		}
		return missing == 0
	})
	if missing > 0 {
		t.Errorf("%d of %d tasks of a burst were missed", missing, len(burst))
	}
	plugin.Proves(t, plugin.Here(), "scheduler", "perf_mmap_pages") // one page, and no event is lost
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, id := range []host.TaskID{early, new, other} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id.TID))
		if policy(t, id) != was || affinity(t, id) != all {
			t.Errorf("%s is left with %s on %s", b, policy(t, id), affinity(t, id))
		}
	}
}

// TestFollowSleeps tests that only the start of a program is an event.
func TestFollowSleeps(t *testing.T) {
	root.Disposable(t)
	ctx, cancel := context.WithCancel(context.Background())
	events, err := host.Live().Sched.Events(ctx, host.EventExec)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan map[int]int)
	go func() {
		execs := map[int]int{}
		for ev := range events {
			if ev.Kind != host.EventExec && ev.Kind != host.EventLost {
				t.Errorf("%+v came through", ev)
			}
			execs[ev.PID]++
		}
		seen <- execs
	}()
	started := map[int]bool{}
	for range 100 {
		c := exec.Command("/bin/sh", "-c", "(:); (:)") // forks, and no program
		if err := c.Run(); err != nil {
			t.Error(err)
		}
		started[c.Process.Pid] = true
	}
	cancel()
	for pid, n := range <-seen {
		if started[pid] && n > 1 {
			t.Errorf("process %d started one program, and %d events say so", pid, n)
		}
	}
}

// toldTasks is this machine's tasks, with events that the test sends.
type toldTasks struct {
	host.Sched
	asked  host.EventKind
	events chan host.TaskEvent
}

func (s *toldTasks) Events(ctx context.Context, kinds host.EventKind) (<-chan host.TaskEvent, error) {
	s.asked = kinds
	go func() {
		<-ctx.Done()
		close(s.events)
	}()
	return s.events, nil
}

// TestFollowForks tests that a task that forks without running another program is checked only with
// perf_process_fork=1. The events come from the test. The kernel's events can overrun on a busy
// machine, and then every task is checked.
func TestFollowForks(t *testing.T) {
	root.Disposable(t)
	self := host.TaskEvent{Kind: host.EventExec, PID: os.Getpid(), TID: os.Getpid()}
	for _, forks := range []bool{false, true} {
		lines := []string{"group.forks=0:f:4:*:^fettle-forks"}
		if forks {
			lines = append(lines, "perf_process_fork=1")
		}
		h := host.Live()
		sched := &toldTasks{Sched: h.Sched, events: make(chan host.TaskEvent)}
		h.Sched = sched
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- cpu.Follow(ctx, h, table.Kinds(h), *plugin.Unit("scheduler", lines...), nil)
		}()
		// One event in, and the sweep of those that were there is over.
		sched.events <- self
		if asked := sched.asked&host.EventFork != 0; asked != forks {
			t.Errorf("perf_process_fork %v: the kernel is asked for forks: %v", forks, asked)
		}
		forked := child(t, "fettle-forks")
		was := policy(t, forked)
		want := was
		if forks {
			want = "fifo 4"
		}
		sched.events <- host.TaskEvent{Kind: host.EventFork, PID: forked.TID, TID: forked.TID, Parent: os.Getpid()}
		sched.events <- self // the one before is handled
		if got := policy(t, forked); got != want {
			t.Errorf("perf_process_fork %v: the child is %s", forks, got)
		}
		sched.events <- host.TaskEvent{Kind: host.EventExec, PID: forked.TID, TID: forked.TID}
		sched.events <- self
		if got := policy(t, forked); got != "fifo 4" {
			t.Errorf("perf_process_fork %v: a program that matches is %s", forks, got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := policy(t, forked); got != was {
			t.Errorf("perf_process_fork %v: the child is left with %s", forks, got)
		}
	}
	plugin.Proves(t, plugin.Here(), "scheduler", "perf_process_fork")
}
