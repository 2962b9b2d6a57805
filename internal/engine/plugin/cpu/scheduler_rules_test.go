package cpu

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

var (
	ksoftirqd = host.Task{TaskID: host.TaskID{TID: 14, Start: 1}, Comm: "ksoftirqd/0", Cmdline: "[ksoftirqd/0]", Kernel: true, Bound: true}
	kthread   = host.Task{TaskID: host.TaskID{TID: 2, Start: 1}, Comm: "kthreadd", Cmdline: "[kthreadd]", Kernel: true}
	qemu      = host.Task{TaskID: host.TaskID{TID: 900, Start: 50}, Comm: "qemu-kvm", Cmdline: "/usr/libexec/qemu-kvm -m 4G"}
	shell     = host.Task{TaskID: host.TaskID{TID: 901, Start: 50}, Comm: "bash", Cmdline: "-bash"}
	zombie    = host.Task{TaskID: host.TaskID{TID: 902, Start: 50}, Comm: "bash", Cmdline: "[bash]", Zombie: true}
)

func TestIsolates(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/proc/901/cgroup": "2:cpuset:/\n1:name=systemd:/user.slice/user-0.slice\n",
		"/proc/900/cgroup": "0::/kubepods.slice/pod1\n",
	})
	for _, tt := range []struct {
		lines []string
		want  string
	}{
		{nil, "kthreadd qemu-kvm bash"},
		{[]string{"kthread_process=0"}, "qemu-kvm bash"},
		{[]string{"ps_blacklist=.*pmd.*;.*PMD.*;^DPDK;.*qemu-kvm.*"}, "kthreadd bash"},
		{[]string{`ps_blacklist=^\[kthreadd;^qemu`}, "bash"},
		{[]string{"ps_whitelist=^ba;^nothing"}, "bash"},
		{[]string{`cgroup_ps_blacklist=/kubepods\.slice/`}, "kthreadd bash"},
		{[]string{`cgroup_ps_blacklist=\b2:cpuset:/,1:name`}, "kthreadd qemu-kvm"},
		{[]string{`ps_blacklist=a\;b`}, "kthreadd qemu-kvm bash"},
		{[]string{"group.vm=0:*:*:3:qemu"}, "kthreadd bash"},
		{[]string{"group.vm=0:f:1:*:qemu"}, "kthreadd qemu-kvm bash"},
	} {
		rs, err := readRules(*plugin.Unit("scheduler", tt.lines...))
		if err != nil {
			t.Errorf("%v: %v", tt.lines, err)
			continue
		}
		var got []string
		for _, task := range []host.Task{ksoftirqd, kthread, qemu, shell, zombie} {
			if rs.isolates(h, task) {
				got = append(got, task.Comm)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v: %v, want %s", tt.lines, got, tt.want)
		}
	}
	for _, o := range []string{"kthread_process", "ps_whitelist", "ps_blacklist", "cgroup_ps_blacklist"} {
		plugin.Proves(t, plugin.FakeTree, Scheduler.Name, o)
	}
}

func TestInterrupts(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/sys/devices/system/cpu/online": "0-3\n",
		"/proc/irq/default_smp_affinity": "f\n",
		"/proc/irq/1/smp_affinity":       "f\n",
		"/proc/irq/2/smp_affinity":       "8\n",
		"/proc/irq/3/smp_affinity":       "1\n",
	})
	const one, two, rest, tasks = "irq:1/affinity = 0-1", "irq:2/affinity = 0-1", "irq:default/affinity = ", "task:new/affinity ! unknown: not recorded in this copy"
	for _, tt := range []struct {
		lines, want []string
	}{
		{[]string{"isolated_cores=2-3"}, []string{tasks, one, two, rest + "0-1"}},
		{[]string{"isolated_cores=2-3", "default_irq_smp_affinity=ignore"}, []string{tasks, one, two}},
		{[]string{"isolated_cores=2-3", "default_irq_smp_affinity=0,2"}, []string{tasks, one, two, rest + "0,2"}},
		{[]string{"isolated_cores=2-3", "irq_process=false"}, []string{tasks}},
		{[]string{"isolated_cores=0-3"}, []string{"task:new/affinity ! rejected: no CPU would be left for other tasks"}},
		{[]string{"isolated_cores=3-4"}, []string{"task:new/affinity ! rejected: CPU 4 is not online; online are 0-3"}},
		{[]string{"isolated_cores="}, nil},
	} {
		var got []string
		for _, it := range plugin.Items(t, Scheduler, h, plugin.Kinds(h, SchedulerKinds(h), IRQKinds(h)), plugin.Unit("scheduler", tt.lines...)) {
			got = append(got, plugin.Line(it))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
	plugin.Proves(t, plugin.FakeTree, Scheduler.Name, "irq_process")
	plugin.Proves(t, plugin.FakeTree, Scheduler.Name, "default_irq_smp_affinity")
}

func TestGroups(t *testing.T) {
	rs, err := readRules(*plugin.Unit("scheduler",
		"group.ten=10:f:10:*:bash", "group.two=2:f:2:*:.*", "group.two_again=2:b:0:f0:qemu", "group.gone="))
	if err != nil {
		t.Fatal(err)
	}
	for task, want := range map[*host.Task]string{&shell: "group.ten", &qemu: "group.two_again", &ksoftirqd: "group.two"} {
		if g := rs.groupOf(*task); g == nil || g.option.Name != want {
			t.Errorf("%s: %+v, want %s", task.Comm, g, want)
		}
	}
	if g := rs.groupOf(zombie); g != nil {
		t.Errorf("a task that has ended gets %s", g.option.Name)
	}
}

func TestGroupErrors(t *testing.T) {
	for value, want := range map[string]string{
		"0:f:1:*":           "want order:policy:priority:affinity:regex",
		"x:f:1:*:a":         `order "x": want a number`,
		"0:x:1:*:a":         `policy "x": want f, b, r, o, i or *`,
		"0:f:0:*:a":         "priority 0: fifo takes 1 to 99",
		"0:r:100:*:a":       "priority 100: rr takes 1 to 99",
		"0:o:5:*:a":         "priority 5: other allows only 0",
		"0:f:one:*:a":       `priority "one": want a whole number`,
		"0:f:1:0:a":         `affinity "0": want a hexadecimal mask, cgroup.NAME or *`,
		"0:f:1:1-2:a":       `affinity "1-2": want a hexadecimal mask, cgroup.NAME or *`,
		"0:f:1:cgroup...:a": `".." is not a name of a control group`,
		"0:f:1:*:(?!a)":     "look-ahead",
	} {
		_, err := parseGroup(plugin.Unit("scheduler", "group.x="+value).Options[0])
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
}

// TestInvalidLines tests that an invalid line does not affect other lines, unless it selects the
// tasks to leave alone.
func TestInvalidLines(t *testing.T) {
	const moved = "task:1@1/affinity = 0-1 # systemd"
	for _, tt := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"the first group", []string{"group.bad=0:b:*:*:systemd", "group.good=0:*:*:1:qemu"}, []string{
			"task:2@1/affinity = 0-1 # kthreadd", moved, "task:new/affinity = 0-1", "task:900@50/affinity = 0 # qemu-kvm",
			`option:scheduler/group.bad ! rejected: priority "*": want a whole number`}},
		{"the last group", []string{"group.good=0:*:*:1:qemu", "group.worse=0:x:0:*:systemd"}, []string{
			"task:2@1/affinity = 0-1 # kthreadd", moved, "task:new/affinity = 0-1", "task:900@50/affinity = 0 # qemu-kvm",
			`option:scheduler/group.worse ! rejected: policy "x": want f, b, r, o, i or *`}},
		{"which tasks", []string{"ps_blacklist=(", "group.good=0:*:*:1:qemu"}, []string{
			"option:scheduler/isolated_cores ! rejected: invalid ps_blacklist, which selects the tasks to leave alone",
			"option:scheduler/group.good ! rejected: invalid ps_blacklist, which selects the tasks to leave alone",
			"option:scheduler/ps_blacklist ! rejected: "}},
	} {
		h := slicesOf(t, map[string]string{})
		got := map[string]bool{}
		lines := append([]string{"isolated_cores=2-3", "irq_process=0"}, tt.lines...)
		for _, it := range plugin.Items(t, Scheduler, h, plugin.Kinds(h, SchedulerKinds(h), IRQKinds(h)), plugin.Unit("scheduler", lines...)) {
			got[plugin.Line(it)] = true
		}
		for _, want := range tt.want {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(line string) bool {
				return line == want || strings.HasSuffix(want, ": ") && strings.HasPrefix(line, want)
			}) {
				t.Errorf("%s: no %q in %q", tt.name, want, slices.Sorted(maps.Keys(got)))
			}
		}
	}
}

func TestPolicyFor(t *testing.T) {
	for _, tt := range []struct {
		rule, was, want string // want "": nothing
	}{
		{"0:f:2:*:.", "other nice 5", "fifo 2 nice 5"},
		{"0:o:0:*:.", "fifo 50", "other nice 0"},
		{"0:*:7:*:.", "rr 50, reset on fork", "rr 7, reset on fork"},
		{"0:*:7:*:.", "other nice 0", ""},
		{"0:*:*:*:.", "fifo 9", ""},
		{"0:i:0:*:.", "other nice -3", "idle nice -3"},
	} {
		rs, err := readRules(*plugin.Unit("scheduler", "group.x="+tt.rule))
		if err != nil {
			t.Fatal(err)
		}
		was, err := parsePolicy(tt.was)
		if err != nil {
			t.Fatal(err)
		}
		next, ok := rs.groups[0].policyFor(was)
		if got := policyText(next); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s of %s: %s, %v", tt.rule, tt.was, got, ok)
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	for _, s := range []string{"other nice 0", "fifo 50", "rr 1 nice -5, reset on fork", "deadline 1 2 3", "idle nice 19", "9 4", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePolicy(text)
		if err != nil {
			return
		}
		again, err := parsePolicy(policyText(p))
		if p.Name != "deadline" && (p.Name == "other" || p.Name == "batch" || p.Name == "idle" || p.Name == "ext") {
			p.Priority = 0 // these have none
		}
		if err != nil || again != p {
			t.Errorf("%q is %+v, written %q, read %+v (%v)", text, p, policyText(p), again, err)
		}
	})
}

func FuzzParseGroup(f *testing.F) {
	for _, s := range []string{"0:f:2:*:^\\[ksoftirqd", "1:*:*:cgroup.a.b:x", "2.5:b:0:ff,00000000:.", ":::::", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		u := plugin.Unit("scheduler", "group.x="+value)
		rs, err := readRules(*u)
		if err != nil {
			return
		}
		for _, g := range rs.groups {
			if g.cgroup != "" && (strings.Contains(g.cgroup, "..") || strings.HasPrefix(g.cgroup, "/")) {
				t.Errorf("%q leads to %q", value, g.cgroup)
			}
			if g.policy == "fifo" && (g.priority < 1 || g.priority > 99) || g.match == nil {
				t.Errorf("%q is taken: %+v", value, g)
			}
		}
	})
}
