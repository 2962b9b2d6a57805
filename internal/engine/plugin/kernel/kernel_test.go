package kernel

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestThreshold(t *testing.T) {
	h := machine.Mounted(t, map[string]string{threshold: "512"})
	kinds := plugin.Kinds(h)
	before := plugin.Snapshot(t, h)
	items := plugin.PlanUndotest(t, &SELinux, h, kinds, "avc_cache_threshold= 8192 ")
	if d := cmp.Diff([]string{"sysfs:" + threshold + " = 8192"}, plugin.Lines(items)); d != "" {
		t.Error(d)
	}
	images := plugin.Apply(t, kinds, items)
	if b, _ := h.Files.ReadFile(threshold); string(b) != "8192" {
		t.Errorf("reads %q", b)
	}
	plugin.Undo(t, kinds, images)
	if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"-1", "many", "1e3"} {
		if _, err := plugin.TryPlan(&SELinux, h, kinds, "avc_cache_threshold="+bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if items := plugin.PlanUndotest(t, &SELinux, h, kinds, "avc_cache_threshold=none"); len(items) > 0 {
		t.Error(items)
	}
}

func TestWithoutSELinux(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/sys/fs/": ""})
	got := plugin.Lines(plugin.PlanUndotest(t, &SELinux, h, plugin.Kinds(h), "avc_cache_threshold=8192"))
	if d := cmp.Diff([]string{"sysfs:" + threshold + " unsupported: SELinux is not enabled on this machine"}, got); d != "" {
		t.Error(d)
	}
}

func TestSysctlPlan(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/proc/sys/vm/swappiness":                         "60\n",
		"/proc/sys/kernel/core_pattern":                   "core\n",
		"/proc/sys/net/ipv4/tcp_rmem":                     "4096\t131072\t6291456\n",
		"/proc/sys/net/ipv4/conf/eth0.100/rp_filter":      "0\n",
		"/proc/sys/net/ipv4/neigh/lo/retrans_time":        "100\n",
		"/proc/sys/net/ipv4/neigh/lo/retrans_time_ms":     "1000\n",
		"/proc/sys/kernel/sched_domain/several":           "a\nb\n",
		"/proc/sys/net/ipv4/neigh/lo/base_reachable_time": "30\n",
	})
	for _, tt := range []struct{ line, want string }{
		{"vm.swappiness=10", "sysctl:vm.swappiness = 10"},
		{"vm/swappiness=10", "sysctl:vm/swappiness = 10"},
		{"vm.swappiness=>10", "sysctl:vm.swappiness = >10"},
		{"vm.swappiness=< 10", "sysctl:vm.swappiness = <10"},
		{`net.ipv4.tcp_rmem="4096 87380 16777216"`, "sysctl:net.ipv4.tcp_rmem = 4096 87380 16777216"},
		{"kernel.core_pattern=|/bin/false %e", "sysctl:kernel.core_pattern = |/bin/false %e"},
		{"net.ipv4.conf.eth0/100.rp_filter=1", "sysctl:net.ipv4.conf.eth0/100.rp_filter = 1"},
		{"kernel.core_pattern=", `sysctl:kernel.core_pattern ! rejected: "" is not a value for kernel.core_pattern: want a value that is not empty`},
		{"net.ipv4.neigh.lo.retrans_time=5", "sysctl:net.ipv4.neigh.lo.retrans_time ! refused: the unit of retrans_time depends on the kernel (net/core/neighbour.c); set net.ipv4.neigh.lo.retrans_time_ms, in milliseconds"},
		{"net.ipv4.neigh.lo.base_reachable_time=5", "sysctl:net.ipv4.neigh.lo.base_reachable_time ! refused: the unit of base_reachable_time depends on the kernel (net/core/neighbour.c); set net.ipv4.neigh.lo.base_reachable_time_ms, in milliseconds"},
		{"net.ipv4.neigh.lo.retrans_time_ms=5", "sysctl:net.ipv4.neigh.lo.retrans_time_ms = 5"},
		{"kernel.sched_domain.several=a", "sysctl:kernel.sched_domain.several ! refused: the variable has several lines, which undo could not restore atomically"},
		{"vm.swappiness=1\n2", "sysctl:vm.swappiness ! rejected: a multi-line value cannot be written atomically"},
		{"vm.swappiness=7\n", "sysctl:vm.swappiness = 7"},
		{"vm.swappiness=\"7\"\r\n\n", "sysctl:vm.swappiness = 7"},
		{"vm.swappiness=\n", `sysctl:vm.swappiness ! rejected: "\n" is not a value for vm.swappiness: want a value that is not empty`},
		{"vm.nothing=1", "sysctl:vm.nothing ! unsupported: this kernel has no vm.nothing"},
		{"vm.*=1", "sysctl:vm.* ! unsupported: this kernel has no vm.*"},
		{"kernel.sched_min_granularity_ns=1", "sysctl:kernel.sched_min_granularity_ns ! unsupported: this kernel has no kernel.sched_min_granularity_ns: since Linux 5.13 it is in debugfs, since 6.6 as base_slice_ns; a [scheduler] section can set it"},
		{"net.netfilter.nf_conntrack_max=1", "sysctl:net.netfilter.nf_conntrack_max ! unsupported: this kernel has no net.netfilter.nf_conntrack_max: the variable comes with the module nf_conntrack, which is not loaded"},
		{"vm//swappiness=1", `sysctl:vm//swappiness ! rejected: sysctl "vm//swappiness": not a name below /proc/sys`},
		{"vm/../../etc/passwd=x", `sysctl:vm/../../etc/passwd ! refused: sysctl "vm/../../etc/passwd": leads outside /proc/sys/`},
	} {
		got := plugin.PlanPlugintest(t, Sysctl, h, plugin.Unit("sysctl", tt.line))
		if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
}

func TestSysfsPlan(t *testing.T) {
	h := machine.Mounted(t, map[string]string{
		"/sys/devices/system/cpu/cpu0/x":   "0\n",
		"/sys/devices/system/cpu/cpu2/x":   "0\n",
		"/sys/devices/system/cpu/cpu10/x":  "0\n",
		"/sys/devices/system/cpu/cpufreq/": "",
		"/sys/kernel/mm/ksm/run":           "0\n",
		"/etc/passwd":                      "root\n",
	})
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"/sys/kernel/mm/ksm/run=1", []string{"sysfs:/sys/kernel/mm/ksm/run = 1"}},
		{"/sys/kernel//mm/./ksm/run=>1", []string{"sysfs:/sys/kernel/mm/ksm/run = >1"}},
		{"/sys/devices/system/cpu/cpu[0-9]*/x=1", []string{
			"sysfs:/sys/devices/system/cpu/cpu0/x = 1", "sysfs:/sys/devices/system/cpu/cpu2/x = 1", "sysfs:/sys/devices/system/cpu/cpu10/x = 1"}},
		{"/sys/devices/system/cpu/cpu[!1]*/x=1", []string{
			"sysfs:/sys/devices/system/cpu/cpu0/x = 1", "sysfs:/sys/devices/system/cpu/cpu2/x = 1"}},
		{"/sys/devices/system/cpu/cpu?/x=1", []string{
			"sysfs:/sys/devices/system/cpu/cpu0/x = 1", "sysfs:/sys/devices/system/cpu/cpu2/x = 1"}},
		{"/sys/block/*/nothing=1", []string{"sysfs:/sys/block/*/nothing ! unsupported: no attribute on this machine matches this pattern"}},
		{"/sys/nothing=1", []string{"sysfs:/sys/nothing ! unsupported: this machine has no such attribute"}},
		{"/sys/../etc/passwd=1", []string{"sysfs:/etc/passwd ! refused: /etc/passwd is not below /sys; this plug-in writes only below /sys"}},
		{"/etc/pass*=1", []string{"sysfs:/etc/pass* ! refused: /etc/pass* is not below /sys; this plug-in writes only below /sys"}},
		{"/sys/kernel/mm/ksm/run=", []string{`sysfs:/sys/kernel/mm/ksm/run ! rejected: "" is not a value for /sys/kernel/mm/ksm/run: want a value that is not empty`}},
	} {
		got := plugin.PlanPlugintest(t, Sysfs, h, plugin.Unit("sysfs", tt.line))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.line, diff)
		}
	}
}

func TestRelativeNameIsUnknown(t *testing.T) {
	if _, ok := Sysfs.Option("kernel/mm/ksm/run"); ok {
		t.Error("a name that is no path was taken for an option")
	}
}

const thp = "/sys/kernel/mm/transparent_hugepage"

var vmMachine = map[string]string{
	thp + "/enabled":                      "always [madvise] never\n",
	thp + "/defrag":                       "always defer defer+madvise [madvise] never\n",
	"/proc/cmdline":                       "root=/dev/vda1 quiet\n",
	"/proc/sys/vm/dirty_ratio":            "20\n",
	"/proc/sys/vm/dirty_bytes":            "0\n",
	"/proc/sys/vm/dirty_background_ratio": "10\n",
	"/proc/sys/vm/dirty_background_bytes": "0\n",
}

func TestVMPlan(t *testing.T) {
	onCommandLine := plugin.Join(vmMachine, map[string]string{"/proc/cmdline": "quiet transparent_hugepage=never transparent_hugepage=madvise\n"})
	without := map[string]string{"/proc/cmdline": "quiet\n"}
	rhel6 := map[string]string{"/sys/kernel/mm/redhat_transparent_hugepage/enabled": "[always] never\n"}
	const enabled, defrag = "sysfs:" + thp + "/enabled", "sysfs:" + thp + "/defrag"
	for _, tt := range []struct {
		name  string
		tree  map[string]string
		lines []string
		want  []string
	}{
		{"plural", vmMachine, []string{"transparent_hugepages=never"}, []string{enabled + " = never"}},
		{"singular", vmMachine, []string{"transparent_hugepage=always"}, []string{enabled + " = always"}},
		{"both", vmMachine, []string{"transparent_hugepages=never", "transparent_hugepage=always"}, []string{
			enabled + " ! overridden: p.conf:3: overridden by transparent_hugepage=always, applied later in the same section", enabled + " = always"}},
		{"word", vmMachine, []string{"transparent_hugepages=sometimes"}, []string{
			enabled + ` ! rejected: "sometimes" is not a value for transparent_hugepages: want always, madvise or never`}},
		{"on the command line", onCommandLine, []string{"transparent_hugepages=never"}, []string{
			enabled + " ! overridden: not written, because the kernel command line sets transparent_hugepage=madvise"}},
		{"on the command line, the same", onCommandLine, []string{"transparent_hugepages=madvise"}, []string{enabled + " = madvise"}},
		{"no huge pages", without, []string{"transparent_hugepages=never", "transparent_hugepage.defrag=never"}, []string{
			enabled + " ! unsupported: this kernel is built without transparent huge pages",
			defrag + " ! unsupported: this kernel is built without transparent huge pages"}},
		{"RHEL 6", rhel6, []string{"transparent_hugepages=never"}, []string{"sysfs:/sys/kernel/mm/redhat_transparent_hugepage/enabled = never"}},
		{"defrag", vmMachine, []string{"transparent_hugepage.defrag=defer+madvise"}, []string{defrag + " = defer+madvise"}},
		{"defrag of a later kernel", plugin.Join(vmMachine, map[string]string{thp + "/defrag": "[always] madvise never\n"}),
			[]string{"transparent_hugepage.defrag=defer"}, []string{defrag + " ! unsupported: this kernel offers always, madvise, never"}},
		{"defrag word", vmMachine, []string{"transparent_hugepage.defrag=on"}, []string{
			defrag + ` ! rejected: "on" is not a value for transparent_hugepage.defrag: want always, defer, defer+madvise, madvise or never`}},
		{"bytes", vmMachine, []string{"dirty_bytes=67108864", "dirty_background_bytes=1"}, []string{
			"sysctl:vm.dirty_bytes = 67108864", "sysctl:vm.dirty_background_bytes = 1"}},
		{"bytes in percent", vmMachine, []string{"dirty_bytes=40%", "dirty_background_bytes= 3 %"}, []string{
			"sysctl:vm.dirty_ratio = 40", "sysctl:vm.dirty_background_ratio = 3"}},
		{"ratio", vmMachine, []string{"dirty_ratio=0", "dirty_background_ratio=100"}, []string{
			"sysctl:vm.dirty_ratio = 0", "sysctl:vm.dirty_background_ratio = 100"}},
		{"bytes and ratio", vmMachine, []string{"dirty_ratio=10", "dirty_bytes=67108864"}, []string{
			"sysctl:vm.dirty_bytes = 67108864", "sysctl:vm.dirty_ratio = 10"}}, // the plan takes the later
		{"0 says not this spelling", vmMachine, []string{"dirty_bytes=0", "dirty_background_bytes=0"}, []string{
			"sysctl:vm.dirty_bytes = 0", "sysctl:vm.dirty_background_bytes = 0"}},
		{"too small", vmMachine, []string{"dirty_bytes=8191", "dirty_background_bytes=-1"}, []string{
			`sysctl:vm.dirty_bytes ! rejected: "8191" is not a value for dirty_bytes: want bytes, at least two pages (8192), or a percentage such as 40%`,
			`sysctl:vm.dirty_background_bytes ! rejected: "-1" is not a value for dirty_background_bytes: want bytes, at least 1, or a percentage such as 10%`}},
		{"larger pages", plugin.Join(vmMachine, map[string]string{"/proc/self/auxv": auxv(16, 1, 6, 65536, 0, 0)}), []string{"dirty_bytes=8192"}, []string{
			`sysctl:vm.dirty_bytes ! rejected: "8192" is not a value for dirty_bytes: want bytes, at least two pages (131072), or a percentage such as 40%`}},
		{"out of range", vmMachine, []string{"dirty_ratio=101", "dirty_background_bytes=-1%"}, []string{
			`sysctl:vm.dirty_ratio ! rejected: "101" is not a value for dirty_ratio: want 0 to 100 percent`,
			`sysctl:vm.dirty_background_ratio ! rejected: "-1%" is not a value for dirty_background_bytes: want 0 to 100 percent`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := plugin.PlanPlugintest(t, VM, machine.Mounted(t, tt.tree), plugin.Unit("vm", tt.lines...))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func auxv(words ...uint64) string {
	var b []byte
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return string(b)
}
