package kernel

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

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
			enabled + " ! overridden: p.conf:3: transparent_hugepage=always of the same unit is applied later and holds", enabled + " = always"}},
		{"word", vmMachine, []string{"transparent_hugepages=sometimes"}, []string{
			enabled + ` ! rejected: "sometimes" is no value for transparent_hugepages: want always, madvise or never`}},
		{"on the command line", onCommandLine, []string{"transparent_hugepages=never"}, []string{
			enabled + " ! overridden: not written: the kernel command line says transparent_hugepage=madvise"}},
		{"on the command line, the same", onCommandLine, []string{"transparent_hugepages=madvise"}, []string{enabled + " = madvise"}},
		{"no huge pages", without, []string{"transparent_hugepages=never", "transparent_hugepage.defrag=never"}, []string{
			enabled + " ! unsupported: this kernel is built without transparent huge pages",
			defrag + " ! unsupported: this kernel is built without transparent huge pages"}},
		{"RHEL 6", rhel6, []string{"transparent_hugepages=never"}, []string{"sysfs:/sys/kernel/mm/redhat_transparent_hugepage/enabled = never"}},
		{"defrag", vmMachine, []string{"transparent_hugepage.defrag=defer+madvise"}, []string{defrag + " = defer+madvise"}},
		{"defrag of a later kernel", plugin.Join(vmMachine, map[string]string{thp + "/defrag": "[always] madvise never\n"}),
			[]string{"transparent_hugepage.defrag=defer"}, []string{defrag + " ! unsupported: this kernel offers always, madvise, never"}},
		{"defrag word", vmMachine, []string{"transparent_hugepage.defrag=on"}, []string{
			defrag + ` ! rejected: "on" is no value for transparent_hugepage.defrag: want always, defer, defer+madvise, madvise or never`}},
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
			`sysctl:vm.dirty_bytes ! rejected: "8191" is no value for dirty_bytes: want bytes, at least two pages (8192), or a percentage such as 40%`,
			`sysctl:vm.dirty_background_bytes ! rejected: "-1" is no value for dirty_background_bytes: want bytes, at least 1, or a percentage such as 10%`}},
		{"larger pages", plugin.Join(vmMachine, map[string]string{"/proc/self/auxv": auxv(16, 1, 6, 65536, 0, 0)}), []string{"dirty_bytes=8192"}, []string{
			`sysctl:vm.dirty_bytes ! rejected: "8192" is no value for dirty_bytes: want bytes, at least two pages (131072), or a percentage such as 40%`}},
		{"out of range", vmMachine, []string{"dirty_ratio=101", "dirty_background_bytes=-1%"}, []string{
			`sysctl:vm.dirty_ratio ! rejected: "101" is no value for dirty_ratio: want 0 to 100 percent`,
			`sysctl:vm.dirty_background_ratio ! rejected: "-1%" is no value for dirty_background_bytes: want 0 to 100 percent`}},
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
