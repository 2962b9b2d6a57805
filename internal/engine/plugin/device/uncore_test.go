package device

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

func domain(name, low, high, min, max string) map[string]string {
	d := uncoreDir + "/" + name + "/"
	return map[string]string{d + "initial_min_freq_khz": low, d + "initial_max_freq_khz": high, d + "min_freq_khz": min, d + "max_freq_khz": max}
}

func TestUncoreDevices(t *testing.T) {
	msr := plugin.Join(domain("package_00_die_00", "8", "9", "8", "9"), domain("package_01_die_00", "8", "9", "8", "9"))
	tpmi := plugin.Join(msr, domain("uncore02", "8", "9", "8", "9"), domain("uncore10", "8", "9", "8", "9"))
	for _, tt := range []struct {
		tree map[string]string
		want []string
	}{{msr, []string{"package_00_die_00", "package_01_die_00"}}, {tpmi, []string{"uncore02", "uncore10"}}} {
		got, err := uncoreDevices(context.Background(), machine.Mounted(t, tt.tree))
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestUncorePlan(t *testing.T) {
	const d = "sysfs:" + uncoreDir + "/uncore00/"
	free := domain("uncore00", "800000\n", "2500000\n", "800000\n", "2500000\n")
	limited := domain("uncore00", "800000\n", "2500000\n", "1200000\n", "1400000\n")
	for _, tt := range []struct {
		tree  map[string]string
		lines []string
		want  []string
	}{
		{free, []string{"max_freq_khz=2000000"}, []string{d + "max_freq_khz = 2000000"}},
		{free, []string{"min_freq_khz=>1000000"}, []string{d + "min_freq_khz = >1000000"}},
		{free, []string{"max_freq_khz=90%"}, []string{d + "max_freq_khz = 2300000 # 90% of 800000 to 2500000 kHz, in whole steps of 100 MHz"}},
		{free, []string{"min_freq_khz=100%"}, []string{d + "min_freq_khz = 2500000 # 100% of 800000 to 2500000 kHz"}},
		{free, []string{"max_freq_khz=4000000"}, []string{d + "max_freq_khz = 2500000 # uncore00 can be set to 2500000 kHz at most"}},
		{free, []string{"min_freq_khz=100000"}, []string{d + "min_freq_khz = 800000 # uncore00 can be set to 800000 kHz at least"}},
		{limited, []string{"max_freq_khz=1000000"}, []string{d + "max_freq_khz ! rejected: 1000000 kHz is below the lower limit of uncore00, 1200000 kHz"}},
		{limited, []string{"min_freq_khz=1500000"}, []string{d + "min_freq_khz ! rejected: 1500000 kHz is above the upper limit of uncore00, 1400000 kHz"}},
		{limited, []string{"min_freq_khz=1500000", "max_freq_khz=1600000"}, []string{d + "max_freq_khz = 1600000", d + "min_freq_khz = 1500000"}},
		{limited, []string{"max_freq_khz=1000000", "min_freq_khz=0%"}, []string{
			d + "min_freq_khz = 800000 # 0% of 800000 to 2500000 kHz", d + "max_freq_khz = 1000000"}},
		{free, []string{"max_freq_khz=1000000", "min_freq_khz=1500000"}, []string{
			d + "max_freq_khz ! rejected: 1000000 kHz is below the lower limit of the same unit, 1500000 kHz", d + "min_freq_khz = 1500000"}},
		{free, []string{"max_freq_khz=101%"}, []string{d + `max_freq_khz ! rejected: "101%" is no value for max_freq_khz: want kHz, or a percentage from 0% to 100%`}},
		{free, []string{"max_freq_khz=2GHz"}, []string{d + `max_freq_khz ! rejected: "2GHz" is no value for max_freq_khz: want kHz, or a percentage from 0% to 100%`}},
		{map[string]string{uncoreDir + "/uncore00/max_freq_khz": "1"}, []string{"max_freq_khz=1"}, []string{
			d + "max_freq_khz ! unsupported: uncore00 does not say between which frequencies it can be set"}},
		{nil, []string{"max_freq_khz=1"}, []string{"p.conf:1: [uncore] does nothing: no uncore device is left for it on this machine"}},
	} {
		got := plugin.PlanPlugintest(t, Uncore, machine.Mounted(t, tt.tree), plugin.Unit("uncore", tt.lines...))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
}
