// Package cpu is the plug-in for frequency scaling, energy preferences and idle
// latency of the processors.
package cpu

import (
	"context"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
)

const (
	cpuDir     = "/sys/devices/system/cpu"
	cpufreqDir = cpuDir + "/cpufreq"
	pstateDir  = cpuDir + "/intel_pstate"
)

// CPU is the plug-in for [cpu] sections. The options' order matters: the kernel accepts an energy
// preference only under a suitable governor, and no_turbo overrides boost.
var CPU = plugin.Plugin{
	Name:       "cpu",
	Doc:        "sets frequency governor, energy preferences and boost per CPU, and limits the wake-up latency of idle states",
	Devices:    devices,
	DevicePath: func(device string) string { return cpuDir + "/" + device },
	Dynamic:    dynamic,
	Options: []plugin.Option{
		{Name: "load_threshold", Default: "0.2", Control: true,
			Doc: "load average of one minute below which dynamic tuning allows latency_high; no effect if force_latency or pm_qos_resume_latency_us is set; only the first section of this type sets it"},
		{Name: "latency_low", Default: "100", Control: true,
			Doc: "wake-up latency that dynamic tuning allows under load: microseconds, or another form of force_latency; None for no limit"},
		{Name: "latency_high", Default: "1000", Control: true,
			Doc: "wake-up latency that dynamic tuning allows at rest: microseconds, or another form of force_latency; None for no limit"},
		{Name: "force_latency", Plan: planForceLatency,
			Doc: "longest wake-up latency of an idle state, while the profile is active: microseconds, cstate.id:N, cstate.name:NAME (cstate.id_no_zero:N and cstate.name_no_zero:NAME skip a latency of 0), None for no limit, or alternatives a|b; only the first section of this type sets it"},
		{Name: "min_perf_pct", Plan: planPerfPct,
			Doc: "lower performance limit of intel_pstate, in percent of the highest (0 to 100); only the first section of this type sets it"},
		{Name: "max_perf_pct", Plan: planPerfPct,
			Doc: "upper performance limit of intel_pstate, in percent of the highest (0 to 100); only the first section of this type sets it"},
		{Name: "no_turbo", Plan: planNoTurbo,
			Doc: "1: intel_pstate does not exceed the nominal frequency; 0: it may; only the first section of this type sets it"},
		{Name: "governor", PerDevice: true, Plan: planGovernor,
			Doc: "cpufreq governor such as performance, powersave or schedutil, or alternatives a|b; the first that the CPU offers is used"},
		{Name: "energy_perf_bias", PerDevice: true, Plan: planBias,
			Doc: "energy bias of Intel processors: performance, balance-performance, normal, balance-power, power (also powersave), or 0 (speed) to 15 (saving), or alternatives a|b"},
		{Name: "pm_qos_resume_latency_us", PerDevice: true, Plan: planResumeLatency,
			Doc: "longest wake-up latency of this CPU's idle states, in microseconds: 0 allows all states, n/a none; also the cstate forms of force_latency"},
		{Name: "boost", PerDevice: true, Plan: planBoost,
			Doc: "1: the CPU may exceed its nominal frequency; 0: it may not; with intel_pstate this sets no_turbo to the opposite"},
		{Name: "energy_performance_preference", PerDevice: true, Plan: planEPP,
			Doc: "energy preference of intel_pstate and amd-pstate: a word that the CPU offers (performance, balance_performance, balance_power, power), or 0 (speed) to 255 (saving), or alternatives a|b"},
		{Name: "sampling_down_factor", PerDevice: true, Plan: planSamplingDown,
			Doc: "number of sampling periods that the ondemand (1 to 100000) or conservative (1 to 10) governor stays at the highest frequency"},
	},
}

// devices lists the CPUs of the machine, including offline ones.
func devices(_ context.Context, h *host.Host) ([]string, error) {
	entries, err := h.Files.ReadDir(cpuDir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if n := strings.TrimPrefix(e.Name(), "cpu"); n != e.Name() && n != "" && strings.Trim(n, "0123456789") == "" {
			out = append(out, e.Name())
		}
	}
	if len(out) == 0 { // every machine has one: this copy lacks its entry
		return nil, host.NotRecorded(cpuDir + " lists no CPU")
	}
	plugin.SortDevices(out)
	return out, nil
}

// offline reports whether a CPU is offline and therefore has no settings.
func offline(h *host.Host, cpu string) bool {
	online, ok := plugin.Attribute(h, cpuDir+"/"+cpu+"/online")
	return ok && online == "0"
}

// policy returns the path of an attribute of the CPU's cpufreq policy. CPUs that share a
// clock share a policy.
func policy(h *host.Host, cpu, attribute string) string {
	own := cpufreqDir + "/policy" + strings.TrimPrefix(cpu, "cpu")
	shared := cpuDir + "/" + cpu + "/cpufreq"
	if !plugin.Exists(h, own) && plugin.Exists(h, shared) {
		return shared + "/" + attribute
	}
	return own + "/" + attribute
}

// lacks returns the item for an option that a CPU lacks. If the first online CPU lacks it too,
// only that CPU gets an item: a machine without frequency scaling gets one message instead of one
// per CPU. why is called only for an item, because its cost grows with the number of CPUs.
func lacks(r *plugin.Request, o profile.Option, device string, place func(h *host.Host, cpu string) string, why func(*host.Host) string) []plugin.Item {
	for _, first := range r.Devices {
		if offline(r.Host, first) {
			continue
		}
		if first != device && !plugin.Exists(r.Host, place(r.Host, first)) {
			return nil
		}
		break
	}
	return plugin.Lacks(r.Host, plugin.Sysfs(place(r.Host, device)), o, "%s", why(r.Host))
}

// policyPlace returns a function for the path of an attribute of a CPU's cpufreq policy.
func policyPlace(attribute string) func(h *host.Host, cpu string) string {
	return func(h *host.Host, cpu string) string { return policy(h, cpu, attribute) }
}

// powerPlace returns a function for the path of an attribute of a CPU's device.
func powerPlace(attribute string) func(h *host.Host, cpu string) string {
	return func(_ *host.Host, cpu string) string { return cpuDir + "/" + cpu + "/power/" + attribute }
}

// driver returns the machine's frequency driver, such as "acpi-cpufreq", or "" if none exists.
func driver(h *host.Host) string {
	entries, err := h.Files.ReadDir(cpufreqDir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if name, ok := plugin.Attribute(h, cpufreqDir+"/"+e.Name()+"/scaling_driver"); ok {
			return name
		}
	}
	return ""
}

// needs returns a function that explains why an attribute is missing: only the named drivers have
// it.
func needs(drivers string) func(*host.Host) string {
	return func(h *host.Host) string {
		switch name := driver(h); {
		case name == "intel_pstate":
			return "these CPUs do not manage their frequency in hardware (HWP)"
		case name != "":
			return "only " + drivers + " has this setting, but the frequency driver of this machine is " + name
		}
		return noScaling(h)
	}
}

func always(why string) func(*host.Host) string { return func(*host.Host) string { return why } }

// noScaling returns why a machine has no frequency scaling.
func noScaling(h *host.Host) string {
	if plugin.IsGuest(h) {
		return "this machine is a guest, and its hypervisor decides on the frequency of the CPUs"
	}
	return "the kernel has no frequency driver for these CPUs, or the firmware controls the frequency"
}
