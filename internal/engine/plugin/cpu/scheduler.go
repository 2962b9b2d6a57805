// scheduler is the plug-in for the kernel's CPU scheduler: its
// variables, CPUs kept free of ordinary tasks, and policy and affinity of
// groups of tasks.

package cpu

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
)

// Scheduler is the table entry.
var Scheduler = plugin.Plugin{
	Name:    "scheduler",
	Doc:     "the kernel's CPU scheduler: its variables, isolated CPUs, and policy and affinity of tasks",
	Options: slices.Concat(steering, isolation, variables()),
	Free:    free,
}

// steering are the options that say how others are carried out.
var steering = []plugin.Option{
	{Name: "cgroup_mount_point", Control: true, Default: defaultMount,
		Doc: "where the cpuset controller of control groups version 1 is mounted"},
	{Name: "cgroup_mount_point_init", Control: true, Words: plugin.YesWords, Default: "0",
		Doc: "1 mounts the controller there, and makes the groups as cgroup_groups_init does"},
	{Name: "cgroup_groups_init", Control: true, Words: plugin.YesWords, Default: "1",
		Doc: "1 makes the control groups that are named here, 0 takes them as they are"},
	{Name: "cgroup_for_isolated_cores", Control: true,
		Doc: "confine tasks instead of giving them an affinity: with control groups version 2 systemd's slices get AllowedCPUs=, whatever the name; with version 1 tasks are moved to the group of this name, in which dots separate levels"},
	{Name: "cgroup_ps_blacklist", Control: true, Check: checkPattern,
		Doc: "regular expressions, separated by semicolons; the affinity of tasks whose control groups (the lines of /proc/PID/cgroup, joined by commas) match one is left alone"},
	{Name: "ps_whitelist", Control: true, Check: checkPattern, Default: ".*",
		Doc: "regular expressions, separated by semicolons; isolated_cores moves only tasks whose name matches one (the name of a kernel thread also in brackets)"},
	{Name: "ps_blacklist", Control: true, Check: checkPattern,
		Doc: "regular expressions, separated by semicolons; isolated_cores leaves tasks alone whose name matches one (the name of a kernel thread also in brackets)"},
	{Name: "kthread_process", Control: true, Check: checkTruth, Default: "1",
		Doc: "0 leaves kernel threads alone"},
	{Name: "irq_process", Control: true, Default: "1",
		Doc: "0 leaves interrupts on isolated CPUs"},
	{Name: "default_irq_smp_affinity", Control: true, Default: "calc",
		Doc: "which CPUs answer interrupts that come later: calc keeps them off isolated CPUs, ignore leaves them, a CPU list is written as it is"},
	{Name: "perf_mmap_pages", Control: true,
		Doc: "without effect: new tasks are followed by the kernel's process events, not by a perf buffer"},
	{Name: "perf_process_fork", Control: true, Words: plugin.YesWords, Default: "0",
		Doc: "1 looks at each task when it begins, too, not only when it runs another program or gets a name"},
	{Name: "runtime", Control: true, Words: plugin.NoWords, Default: "1",
		Doc: "0 leaves tasks alone that start later; otherwise fettle's daemon follows new tasks by the kernel's process events"},
}

var isolation = []plugin.Option{
	{Name: "isolated_cores", Plan: planIsolated,
		Doc: "CPU list that ordinary tasks and interrupts are moved away from, by the affinity of each task; programs can still ask for these CPUs"},
}

// free answers for group.NAME and cgroup.NAME.
func free(name string) (plugin.Option, bool) {
	switch {
	case strings.HasPrefix(name, groupPrefix) && name != groupPrefix:
		return plugin.Option{Name: name, Plan: planGroup,
			Doc: "order:policy:priority:affinity:regex for tasks whose command line matches; the last match in order holds; policy f, b, r, o, i or *, affinity a hexadecimal mask, cgroup.NAME or *"}, true
	case strings.HasPrefix(name, cgroupPrefix) && name != cgroupPrefix:
		return plugin.Option{Name: name, Plan: planCgroup,
			Doc: "CPU list of a control group (version 1); dots separate levels"}, true
	}
	return plugin.Option{}, false
}
