package kernel

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

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
		{"/sys/block/*/nothing=1", []string{"sysfs:/sys/block/*/nothing ! unsupported: nothing on this machine matches it"}},
		{"/sys/nothing=1", []string{"sysfs:/sys/nothing ! unsupported: this machine has no such attribute"}},
		{"/sys/../etc/passwd=1", []string{"sysfs:/etc/passwd ! refused: /etc/passwd is not below /sys; this plug-in writes nothing else"}},
		{"/etc/pass*=1", []string{"sysfs:/etc/pass* ! refused: /etc/pass* is not below /sys; this plug-in writes nothing else"}},
		{"/sys/kernel/mm/ksm/run=", []string{`sysfs:/sys/kernel/mm/ksm/run ! rejected: "" is no value for /sys/kernel/mm/ksm/run: want a value; writing nothing changes nothing`}},
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
