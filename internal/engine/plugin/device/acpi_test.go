package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestACPIPlan(t *testing.T) {
	laptop := map[string]string{
		"/sys/firmware/acpi/platform_profile":         "balanced\n",
		"/sys/firmware/acpi/platform_profile_choices": "quiet balanced performance\n",
	}
	guest := map[string]string{"/proc/cpuinfo": "flags\t: fpu hypervisor\n"}
	const s = "sysfs:" + acpiPlace
	for _, tt := range []struct {
		tree        map[string]string
		value, want string
	}{
		{laptop, "performance", s + " = performance"},
		{laptop, "low-power|quiet", s + " = quiet"},
		{laptop, "low-power | cool", s + " ! unsupported: the firmware offers only quiet, balanced, performance"},
		{laptop, "|quiet", s + ` ! rejected: "|quiet" is no value for platform_profile: want a profile such as balanced, or alternatives a|b`},
		{nil, "performance", s + " ! unsupported: the firmware of this machine offers no platform profiles"},
		{guest, "performance", s + " ! unsupported: this machine is a guest, and only the firmware of a real machine has platform profiles"},
	} {
		got := plugin.PlanPlugintest(t, ACPI, machine.Mounted(t, tt.tree), plugin.Unit("acpi", "platform_profile="+tt.value))
		if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.value, diff)
		}
	}
}
