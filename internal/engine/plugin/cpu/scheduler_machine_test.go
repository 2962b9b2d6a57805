package cpu_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/unit"
)

// machine holds everything that isolation changes: tasks by their identity, interrupts, control
// groups.
func machine(t *testing.T, h *host.Host) map[string]string {
	t.Helper()
	out := map[string]string{}
	tasks, err := h.Sched.Tasks()
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		cpus, err := h.Sched.Affinity(task.TaskID)
		policy, err2 := h.Sched.Policy(task.TaskID)
		group, err3 := os.ReadFile(fmt.Sprintf("/proc/%d/cpuset", task.TID))
		if err == nil && err2 == nil && err3 == nil {
			out["task "+task.String()+" "+task.Comm] = fmt.Sprintf("%s %+v %s", cpus, policy, group)
		}
	}
	files, _ := filepath.Glob("/proc/irq/*/smp_affinity")
	for _, f := range append(files, "/proc/irq/default_smp_affinity") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[f] = string(b)
	}
	return out
}

// compare reports the differences of places that still exist.
func compare(t *testing.T, before, after map[string]string) {
	t.Helper()
	for place, was := range before {
		if now, ok := after[place]; ok && now != was {
			t.Errorf("%s was %q and is %q", place, was, now)
		}
	}
}

// child starts a program that waits until the test ends.
func child(t *testing.T, name string) host.TaskID {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Args[0] = name
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	task := waitFor(t, cmd.Process.Pid, name)
	return task.TaskID
}

func waitFor(t *testing.T, pid int, name string) host.Task {
	t.Helper()
	var task host.Task
	if !root.Eventually(time.Minute, func() bool {
		var err error
		task, err = host.Live().Sched.Task(pid)
		return err == nil && strings.HasPrefix(task.Cmdline, name)
	}) {
		t.Fatalf("%s did not start", name)
	}
	return task
}

func engine(t *testing.T) *tune.Engine {
	t.Helper()
	h := host.Live()
	return &tune.Engine{Host: h, Kinds: table.Kinds(h), Plugins: table.All, StateDir: filepath.Join(t.TempDir(), "state"), Main: profile.DefaultMain(), User: "test", Reason: t.Name()}
}

func selection(units ...*profile.Unit) *profile.Profile {
	p := &profile.Profile{Names: []string{"test"}}
	for _, u := range units {
		p.Units = append(p.Units, *u)
	}
	return p
}

func apply(t *testing.T, e *tune.Engine, p *profile.Profile) *tune.Applied {
	t.Helper()
	a, err := e.Apply(context.Background(), func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return e.PlanProfile(ctx, p, s)
	}, tune.ApplyOptions{Kind: journal.Tune, Selection: &tune.Selection{Profiles: p.Names, Mode: tune.ModeManual}})
	if err != nil {
		t.Fatal(err)
	}
	for _, pr := range a.Plan.Problems {
		t.Errorf("problem: %s", pr)
	}
	for _, s := range a.Plan.Steps {
		if s.Verdict != plugin.OK && s.Verdict != plugin.Unsupported {
			t.Errorf("%s = %s: %s: %s", s.Setting, s.Want, s.Verdict, s.Why)
		}
	}
	return a
}

func affinity(t *testing.T, id host.TaskID) string {
	t.Helper()
	cpus, err := host.Live().Sched.Affinity(id)
	if err != nil {
		t.Fatal(err)
	}
	return cpus.String()
}

func policy(t *testing.T, id host.TaskID) string {
	t.Helper()
	p, err := host.Live().Sched.Policy(id)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %d", p.Name, p.Priority)
}

// TestIsolatedCores moves this machine's tasks and interrupts off its second CPU and restores
// everything, including tasks that have started since.
func TestIsolatedCores(t *testing.T) {
	root.Disposable(t)
	h := host.Live()
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		t.Fatal(err)
	}
	all, err := unit.ParseCPUList(strings.TrimSpace(string(text)))
	if err != nil || all.Len() < 2 {
		root.Missing(t, "isolation needs two CPUs, this machine has %s", text)
	}
	second := unit.CPUs(all.Numbers()[1])
	house, iso := all.Minus(second).String(), second.String()
	plain, pinned, goes, left := child(t, "fettle-plain"), child(t, "fettle-pinned"), child(t, "fettle-goes"), child(t, "fettle-left")
	if out, err := exec.Command("taskset", "-cp", iso, fmt.Sprint(pinned.TID)).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	before := machine(t, h)

	e := engine(t)
	p := selection(testkitplugin.Unit("scheduler", "isolated_cores="+iso, "ps_blacklist=^nothing$", "cgroup_ps_blacklist=/nothing;/nowhere",
		"group.left=1:f:3:"+second.Mask()+":^fettle-left 600$", "group.earlier=0:b:0:*:^fettle-(left|goes)"))
	start := time.Now()
	a := apply(t, e, p)
	applied := time.Since(start)
	defer func() { // whatever happens, nothing stays behind
		if _, err := e.Undo(context.Background()); err == nil {
			t.Error("undone only at the end of the test")
		}
	}()
	if got := []string{affinity(t, plain), affinity(t, pinned), affinity(t, goes), affinity(t, left)}; !slices.Equal(got, []string{house, house, house, iso}) {
		t.Errorf("affinities of plain, pinned, goes, left: %v", got)
	}
	if got := policy(t, left); got != "fifo 3" {
		t.Errorf("policy of fettle-left: %s: the last rule in order is to hold", got)
	}
	late := child(t, "fettle-late")
	if got := affinity(t, late); got != house {
		t.Errorf("a new task may run on %s", got)
	}
	// Whoever asks for an isolated CPU now keeps it.
	wants := child(t, "fettle-wants")
	if out, err := exec.Command("taskset", "-cp", iso, fmt.Sprint(wants.TID)).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	state, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Verify(context.Background(), p, state)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Values {
		if strings.Contains(c.Setting.Name, wants.String()) || strings.Contains(c.Setting.Name, plain.String()) && c.Verdict != plugin.OK {
			t.Errorf("verify: %s is %s, want %s: %s", c.Setting, c.Now, c.Want, c.Verdict)
		}
	}
	apply(t, e, p)
	if got := affinity(t, wants) + " " + affinity(t, plain); got != iso+" "+house {
		t.Errorf("after the same profile again: %s, want %s %s", got, iso, house)
	}
	process, _ := os.FindProcess(goes.TID)
	_ = process.Kill()
	_, _ = process.Wait()

	start = time.Now()
	u, err := e.Undo(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps applied in %v, undone in %v", len(a.Plan.Steps), applied, time.Since(start))
	after := machine(t, h)
	compare(t, before, after)
	if got := affinity(t, wants); got != iso {
		t.Errorf("undo took CPU "+iso+" from a task that had asked for it: %s", got)
	}
	if got := affinity(t, late); got != all.String() {
		t.Errorf("a task that began meanwhile is left on CPU %s", got)
	}
	closed := 0
	for _, v := range u.Values {
		if v.State == journal.Closed {
			closed++
		}
		if v.State == journal.KeptNow {
			t.Logf("kept: %s (%s)", v.Setting, v.Why)
		}
	}
	if closed == 0 {
		t.Error("no entry of the task that ended was closed")
	}
	for place, now := range after {
		if _, old := before[place]; !old && strings.HasPrefix(now, house+" ") && strings.HasPrefix(place, "task") && !strings.Contains(place, "kworker") {
			t.Logf("new, kept off the isolated CPU: %s %q", place, now)
		}
	}
	testkitplugin.Proves(t, testkitplugin.Here(), "scheduler", "isolated_cores")
	testkitplugin.Proves(t, testkitplugin.Here(), "scheduler", "group.left")
}

// TestControlGroups creates groups of version 1 in its own mount, moves tasks of this test into
// them, and removes them again.
func TestControlGroups(t *testing.T) {
	root.Disposable(t)
	if b, _ := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); len(b) > 0 {
		root.Missing(t, "control groups are of version 2 here, which TestGuestIsolation tests; for version 1 boot with systemd.unified_cgroup_hierarchy=0")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "fettle-cpuset")
	if out, err := exec.Command("cp", "/bin/sleep", program).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	run := func(name string) host.TaskID {
		cmd := exec.Command(program, "600")
		cmd.Args[0] = name
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return waitFor(t, cmd.Process.Pid, name).TaskID
	}
	group := func(id host.TaskID) string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cpuset", id.TID))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	moved, special := run("fettle-moved"), run("fettle-special")
	before := machine(t, host.Live())
	mount := filepath.Join(dir, "cpuset")
	e := engine(t)
	apply(t, e, selection(testkitplugin.Unit("scheduler", "isolated_cores=1", "irq_process=0", "ps_whitelist=^fettle-cpuset$",
		"cgroup_mount_point="+mount, "cgroup_mount_point_init=1", "cgroup_groups_init=0", "cgroup_for_isolated_cores=fettle.house",
		"cgroup.fettle=0-1", "cgroup.fettle.house=0", "cgroup.fettle.one=1", "group.special=0:*:0:cgroup.fettle.one:^fettle-special")))
	if got := group(moved) + " " + affinity(t, moved); got != "/fettle/house 0" {
		t.Errorf("isolated: %s", got)
	}
	if got := group(special) + " " + affinity(t, special); got != "/fettle/one 1" {
		t.Errorf("in its own group: %s", got)
	}
	// One that begins in the group meanwhile is left over when the group goes.
	late := run("fettle-late")
	if err := os.WriteFile(mount+"/fettle/house/tasks", []byte(fmt.Sprint(late.TID)), 0o644); err != nil {
		t.Error(err)
	}
	u, err := e.Undo(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if u.Result != journal.ResultDone {
		t.Error(u.Result)
	}
	compare(t, before, machine(t, host.Live()))
	if got := group(late); strings.HasPrefix(got, "/fettle/house") {
		t.Errorf("the late task is left in %s", got)
	}
	for _, left := range []string{"/sys/fs/cgroup/cpuset/fettle", mount} {
		if _, err := os.Stat(left); err == nil {
			t.Errorf("%s is left behind", left)
		}
	}
	for _, o := range []string{"cgroup_mount_point", "cgroup_mount_point_init", "cgroup_groups_init", "cgroup_for_isolated_cores", "cgroup.one"} {
		testkitplugin.Proves(t, testkitplugin.Here(), "scheduler", o)
	}
}
