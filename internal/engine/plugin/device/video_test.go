package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func TestVideoPlan(t *testing.T) {
	radeon := func(method string) map[string]string {
		return map[string]string{
			videoDir + "/card0-LVDS-1/device/power_method":    method + "\n",
			videoDir + "/card0-LVDS-1/device/power_profile":   "default\n",
			videoDir + "/card0-LVDS-1/device/power_dpm_state": "balanced\n",
		}
	}
	amdgpu := map[string]string{
		videoDir + "/card1-eDP-1/amdgpu/panel_power_savings": "0\n",
		videoDir + "/card1-DP-1/status":                      "disconnected\n",
		videoDir + "/card1/device/power_dpm_state":           "performance\n",
		videoDir + "/renderD128/uevent":                      "",
	}
	const at, edp = "sysfs:" + videoDir + "/card0-LVDS-1/device/", "sysfs:" + videoDir + "/card1-eDP-1/"
	for _, tt := range []struct {
		tree  map[string]string
		lines []string
		want  []string
	}{
		{radeon("dpm"), []string{"radeon_powersave=dpm-battery, auto"}, []string{at + "power_dpm_state = battery"}},
		{radeon("dpm"), []string{"radeon_powersave=auto;dpm-performance"}, []string{at + "power_dpm_state = performance"}},
		{radeon("dpm"), []string{"radeon_powersave=auto"}, []string{
			at + "power_method ! unsupported: the card manages its power dynamically and takes only dpm-battery, dpm-balanced and dpm-performance"}},
		{radeon("profile"), []string{"radeon_powersave=dpm-balanced, auto"}, []string{at + "power_method = profile", at + "power_profile = auto"}},
		{radeon("profile"), []string{"radeon_powersave=dynpm"}, []string{at + "power_method = dynpm"}},
		{radeon("profile"), []string{"radeon_powersave=dpm-battery"}, []string{
			at + "power_method ! unsupported: the card runs without dynamic power management (radeon.dpm=0) and takes no dpm- state"}},
		{radeon("profile"), []string{"radeon_powersave=auto, turbo"}, []string{
			at + `power_method ! rejected: "auto, turbo" is no value for radeon_powersave: want default, auto, low, mid, high, dynpm, dpm-battery, dpm-balanced or dpm-performance`}},
		{amdgpu, []string{"panel_power_savings=3"}, []string{edp + "amdgpu/panel_power_savings = 3"}},
		{amdgpu, []string{"panel_power_savings=5"}, []string{edp + `amdgpu/panel_power_savings ! rejected: "5" is no value for panel_power_savings: want 0 to 4`}},
		{amdgpu, []string{"radeon_powersave=auto"}, []string{edp + "device/power_method ! unsupported: card1-eDP-1 is not on a card of the radeon driver"}},
		{radeon("dpm"), []string{"panel_power_savings=1"}, []string{
			"sysfs:" + videoDir + "/card0-LVDS-1/amdgpu/panel_power_savings ! unsupported: card0-LVDS-1 is no laptop panel on amdgpu"}},
		{nil, []string{"panel_power_savings=1"}, []string{"p.conf:1: [video] does nothing: no video device is left for it on this machine"}},
	} {
		got := plugin.PlanPlugintest(t, Video, machine.Mounted(t, tt.tree), plugin.Unit("video", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}
