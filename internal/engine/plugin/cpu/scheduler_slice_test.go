package cpu

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/unit"
)

// someTasks are tasks of which all but one may run on every CPU.
type someTasks struct {
	host.Sched
	tasks  []host.Task
	pinned host.Task // on CPUs 1-2
}

func (s someTasks) Tasks() ([]host.Task, error) { return s.tasks, nil }

func (s someTasks) Task(tid int) (host.Task, error) {
	for _, t := range s.tasks {
		if t.TID == tid {
			return t, nil
		}
	}
	return host.Task{}, host.ErrEnded
}

func (s someTasks) Affinity(id host.TaskID) (unit.CPUSet, error) {
	if id == s.pinned.TaskID {
		return unit.ParseCPUList("1-2")
	}
	return unit.ParseCPUList("0-3")
}

func (someTasks) Policy(host.TaskID) (host.Policy, error) { return host.Policy{Name: "other"}, nil }

// slicesOf is a machine with control groups version 2 and systemd. No user has logged in, so
// user.slice is only a file.
func slicesOf(t *testing.T, more map[string]string) *host.Host {
	t.Helper()
	h := machine.Mounted(t, plugin.Join(map[string]string{
		"/run/systemd/system/":               "",
		"/sys/devices/system/cpu/online":     "0-3\n",
		"/sys/fs/cgroup/cgroup.controllers":  "cpuset cpu io memory pids\n",
		"/sys/fs/cgroup/init.scope/":         "",
		"/sys/fs/cgroup/system.slice/":       "",
		"/sys/fs/cgroup/kubepods.slice/":     "",
		"/usr/lib/systemd/system/user.slice": "[Slice]\n",
		"/proc/1/cgroup":                     "0::/init.scope\n",
		"/proc/901/cgroup":                   "0::/system.slice/ssh.service\n",
		"/proc/900/cgroup":                   "0::/kubepods.slice/pod1\n",
	}, more))
	one := host.Task{TaskID: host.TaskID{TID: 1, Start: 1}, Comm: "systemd", Cmdline: "/sbin/init"}
	h.Sched = someTasks{tasks: []host.Task{one, kthread, qemu, shell, zombie}, pinned: shell}
	return h
}

func TestSlices(t *testing.T) {
	const (
		kthreads = "task:2@1/affinity = 0-1 # kthreadd"
		pods     = "task:900@50/affinity = 0-1 # qemu-kvm"
		system   = "slice:system.slice = 0-1"
		user     = "slice:user.slice = 0-1"
		process1 = "slice:init.scope = 0-1"
	)
	left := "! unsupported: task 901 (bash) in system.slice must not be moved; each of the other tasks gets a CPU affinity instead"
	for _, tt := range []struct {
		name  string
		files map[string]string
		lines []string
		want  []string
	}{
		{"all", nil, nil, []string{system, user, process1, kthreads, pods}},
		{"a unit has CPUs of its own", map[string]string{"/sys/fs/cgroup/system.slice/cpuset.cpus": "1-3\n"}, nil,
			[]string{"slice:system.slice = 1", user, process1, kthreads, pods}},
		{"a task is left alone", nil, []string{"ps_blacklist=^bash$"},
			[]string{"slice:system.slice " + left, user, "slice:init.scope " + left, kthreads, pods, "task:1@1/affinity = 0-1 # systemd", "task:new/affinity = 0-1"}},
		{"cannot confine cgroups without systemd, which does not run on this machine", map[string]string{"/run/systemd/system/": "", "/sys/fs/cgroup/cgroup.controllers": "cpu\n"}, nil,
			[]string{"slice:system.slice ! unsupported: no cgroup v1 cpuset hierarchy is mounted at /sys/fs/cgroup/cpuset, and cgroup v2 has no cpuset controller on this machine; each task gets a CPU affinity instead",
				"task:1@1/affinity = 0-1 # systemd", kthreads, pods, "task:901@50/affinity = 1 # bash", "task:new/affinity = 0-1"}},
	} {
		h := slicesOf(t, tt.files)
		var got []string
		lines := append([]string{"isolated_cores=2-3", "irq_process=0", "cgroup_for_isolated_cores=house"}, tt.lines...)
		for _, it := range plugin.Items(t, Scheduler, h, plugin.Kinds(h, SchedulerKinds(h), IRQKinds(h)), plugin.Unit("scheduler", lines...)) {
			got = append(got, plugin.Line(it))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	plugin.Proves(t, plugin.FakeTree, Scheduler.Name, "cgroup_for_isolated_cores")
}

// toldSystemd records the calls of systemctl and simulates them.
type toldSystemd struct {
	host.Exec
	root string
	told []string
}

func (s *toldSystemd) Run(_ context.Context, c host.Command) (host.Result, error) {
	s.told = append(s.told, strings.Join(c.Argv, " "))
	if c.Argv[1] == "set-property" {
		name, cpus := c.Argv[4], strings.TrimPrefix(c.Argv[5], "AllowedCPUs=")
		dir := filepath.Join(s.root, controlDir(name))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return host.Result{}, err
		}
		return host.Result{}, os.WriteFile(filepath.Join(dir, controlFile), []byte("[Slice]\nAllowedCPUs=\nAllowedCPUs="+cpus+"\n"), 0o644)
	}
	return host.Result{}, nil
}

// TestSliceBeforeItBegins tests that a unit without a control group is written, read and restored
// like the others.
func TestSliceBeforeItBegins(t *testing.T) {
	ctx := t.Context()
	h := slicesOf(t, nil)
	systemd := &toldSystemd{root: h.Name}
	h.Exec = systemd
	k := SchedulerKinds(h)[sliceKind]
	user := setting.Setting{Kind: sliceKind, Name: "user.slice"}
	read := func(want setting.Value) {
		t.Helper()
		if v, err := k.Read(ctx, user); err != nil || v != want {
			t.Errorf("reads %v (%v), want %v", v, err, want)
		}
	}
	read(setting.Text(allCPUs))
	if err := k.Write(ctx, user, setting.Text("0-1")); err != nil {
		t.Fatal(err)
	}
	read(setting.Text("0-1"))
	if err := k.Write(ctx, user, setting.Text(allCPUs)); err != nil {
		t.Fatal(err)
	}
	read(setting.Text(allCPUs))
	if _, err := os.Stat(filepath.Join(h.Name, controlDir("user.slice"))); err == nil {
		t.Error("systemd's file is left behind")
	}
	want := []string{"systemctl set-property --runtime -- user.slice AllowedCPUs=0-1",
		"systemctl set-property --runtime -- user.slice AllowedCPUs=", "systemctl daemon-reload"}
	if diff := cmp.Diff(want, systemd.told); diff != "" {
		t.Errorf("systemd was told (-want +got):\n%s", diff)
	}
	for _, name := range []string{"../kubepods.slice", "machine.slice"} {
		if _, err := k.Resolve(setting.Setting{Kind: sliceKind, Name: name}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := os.Remove(filepath.Join(h.Name, "/usr/lib/systemd/system/user.slice")); err != nil {
		t.Fatal(err)
	}
	read(setting.Absent)
	if got := k.Coupled(user); len(got) != 1 || got[0] != taskSetting(shell.TaskID, affinityOf) {
		t.Errorf("coupled: %v, want the task that has chosen its CPUs", got)
	}
}
