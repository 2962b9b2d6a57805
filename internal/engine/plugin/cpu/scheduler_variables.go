package cpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

const (
	debugfs = "/sys/kernel/debug"
	schedFS = debugfs + "/sched"
)

// schedulerVariable is a variable of the scheduler. Up to Linux 5.12 it is a sysctl; 5.13 moved
// it to debugfs (commit 8a99b6833c88, "sched: Move SCHED_DEBUG sysctl to debugfs").
type schedulerVariable struct {
	option string
	doc    string
	// sysctls and files are its names, in search order: below /proc/sys/kernel, and below
	// /sys/kernel/debug/sched.
	sysctls, files []string
	lo, hi         int64
	// gone is the first release without the variable; zero if Linux 6.18 has it.
	gone release
	// built is the required kernel build option, or "".
	built string
}

// The limits are those of kernel/sysctl.c up to 5.12 (min_sched_granularity_ns and others).
// debugfs checks nothing and would accept a slice of 0 ns.
const (
	minGranularity = 100_000       // 100 µs
	maxGranularity = 1_000_000_000 // 1 s
)

// release is a kernel version.
type release struct{ major, minor int }

func (r release) String() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }

func (r release) before(o release) bool {
	return r.major < o.major || r.major == o.major && r.minor < o.minor
}

// eevdf is the release that replaced the fair scheduler's heuristics. It removed latency and
// wake-up granularity; the minimal granularity became the base slice (commits 5e963f2bd465,
// e4ec3318a17f).
var eevdf = release{6, 6}

// sliceDoc describes the two names of one value; a kernel has only one of them.
const sliceDoc = "the shortest time that a task runs before another gets its turn, in nanoseconds, 100000 to 1000000000; "

var all = []schedulerVariable{
	{option: "sched_min_granularity_ns", doc: sliceDoc + "on Linux 6.6 and later sched_base_slice_ns is written instead",
		sysctls: []string{"sched_min_granularity_ns"}, files: []string{"min_granularity_ns", "base_slice_ns"}, lo: minGranularity, hi: maxGranularity},
	{option: "sched_base_slice_ns", doc: sliceDoc + "before Linux 6.6 sched_min_granularity_ns is written instead",
		sysctls: []string{"sched_min_granularity_ns"}, files: []string{"base_slice_ns", "min_granularity_ns"}, lo: minGranularity, hi: maxGranularity},
	{option: "sched_latency_ns", doc: "the time in which each runnable task should run once, in nanoseconds, 100000 to 1000000000; Linux 6.6 removed it",
		sysctls: []string{"sched_latency_ns"}, files: []string{"latency_ns"}, lo: minGranularity, hi: maxGranularity, gone: eevdf},
	{option: "sched_wakeup_granularity_ns", doc: "how far a waking task must be behind the running task to preempt it, in nanoseconds, 0 to 1000000000; Linux 6.6 removed it",
		sysctls: []string{"sched_wakeup_granularity_ns"}, files: []string{"wakeup_granularity_ns"}, lo: 0, hi: maxGranularity, gone: eevdf},
	{option: "sched_tunable_scaling", doc: "how the slice grows with the number of CPUs: 0 not at all, 1 logarithmically, 2 proportionally",
		sysctls: []string{"sched_tunable_scaling"}, files: []string{"tunable_scaling"}, lo: 0, hi: 2},
	{option: "sched_migration_cost_ns", doc: "how long after it ran a task counts as cache-hot, so that it is not moved, in nanoseconds, 0 to 2147483647",
		sysctls: []string{"sched_migration_cost_ns"}, files: []string{"migration_cost_ns"}, lo: 0, hi: math.MaxInt32, built: "CONFIG_SMP"},
	{option: "sched_nr_migrate", doc: "maximum number of tasks that one balancing run moves, 0 to 2147483647",
		sysctls: []string{"sched_nr_migrate"}, files: []string{"nr_migrate"}, lo: 0, hi: math.MaxInt32, built: "CONFIG_SMP"},
	numa("scan_delay_ms", "how long a task runs before its memory is scanned for NUMA balancing, in milliseconds, 0 to 2147483647", 0),
	numa("scan_period_min_ms", "the shortest time between two scans of a task's memory, in milliseconds, 1 to 2147483647", 1),
	numa("scan_period_max_ms", "the longest time between two scans of a task's memory, in milliseconds, 1 to 2147483647", 1),
	numa("scan_size_mb", "how much of a task's memory one scan covers, in MiB, 1 to 2147483647", 1),
}

func numa(name, doc string, lo int64) schedulerVariable {
	return schedulerVariable{option: "numa_balancing_" + name, doc: doc, sysctls: []string{"numa_balancing_" + name},
		files: []string{"numa_balancing/" + name}, lo: lo, hi: math.MaxInt32, built: "CONFIG_NUMA_BALANCING"}
}

// variables returns the options for scheduler variables.
func variables() []plugin.Option {
	out := make([]plugin.Option, len(all))
	for i, v := range all {
		out[i] = plugin.Option{Name: v.option, Doc: v.doc, Plan: v.plan}
	}
	return out
}

func (v schedulerVariable) plan(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	if plugin.IsNone(o.Value) {
		return nil, nil
	}
	s, why := v.find(r.Host)
	want := fmt.Sprintf("a whole number from %d to %d", v.lo, v.hi)
	if why != "" {
		// An invalid value is an error even if the kernel lacks the variable.
		if it := plugin.Number(s, o, v.lo, v.hi, want)[0]; it.Verdict != "" {
			return []plugin.Item{it}, nil
		}
		return plugin.Lacks(r.Host, s, o, "%s", why), nil
	}
	items := plugin.Number(s, o, v.lo, v.hi, want)
	if items[0].Verdict == "" && !strings.HasSuffix(s.Name, strings.TrimPrefix(v.option, "sched_")) && !strings.HasSuffix(s.Name, strings.TrimPrefix(v.option, "numa_balancing_")) {
		items[0].Why = "this kernel calls it " + s.Name[strings.LastIndexByte(s.Name, '/')+1:]
	}
	return items, nil
}

const closed = "this setting is in debugfs, which this kernel locks"

// find returns the variable's setting on this kernel. If the kernel lacks the variable, it returns
// the path where it would be, and the reason.
func (v schedulerVariable) find(h *host.Host) (s setting.Setting, why string) {
	for _, name := range v.sysctls {
		if plugin.Exists(h, "/proc/sys/kernel/"+name) {
			return plugin.Sysctl("kernel." + name), ""
		}
	}
	now, known := kernelRelease(h)
	if known && v.gone != (release{}) && !now.before(v.gone) {
		return plugin.Sysfs(schedFS + "/" + v.files[0]), fmt.Sprintf("Linux %s removed it with the scheduler before EEVDF; this is Linux %s", v.gone, now)
	}
	for _, name := range v.files {
		s := plugin.Sysfs(schedFS + "/" + name)
		_, err := h.Files.ReadFile(s.Name)
		switch {
		case err == nil:
			return s, ""
		case errors.Is(err, syscall.EPERM): // fs/debugfs/file.c debugfs_locked_down; root never gets EACCES
			return s, closed + lockdown(h)
		case errors.Is(err, fs.ErrPermission) && (len(v.files) == 1 || known && now.before(eevdf) != (name == "base_slice_ns")):
			return s, "" // only root can check: the reader reports that
		}
	}
	s = plugin.Sysfs(schedFS + "/" + v.nameSince(now, known))
	switch {
	case plugin.Exists(h, schedFS):
		if v.built != "" {
			return s, "this kernel is built without " + v.built
		}
		return s, "this kernel does not have this setting"
	case known && now.before(release{5, 13}):
		return s, "this kernel is built without CONFIG_SCHED_DEBUG"
	case !mounted(h):
		if l := lockdown(h); l != "" {
			return s, closed + l
		}
		return s, "this setting is in debugfs, which is not mounted: mount -t debugfs debugfs " + debugfs
	}
	return s, "debugfs has no directory sched: this kernel is built without CONFIG_SCHED_DEBUG"
}

// nameSince returns the variable's name in kernels of the release now. known is false if the
// release is unknown.
func (v schedulerVariable) nameSince(now release, known bool) string {
	for _, name := range v.files {
		if known && len(v.files) > 1 && now.before(eevdf) != (name == "base_slice_ns") {
			return name
		}
	}
	return v.files[0]
}

// lockdown returns a note if kernel lockdown, which disables debugfs, is in force
// (kernel_lockdown(7)), else "".
func lockdown(h *host.Host) string {
	text, ok := plugin.Attribute(h, "/sys/kernel/security/lockdown")
	if mode := setting.ActiveWord(text); ok && mode != "none" {
		return " (kernel lockdown: " + mode + ", as with Secure Boot)"
	}
	return ""
}

// mounted reports whether debugfs is mounted at its usual path.
func mounted(h *host.Host) bool {
	text, ok := plugin.Attribute(h, "/proc/self/mounts")
	if !ok {
		text, _ = plugin.Attribute(h, "/proc/mounts")
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == debugfs && f[2] == "debugfs" {
			return true
		}
	}
	return false
}

// kernelRelease returns the running kernel's version, and false if it is unknown.
func kernelRelease(h *host.Host) (now release, known bool) {
	text, _ := plugin.Attribute(h, "/proc/sys/kernel/osrelease")
	n, _ := fmt.Sscanf(text, "%d.%d", &now.major, &now.minor)
	return now, n == 2
}
