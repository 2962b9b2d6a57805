package cpu

import (
	"math"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func kernel(version string, files ...string) map[string]string {
	tree := map[string]string{"/proc/sys/kernel/osrelease": version + "\n"}
	for _, f := range files {
		tree[f] = "1\n"
	}
	return tree
}

func TestVariables(t *testing.T) {
	const d = "sysfs:/sys/kernel/debug/sched/"
	const base, old = "/sys/kernel/debug/sched/", "/proc/sys/kernel/"
	debug := map[string]string{"/proc/self/mounts": "debugfs /sys/kernel/debug debugfs rw 0 0\n"}
	locked := map[string]string{"/sys/kernel/security/lockdown": "none [integrity] confidentiality\n"}
	for _, tt := range []struct {
		name  string
		tree  map[string]string
		lines []string
		want  []string
	}{
		{"5.12", kernel("5.12.0-1", old+"sched_min_granularity_ns", old+"sched_latency_ns", old+"numa_balancing_scan_size_mb"),
			[]string{"sched_base_slice_ns=3000000", "sched_latency_ns=>60000000", "numa_balancing_scan_size_mb=256"}, []string{
				"sysctl:kernel.sched_min_granularity_ns = 3000000 # this kernel calls it kernel.sched_min_granularity_ns",
				"sysctl:kernel.sched_latency_ns = >60000000",
				"sysctl:kernel.numa_balancing_scan_size_mb = 256"}},
		{"5.14", plugin.Join(debug, kernel("5.14.0-70.el9", base+"min_granularity_ns", base+"wakeup_granularity_ns", base+"numa_balancing/scan_delay_ms",
			base+"numa_balancing/scan_period_min_ms", base+"numa_balancing/scan_period_max_ms")),
			[]string{"sched_min_granularity_ns=10000000", "sched_wakeup_granularity_ns=15000000", "numa_balancing_scan_delay_ms=0",
				"numa_balancing_scan_period_min_ms=500", "numa_balancing_scan_period_max_ms=30000"}, []string{
				d + "min_granularity_ns = 10000000", d + "wakeup_granularity_ns = 15000000", d + "numa_balancing/scan_delay_ms = 0",
				d + "numa_balancing/scan_period_min_ms = 500", d + "numa_balancing/scan_period_max_ms = 30000"}},
		{"6.6", plugin.Join(debug, kernel("6.6.1", base+"base_slice_ns", base+"migration_cost_ns", base+"tunable_scaling", base+"nr_migrate")),
			[]string{"sched_min_granularity_ns=10000000", "sched_wakeup_granularity_ns=15000000", "sched_latency_ns=1000000",
				"sched_migration_cost_ns=5000000", "sched_tunable_scaling=0", "sched_nr_migrate=8", "numa_balancing_scan_size_mb=1"}, []string{
				d + "base_slice_ns = 10000000 # this kernel calls it base_slice_ns",
				d + "latency_ns ! unsupported: Linux 6.6 removed it with the scheduler before EEVDF; this is Linux 6.6",
				d + "wakeup_granularity_ns ! unsupported: Linux 6.6 removed it with the scheduler before EEVDF; this is Linux 6.6",
				d + "tunable_scaling = 0", d + "migration_cost_ns = 5000000", d + "nr_migrate = 8",
				d + "numa_balancing/scan_size_mb ! unsupported: this kernel is built without CONFIG_NUMA_BALANCING"}},
		{"not mounted", kernel("6.18.44"), []string{"sched_migration_cost_ns=1", "sched_latency_ns=200000"}, []string{
			d + "latency_ns ! unsupported: Linux 6.6 removed it with the scheduler before EEVDF; this is Linux 6.18",
			d + "migration_cost_ns ! unsupported: this setting is in debugfs, which is not mounted: mount -t debugfs debugfs /sys/kernel/debug"}},
		{"locked", plugin.Join(locked, kernel("6.18.44")), []string{"sched_nr_migrate=1"}, []string{
			d + "nr_migrate ! unsupported: this setting is in debugfs, which this kernel locks (kernel lockdown: integrity, as with Secure Boot)"}},
		{"without SCHED_DEBUG", plugin.Join(debug, kernel("6.1.0")), []string{"sched_nr_migrate=1"}, []string{
			d + "nr_migrate ! unsupported: debugfs has no directory sched: this kernel is built without CONFIG_SCHED_DEBUG"}},
		{"bad values", plugin.Join(debug, kernel("6.6.1", base+"base_slice_ns", base+"tunable_scaling")),
			[]string{"sched_base_slice_ns=0", "sched_tunable_scaling=3", "sched_latency_ns=fast", "sched_nr_migrate=None"}, []string{
				d + `base_slice_ns ! rejected: "0" is not a value for sched_base_slice_ns: want a whole number from 100000 to 1000000000`,
				d + `latency_ns ! rejected: "fast" is not a value for sched_latency_ns: want a whole number from 100000 to 1000000000`,
				d + `tunable_scaling ! rejected: "3" is not a value for sched_tunable_scaling: want a whole number from 0 to 2`}},
		{"named as this kernel has it", plugin.Join(kernel("6.18.1"), debug), []string{"sched_min_granularity_ns=200000", "sched_base_slice_ns=200000"}, []string{
			d + "base_slice_ns ! unsupported: debugfs has no directory sched: this kernel is built without CONFIG_SCHED_DEBUG",
			d + "base_slice_ns ! unsupported: debugfs has no directory sched: this kernel is built without CONFIG_SCHED_DEBUG"}},
		{"alias on 6.1", plugin.Join(debug, kernel("6.1.0", base+"min_granularity_ns")), []string{"sched_base_slice_ns=200000"}, []string{
			d + "min_granularity_ns = 200000 # this kernel calls it min_granularity_ns"}},
	} {
		got := plugin.PlanPlugintest(t, Scheduler, machine.Mounted(t, tt.tree), plugin.Unit("scheduler", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestThisKernelIsTold plans each variable on this machine: it is written, or the reason names the
// missing kernel version, build option or mount.
func TestThisKernelIsTold(t *testing.T) {
	h := host.Live()
	for _, v := range all {
		lines := plugin.PlanPlugintest(t, Scheduler, h, plugin.Unit("scheduler", v.option+"=1000000"))
		if v.option == "sched_tunable_scaling" {
			lines = plugin.PlanPlugintest(t, Scheduler, h, plugin.Unit("scheduler", v.option+"=1"))
		}
		if len(lines) != 1 {
			t.Errorf("%s: %q: want one line", v.option, lines)
		}
		t.Log(lines)
	}
}

func FuzzParseLatency(f *testing.F) {
	for _, s := range []string{"70", "cstate.id:1|3", "cstate.id_no_zero:0|None", "cstate.name:C1E", "cstate.name_no_zero:POLL", "n/a", "", "|", "cstate.id:", "-1|2147483648"} {
		f.Add(s, true)
	}
	h := machine.Mounted(f, idle())
	f.Fuzz(func(t *testing.T, value string, na bool) {
		l, reason, wrong := parseLatency(h, value, na)
		n, err := strconv.ParseInt(l.text, 10, 64)
		switch {
		case l.none && l.text == "":
		case l.text == "n/a":
			if !na {
				t.Errorf("%q gives n/a, which is not a value here", value)
			}
		case l.text != "":
			if err != nil || n < 0 || n > math.MaxInt32 {
				t.Errorf("%q gives %q", value, l.text)
			}
		case reason == "" && !wrong:
			t.Errorf("%q gives nothing, without a reason", value)
		}
	})
}
