package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/plugin/plugintest"
	"fettle.dev/fettle/internal/plugin/scheduler"
	"fettle.dev/fettle/internal/plugin/table"
	"fettle.dev/fettle/internal/testroot"
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
		if got := scheduler.Follows(plugintest.Unit(tt.typ, tt.lines...)); got != tt.want {
			t.Errorf("%v: %v", tt.lines, got)
		}
	}
	plugintest.Proves(t, plugintest.FakeTree, "scheduler", "runtime")
}

// TestFollow lets the kernel tell of new tasks: one that runs a program which
// matches gets its policy and CPUs, and what it had when following ends.
func TestFollow(t *testing.T) {
	testroot.Disposable(t)
	h := host.Live()
	early := child(t, "fettle-early")
	u := plugintest.Unit("scheduler", "perf_mmap_pages=1", "group.follow=0:f:4:1:^fettle-follow", "group.early=0:b:0:*:^fettle-early")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- scheduler.Follow(ctx, h, table.Kinds(h), *u, func(err error) { t.Errorf("told: %v", err) })
	}()
	is := func(id host.TaskID, want string) bool {
		return testroot.Eventually(10*time.Second, func() bool { return policy(t, id) == want })
	}
	if !is(early, "batch 0") {
		t.Errorf("one that began before: %s", policy(t, early))
	}
	start := time.Now()
	new, other := child(t, "fettle-follow"), child(t, "fettle-other")
	if !is(new, "fifo 4") || !testroot.Eventually(5*time.Second, func() bool { return affinity(t, new) == "0" }) {
		t.Errorf("a new task: %s on %s", policy(t, new), affinity(t, new))
	}
	t.Logf("policy and CPUs set within %v of the start", time.Since(start))
	// A burst is not lost: the kernel tells of what did not fit.
	var burst []*exec.Cmd
	for i := range 200 {
		c := exec.Command("/bin/sleep", "60")
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
	testroot.Eventually(20*time.Second, func() bool {
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
	plugintest.Proves(t, plugintest.Here(), "scheduler", "perf_mmap_pages") // one page, and no event is lost
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, id := range []host.TaskID{early, new, other} {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id.TID))
		if policy(t, id) != "other 0" || affinity(t, id) != "0-1" {
			t.Errorf("%s is left with %s on %s", b, policy(t, id), affinity(t, id))
		}
	}
}

// TestFollowSleeps: nothing is asked again and again.
func TestFollowSleeps(t *testing.T) {
	testroot.Disposable(t)
	if testing.Short() {
		t.Skip("takes seconds")
	}
	h := host.Live()
	ctx, cancel := context.WithCancel(context.Background())
	events, err := h.Sched.Events(ctx, host.EventExec)
	if err != nil {
		t.Fatal(err)
	}
	defer cancel()
	forks := func() (n int) {
		b, _ := os.ReadFile("/proc/stat")
		for i := range b {
			if _, err := fmt.Sscanf(string(b[i:]), "processes %d", &n); err == nil {
				return n
			}
		}
		return 0
	}
	before, told := forks(), 0
	deadline := time.After(3 * time.Second)
	for {
		select {
		case ev := <-events:
			if ev.Kind != host.EventExec {
				t.Errorf("%+v came through", ev)
			}
			told++
			continue
		case <-deadline:
		}
		break
	}
	t.Logf("%d events while %d tasks began", told, forks()-before)
	if told > forks()-before+50 {
		t.Errorf("%d events, and only %d tasks began", told, forks()-before)
	}
}

// TestFollowForks: a task that forks and runs no other program is looked at only
// with perf_process_fork=1. The parent's policy is not inherited here.
func TestFollowForks(t *testing.T) {
	testroot.Disposable(t)
	h := host.Live()
	for _, forks := range []bool{false, true} {
		lines := []string{"group.forks=0:f:4:*:fettle-forks$"}
		if forks {
			lines = append(lines, "perf_process_fork=1")
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- scheduler.Follow(ctx, h, table.Kinds(h), *plugintest.Unit("scheduler", lines...), nil)
		}()
		dir := t.TempDir()
		if out, err := exec.Command("mkfifo", dir+"/wait").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		c := exec.Command("chrt", "--reset-on-fork", "--rr", "1", "sh", "-c", `sleep 4; (read y <"$0") & wait`, dir+"/wait", "fettle-forks")
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		var child host.Task
		if !testroot.Eventually(20*time.Second, func() bool {
			tasks, _ := h.Sched.Tasks()
			for _, task := range tasks {
				if task.Parent == c.Process.Pid && task.Comm == "sh" {
					child = task
				}
			}
			return child.TID != 0
		}) {
			t.Error("the shell did not fork")
		}
		want := "other 0"
		if forks {
			want = "fifo 4"
		}
		time.Sleep(200 * time.Millisecond)
		if !testroot.Eventually(5*time.Second, func() bool { return policy(t, child.TaskID) == want }) {
			t.Errorf("forks %v: the child is %s", forks, policy(t, child.TaskID))
		}
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	plugintest.Proves(t, plugintest.Here(), "scheduler", "perf_process_fork")
}
