package cpu

import (
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/plugin"
)

// TestThisKernelIsTold plans each variable on the machine at hand: it is
// written or the reason says which kernel, option or mount is missing.
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
