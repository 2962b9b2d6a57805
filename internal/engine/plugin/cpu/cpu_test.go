package cpu

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitplugin "fettle.dev/fettle/internal/testkit/plugin"
)

// cpus creates n CPUs, each with its own frequency policy.
func cpus(n int, driver, governors, governor string) map[string]string {
	files := map[string]string{"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme\n"}
	for i := range n {
		p := fmt.Sprintf("%s/policy%d/", cpufreqDir, i)
		files[p+"scaling_driver"] = driver + "\n"
		files[p+"scaling_available_governors"] = governors + "\n"
		files[p+"scaling_governor"] = governor + "\n"
		files[fmt.Sprintf("%s/cpu%d/power/pm_qos_resume_latency_us", cpuDir, i)] = "0\n"
		if i > 0 {
			files[fmt.Sprintf("%s/cpu%d/online", cpuDir, i)] = "1\n"
		}
	}
	return files
}

func intel(n int, governor string) map[string]string {
	files := cpus(n, "intel_pstate", "performance powersave", governor)
	for i := range n {
		p := fmt.Sprintf("%s/policy%d/", cpufreqDir, i)
		files[p+"energy_performance_preference"] = "balance_performance\n"
		files[p+"energy_performance_available_preferences"] = "default performance balance_performance balance_power power\n"
		files[fmt.Sprintf("%s/cpu%d/power/energy_perf_bias", cpuDir, i)] = "6\n"
	}
	files[pstateDir+"/min_perf_pct"] = "20\n"
	files[pstateDir+"/max_perf_pct"] = "50\n"
	files[pstateDir+"/no_turbo"] = "0\n"
	return files
}

func idle() map[string]string {
	files := map[string]string{"/dev/cpu_dma_latency": "\x00\x94\x35\x77"}
	for i, s := range []struct{ name, latency string }{{"POLL", "0"}, {"C1", "2"}, {"C1E", "10"}, {"C6", "133"}} {
		d := fmt.Sprintf("%s/state%d/", idleDir, i)
		files[d+"name"], files[d+"latency"] = s.name+"\n", s.latency+"\n"
	}
	return files
}

var guest = map[string]string{
	"/proc/cpuinfo":                                 "processor\t: 0\nflags\t\t: fpu hypervisor\n",
	cpuDir + "/cpu0/power/control":                  "auto\n",
	cpuDir + "/cpu0/power/pm_qos_resume_latency_us": "0\n",
	cpuDir + "/cpu1/power/control":                  "auto\n",
	cpuDir + "/cpu1/power/pm_qos_resume_latency_us": "0\n",
	cpuDir + "/cpufreq/":                            "",
	"/dev/cpu_dma_latency":                          "\x00\x94\x35\x77",
}

const (
	p0, p1 = "sysfs:" + cpufreqDir + "/policy0/", "sysfs:" + cpufreqDir + "/policy1/"
	c0, c1 = "sysfs:" + cpuDir + "/cpu0/power/", "sysfs:" + cpuDir + "/cpu1/power/"
	turbo  = "sysfs:" + pstateDir + "/no_turbo"
)

type test struct {
	name  string
	tree  map[string]string
	lines []string
	want  []string
}

func run(t *testing.T, tests []test, change ...func(*plugin.Request)) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := testkitplugin.PlanPlugintest(t, CPU, machine.Mounted(t, tt.tree), testkitplugin.Unit("cpu", tt.lines...), change...)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGovernor(t *testing.T) {
	acpi := cpus(2, "acpi-cpufreq", "ondemand performance schedutil", "schedutil")
	modules := map[string]string{"/proc/sys/kernel/osrelease": "6.1\n", "/lib/modules/6.1/modules.dep": "kernel/drivers/cpufreq/cpufreq_conservative.ko:\n"}
	shared := map[string]string{
		cpuDir + "/cpu0/cpufreq": "-> ../cpufreq/policy0", cpuDir + "/cpu1/cpufreq": "-> ../cpufreq/policy0",
		cpufreqDir + "/policy0/scaling_available_governors": "performance powersave\n",
		cpufreqDir + "/policy0/scaling_governor":            "powersave\n",
	}
	run(t, []test{
		{"one", acpi, []string{"governor=performance"}, []string{p0 + "scaling_governor = performance", p1 + "scaling_governor = performance"}},
		{"some", acpi, []string{"devices=cpu1", "governor=performance"}, []string{p1 + "scaling_governor = performance"}},
		{"alternatives", acpi, []string{"devices=cpu0", "governor=conservative | ondemand|powersave"}, []string{p0 + "scaling_governor = ondemand"}},
		{"offered before loadable", testkitplugin.Join(acpi, modules), []string{"devices=cpu0", "governor=conservative|ondemand"}, []string{p0 + "scaling_governor = ondemand"}},
		{"loadable", testkitplugin.Join(acpi, modules), []string{"devices=cpu0", "governor=powersave|conservative"}, []string{
			p0 + "scaling_governor = conservative # the kernel then loads the module cpufreq_conservative"}},
		{"not in active mode", testkitplugin.Join(intel(1, "powersave"), modules), []string{"governor=conservative"}, []string{
			p0 + "scaling_governor ! unsupported: cpu0 offers only performance, powersave"}},
		{"none", acpi, []string{"devices=cpu0", "governor=userspace|conservative"}, []string{
			p0 + "scaling_governor ! unsupported: cpu0 offers only ondemand, performance, schedutil"}},
		{"empty alternative", acpi, []string{"devices=cpu0", "governor=performance|"}, []string{
			p0 + `scaling_governor ! rejected: "performance|" is not a value for governor: want a governor such as performance, or alternatives a|b`}},
		{"offline", testkitplugin.Join(acpi, map[string]string{cpuDir + "/cpu1/online": "0\n"}), []string{"governor=performance"}, []string{p0 + "scaling_governor = performance"}},
		{"shared policy", shared, []string{"devices=cpu1", "governor=performance"}, []string{"sysfs:" + cpuDir + "/cpu1/cpufreq/scaling_governor = performance"}},
		{"guest", guest, []string{"governor=performance"}, []string{
			p0 + "scaling_governor ! unsupported: this machine is a guest, and its hypervisor decides on the frequency of the CPUs"}},
		{"bare metal without a driver", testkitplugin.Join(guest, map[string]string{"/proc/cpuinfo": "flags : fpu\n"}), []string{"governor=performance"}, []string{
			p0 + "scaling_governor ! unsupported: the kernel has no frequency driver for these CPUs, or the firmware controls the frequency"}},
	})
}

func TestSamplingDownFactor(t *testing.T) {
	acpi := cpus(1, "acpi-cpufreq", "conservative ondemand performance", "performance")
	all := "sysfs:" + cpufreqDir + "/ondemand/sampling_down_factor"
	run(t, []test{
		{"with its governor", acpi, []string{"governor=ondemand", "sampling_down_factor=100"}, []string{
			p0 + "scaling_governor = ondemand |", all + " = 100"}},
		{"governor there already", testkitplugin.Join(acpi, map[string]string{
			cpufreqDir + "/policy0/scaling_governor":      "ondemand\n",
			cpufreqDir + "/ondemand/sampling_down_factor": "1\n",
		}), []string{"sampling_down_factor=100"}, []string{all + " = 100"}},
		{"of each policy", testkitplugin.Join(acpi, map[string]string{
			cpufreqDir + "/policy0/scaling_governor":                  "conservative\n",
			cpufreqDir + "/policy0/conservative/sampling_down_factor": "1\n",
		}), []string{"sampling_down_factor=11"}, []string{
			p0 + `conservative/sampling_down_factor ! rejected: "11" is not a value for sampling_down_factor: want a number of sampling periods from 1 to 10`}},
		{"another governor", acpi, []string{"sampling_down_factor=100"}, []string{
			all + " ! unsupported: only the governors ondemand and conservative have this setting; cpu0 uses performance"}},
		{"guest", guest, []string{"sampling_down_factor=100"}, []string{
			p0 + "scaling_governor ! unsupported: this machine is a guest, and its hypervisor decides on the frequency of the CPUs"}},
	})
}

func TestEnergyPreference(t *testing.T) {
	const attr = "energy_performance_preference"
	run(t, []test{
		{"word", intel(1, "powersave"), []string{attr + "=balance_power"}, []string{p0 + attr + " = balance_power"}},
		{"alternatives", intel(1, "powersave"), []string{attr + "=quiet|power"}, []string{p0 + attr + " = power"}},
		{"number", intel(1, "powersave"), []string{attr + "=300|99"}, []string{p0 + attr + " = 99"}},
		{"none", intel(1, "powersave"), []string{attr + "=quiet"}, []string{
			p0 + attr + " ! unsupported: cpu0 offers only default, performance, balance_performance, balance_power, power, or a number from 0 to 255"}},
		{"after the governor", intel(1, "performance"), []string{attr + "=power", "governor=powersave"}, []string{
			p0 + "scaling_governor = powersave", p0 + attr + " = power"}},
		{"before the governor performance", intel(1, "powersave"), []string{"governor=performance", attr + "=performance"}, []string{
			p0 + attr + " = performance", p0 + "scaling_governor = performance"}},
		{"refused under performance", intel(1, "powersave"), []string{"governor=performance", attr + "=power"}, []string{
			p0 + attr + " ! unsupported: the kernel refuses power (EBUSY): the governor performance pins the preference to performance", p0 + "scaling_governor = performance"}},
		{"refused under the present governor", intel(1, "performance"), []string{attr + "=128"}, []string{
			p0 + attr + " ! unsupported: the kernel refuses 128 (EBUSY): the governor performance pins the preference to performance"}},
		{"no such driver", cpus(2, "acpi-cpufreq", "performance", "performance"), []string{attr + "=power"}, []string{
			p0 + attr + " ! unsupported: only intel_pstate or amd-pstate in active mode has this setting, but the frequency driver of this machine is acpi-cpufreq"}},
		{"no HWP", cpus(1, "intel_pstate", "performance powersave", "powersave"), []string{attr + "=power"}, []string{
			p0 + attr + " ! unsupported: these CPUs do not manage their frequency in hardware (HWP)"}},
	})
}

func TestBias(t *testing.T) {
	run(t, []test{
		{"word", intel(1, "powersave"), []string{"energy_perf_bias=performance"}, []string{c0 + "energy_perf_bias = 0 # performance is 0"}},
		{"the tool's word", intel(1, "powersave"), []string{"energy_perf_bias=powersave|power"}, []string{c0 + "energy_perf_bias = 15 # powersave is 15"}},
		{"number", intel(1, "powersave"), []string{"energy_perf_bias=16|5"}, []string{c0 + "energy_perf_bias = 5"}},
		{"wrong", intel(1, "powersave"), []string{"energy_perf_bias=fast"}, []string{
			c0 + `energy_perf_bias ! rejected: "fast" is not a value for energy_perf_bias: want performance, balance-performance, normal, balance-power, power, or 0 to 15`}},
		{"guest", guest, []string{"energy_perf_bias=normal"}, []string{
			c0 + "energy_perf_bias ! unsupported: this machine is a guest, and its CPUs have no energy performance bias"}},
		{"AMD", cpus(1, "acpi-cpufreq", "performance", "performance"), []string{"energy_perf_bias=normal"}, []string{
			c0 + "energy_perf_bias ! unsupported: these CPUs have no energy performance bias: only Intel CPUs have one, from Linux 5.2 on"}},
	})
}

func TestBoostAndPstate(t *testing.T) {
	amd := testkitplugin.Join(cpus(2, "amd-pstate-epp", "performance powersave", "powersave"), map[string]string{
		cpufreqDir + "/policy0/boost": "1\n", cpufreqDir + "/policy1/boost": "1\n"})
	old := testkitplugin.Join(cpus(2, "acpi-cpufreq", "performance", "performance"), map[string]string{cpufreqDir + "/boost": "1\n"})
	const limit = "sysfs:" + pstateDir + "/"
	run(t, []test{
		{"per policy", amd, []string{"boost=0"}, []string{p0 + "boost = 0", p1 + "boost = 0"}},
		{"truth", amd, []string{"devices=cpu0", "boost=Yes"}, []string{p0 + "boost = 1"}},
		{"wrong", amd, []string{"devices=cpu0", "boost=2"}, []string{p0 + `boost ! rejected: "2" is not a value for boost: want 1 or 0`}},
		{"intel_pstate", intel(1, "powersave"), []string{"boost=0"}, []string{turbo + " = 1 # inverse of boost, for the whole machine"}},
		{"no_turbo has the last word", intel(1, "powersave"), []string{"boost=1", "no_turbo=1"}, []string{turbo + " = 1"}},
		{"old kernel", old, []string{"boost=0"}, []string{
			"sysfs:" + cpufreqDir + "/boost = 0 # one switch for all CPUs", "sysfs:" + cpufreqDir + "/boost = 0 # one switch for all CPUs"}},
		{"old kernel, some CPUs", old, []string{"devices=cpu1", "boost=0"}, []string{
			p1 + "boost ! unsupported: this kernel boosts all CPUs or none; the section selects only some"}},
		{"has no boost switch", cpus(2, "acpi-cpufreq", "performance", "performance"), []string{"boost=0"}, []string{
			p0 + "boost ! unsupported: the frequency driver acpi-cpufreq has no boost switch"}},
		{"guest", guest, []string{"boost=1"}, []string{
			p0 + "boost ! unsupported: this machine is a guest, and its hypervisor decides on the frequency of the CPUs"}},

		{"lower limit", intel(1, "powersave"), []string{"min_perf_pct=30"}, []string{limit + "min_perf_pct = 30"}},
		{"raising both, the upper first", intel(1, "powersave"), []string{"min_perf_pct=100", "max_perf_pct=100"}, []string{
			limit + "max_perf_pct = 100", limit + "min_perf_pct = 100"}},
		{"lowering both, the lower first", intel(1, "powersave"), []string{"max_perf_pct=15", "min_perf_pct=10"}, []string{
			limit + "min_perf_pct = 10", limit + "max_perf_pct = 15"}},
		{"the upper alone", intel(1, "powersave"), []string{"max_perf_pct=90"}, []string{
			limit + "max_perf_pct = 90"}},
		{"out of range", intel(1, "powersave"), []string{"max_perf_pct=101"}, []string{
			limit + `max_perf_pct ! rejected: "101" is not a value for max_perf_pct: want percent, 0 to 100`}},
		{"not intel_pstate", amd, []string{"min_perf_pct=1", "no_turbo=1"}, []string{
			limit + "min_perf_pct ! unsupported: only intel_pstate has this setting, but the frequency driver of this machine is amd-pstate-epp",
			turbo + " ! unsupported: only intel_pstate has this setting, but the frequency driver of this machine is amd-pstate-epp"}},
	})
}

func TestForceLatency(t *testing.T) {
	const place = "pmqos:cpu_dma_latency"
	bare := testkitplugin.Join(cpus(1, "acpi-cpufreq", "performance", "performance"), idle())
	run(t, []test{
		{"microseconds", bare, []string{"force_latency=70"}, []string{place + " = 70"}},
		{"id", bare, []string{"force_latency=cstate.id:3"}, []string{place + " = 133 # idle state C6 takes 133 µs to leave"}},
		{"id 0", bare, []string{"force_latency=cstate.id:0"}, []string{place + " = 0 # idle state POLL takes 0 µs to leave"}},
		{"id without zero", bare, []string{"force_latency=cstate.id_no_zero:0|3"}, []string{place + " = 3"}},
		{"name", bare, []string{"force_latency=cstate.name:C1E"}, []string{place + " = 10 # idle state C1E takes 10 µs to leave"}},
		{"name without zero", bare, []string{"force_latency=cstate.name_no_zero:POLL|cstate.name_no_zero:C1"}, []string{place + " = 2 # idle state C1 takes 2 µs to leave"}},
		{"alternatives", bare, []string{"force_latency=cstate.name:XYZ| cstate.id:9 |cstate.id:2|5"}, []string{place + " = 10 # idle state C1E takes 10 µs to leave"}},
		{"None ends it", bare, []string{"force_latency=cstate.name:XYZ|None|5"}, nil},
		{"none", bare, []string{"force_latency=none"}, nil},
		{"no such state", bare, []string{"force_latency=cstate.name:XYZ"}, []string{
			place + " ! unsupported: the idle states of this machine are 0 POLL, 1 C1, 2 C1E, 3 C6"}},
		{"wrong", bare, []string{"force_latency=low"}, []string{
			place + ` ! rejected: "low" is not a value for force_latency: want microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b`}},
		{"n/a is for pm_qos_resume_latency_us", bare, []string{"force_latency=n/a"}, []string{
			place + ` ! rejected: "n/a" is not a value for force_latency: want microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b`}},
		{"negative", bare, []string{"force_latency=-1"}, []string{
			place + ` ! rejected: "-1" is not a value for force_latency: want microseconds, cstate.id:N, cstate.name:NAME, None, or alternatives a|b`}},
		{"guest falls through", guest, []string{"force_latency=cstate.id_no_zero:1|3"}, []string{place + " = 3"}},
		{"guest", guest, []string{"force_latency=cstate.id:1"}, []string{
			place + " ! unsupported: this machine is a guest without CPU idle states, so the latency of an idle state is unknown"}},
		{"no device", cpus(1, "x", "y", "z"), []string{"force_latency=1"}, []string{
			place + " ! unsupported: /dev/cpu_dma_latency not found: the kernel has no CPU idle management, or this is a container"}},
	})
}

func TestFirstUnitOnly(t *testing.T) {
	tree := testkitplugin.Join(intel(1, "powersave"), idle())
	run(t, []test{{"later unit", tree, []string{"force_latency=1", "min_perf_pct=1", "no_turbo=1", "governor=performance"}, []string{
		"pmqos:cpu_dma_latency ! overridden: force_latency applies to the whole machine; only the first section of type cpu sets it",
		"sysfs:" + pstateDir + "/min_perf_pct ! overridden: min_perf_pct applies to the whole machine; only the first section of type cpu sets it",
		turbo + " ! overridden: no_turbo applies to the whole machine; only the first section of type cpu sets it",
		p0 + "scaling_governor = performance",
	}}}, func(r *plugin.Request) { r.Later = true })
}

func TestResumeLatency(t *testing.T) {
	bare := testkitplugin.Join(cpus(2, "acpi-cpufreq", "performance", "performance"), idle())
	const attr = "pm_qos_resume_latency_us"
	run(t, []test{
		{"all", bare, []string{attr + "=100"}, []string{c0 + attr + " = 100", c1 + attr + " = 100"}},
		{"no idle states", bare, []string{"devices=cpu1", attr + "=n/a"}, []string{c1 + attr + " = n/a"}},
		{"state", bare, []string{"devices=cpu1", attr + "=cstate.name:C1"}, []string{c1 + attr + " = 2 # idle state C1 takes 2 µs to leave"}},
		{"None", bare, []string{attr + "=None"}, nil},
		{"wrong", bare, []string{"devices=cpu0", attr + "=-5"}, []string{
			c0 + attr + ` ! rejected: "-5" is not a value for pm_qos_resume_latency_us: want microseconds, n/a, cstate.id:N, cstate.name:NAME, None, or alternatives a|b`}},
		{"old kernel", map[string]string{cpuDir + "/cpu0/online": "1\n", cpuDir + "/cpu1/online": "1\n"}, []string{attr + "=0"}, []string{
			c0 + attr + " ! unsupported: this kernel has no latency limit per CPU"}},
	})
}
