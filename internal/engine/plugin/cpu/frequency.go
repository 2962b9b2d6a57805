package cpu

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// chooseGovernor returns the first wanted governor that the CPU's policy offers. If it offers
// none, the result is the first one whose module the kernel would load (drivers/cpufreq/cpufreq.c,
// cpufreq_parse_governor), else "".
func chooseGovernor(h *host.Host, cpu string, wanted []string) (name, why string) {
	offered := plugin.Choices(h, policy(h, cpu, "scaling_available_governors"))
	for _, w := range wanted {
		if slices.Contains(offered, w) {
			return w, ""
		}
	}
	// intel_pstate and amd-pstate in active mode have two policies and load no governor
	// modules.
	if len(offered) > 0 && !active(h, cpu) {
		for _, w := range wanted {
			if plugin.HasModule(h, "cpufreq_"+w) {
				return w, "the kernel then loads the module cpufreq_" + w
			}
		}
	}
	return "", ""
}

// active reports whether the driver itself selects the frequency (intel_pstate or amd-pstate in
// active mode).
func active(h *host.Host, cpu string) bool {
	d, _ := plugin.Attribute(h, policy(h, cpu, "scaling_driver"))
	return d == "intel_pstate" || d == "amd-pstate-epp"
}

// governorOf returns the governor that the CPU will have: the unit's (byUnit is true), or else the
// current one.
func governorOf(r *plugin.Request, cpu string) (name string, byUnit bool) {
	if o, ok := r.Option("governor"); ok {
		if wanted, ok := plugin.Alternatives(o.Value); ok {
			if name, _ := chooseGovernor(r.Host, cpu, wanted); name != "" {
				return name, true
			}
		}
	}
	name, _ = plugin.Attribute(r.Host, policy(r.Host, cpu, "scaling_governor"))
	return name, false
}

func planGovernor(ctx context.Context, r *plugin.Request, o profile.Option, cpu string) ([]plugin.Item, error) {
	if offline(r.Host, cpu) {
		return nil, nil
	}
	s := plugin.Sysfs(policy(r.Host, cpu, "scaling_governor"))
	if !plugin.Exists(r.Host, s.Name) {
		return lacks(r, o, cpu, policyPlace("scaling_governor"), noScaling), nil
	}
	wanted, ok := plugin.Alternatives(o.Value)
	if !ok {
		return plugin.BadValue(s, o, "a governor such as performance, or alternatives a|b"), nil
	}
	name, why := chooseGovernor(r.Host, cpu, wanted)
	if name == "" {
		offered := plugin.Choices(r.Host, policy(r.Host, cpu, "scaling_available_governors"))
		return plugin.Lacks(r.Host, s, o, "%s offers only %s", cpu, strings.Join(offered, ", ")), nil
	}
	it := plugin.Want(s, name, o)
	it.Why = why
	// A governor's tunables exist only while it is active.
	if _, tuned := r.Option("sampling_down_factor"); tuned {
		if _, there := samplingPath(r.Host, cpu, name); !there {
			it.Fence = true
		}
	}
	// Under the performance governor the kernel rejects every other preference (EBUSY). So the
	// preference is written before that governor, and after any other one. The reverse order of
	// undo is right too.
	if epp, ok := r.Option("energy_performance_preference"); ok && name == "performance" {
		items, err := eppItems(ctx, r, epp, cpu)
		return append(items, it), err
	}
	return []plugin.Item{it}, nil
}

func planEPP(ctx context.Context, r *plugin.Request, o profile.Option, cpu string) ([]plugin.Item, error) {
	if name, byUnit := governorOf(r, cpu); byUnit && name == "performance" {
		return nil, nil // planned with the governor
	}
	return eppItems(ctx, r, o, cpu)
}

func eppItems(_ context.Context, r *plugin.Request, o profile.Option, cpu string) ([]plugin.Item, error) {
	if offline(r.Host, cpu) {
		return nil, nil
	}
	s := plugin.Sysfs(policy(r.Host, cpu, "energy_performance_preference"))
	if !plugin.Exists(r.Host, s.Name) {
		return lacks(r, o, cpu, policyPlace("energy_performance_preference"), needs("intel_pstate or amd-pstate in active mode")), nil
	}
	wanted, ok := plugin.Alternatives(o.Value)
	if !ok {
		return plugin.BadValue(s, o, "a preference such as balance_performance, or alternatives a|b"), nil
	}
	offered := plugin.Choices(r.Host, policy(r.Host, cpu, "energy_performance_available_preferences"))
	for _, w := range wanted {
		n, err := strconv.Atoi(w)
		if err == nil && (n < 0 || n > 255) || err != nil && len(offered) > 0 && !slices.Contains(offered, w) {
			continue
		}
		if governor, _ := governorOf(r, cpu); governor == "performance" && active(r.Host, cpu) && w != "performance" && (err != nil || n != 0) {
			return plugin.Lacks(r.Host, s, o, "the kernel refuses %s (EBUSY): the governor performance pins the preference to performance", w), nil
		}
		return []plugin.Item{plugin.Want(s, w, o)}, nil
	}
	return plugin.Lacks(r.Host, s, o, "%s offers only %s, or a number from 0 to 255", cpu, strings.Join(offered, ", ")), nil
}

// biases maps the words of energy_perf_bias to the kernel's values
// (arch/x86/kernel/cpu/intel_epb.c). powersave is x86_energy_perf_policy's word for power.
var biases = map[string]int{
	"performance": 0, "balance-performance": 4, "normal": 6, "normal-powersave": 7,
	"balance-power": 8, "power": 15, "powersave": 15,
}

func noBias(h *host.Host) string {
	if plugin.IsGuest(h) {
		return "this machine is a guest, and its CPUs have no energy performance bias"
	}
	return "these CPUs have no energy performance bias: only Intel CPUs have one, from Linux 5.2 on"
}

func planBias(_ context.Context, r *plugin.Request, o profile.Option, cpu string) ([]plugin.Item, error) {
	if offline(r.Host, cpu) {
		return nil, nil
	}
	place := powerPlace("energy_perf_bias")
	s := plugin.Sysfs(place(r.Host, cpu))
	wanted, ok := plugin.Alternatives(o.Value)
	if !ok {
		return plugin.BadValue(s, o, "a bias such as performance or normal, 0 to 15, or alternatives a|b"), nil
	}
	if !plugin.Exists(r.Host, s.Name) {
		return lacks(r, o, cpu, place, noBias), nil
	}
	for _, w := range wanted {
		n, known := biases[w]
		if !known {
			var err error
			if n, err = strconv.Atoi(w); err != nil || n < 0 || n > 15 {
				continue
			}
		}
		it := plugin.Want(s, strconv.Itoa(n), o) // the kernel accepts the word but shows the number
		if known {
			it.Why = fmt.Sprintf("%s is %d", w, n)
		}
		return []plugin.Item{it}, nil
	}
	return plugin.BadValue(s, o, "performance, balance-performance, normal, balance-power, power, or 0 to 15"), nil
}

// samplingPath returns the path of a governor's sampling_down_factor and whether it exists. Some
// drivers have it per policy, others for all CPUs.
func samplingPath(h *host.Host, cpu, governor string) (string, bool) {
	own := policy(h, cpu, governor+"/sampling_down_factor")
	if plugin.Exists(h, own) {
		return own, true
	}
	all := cpufreqDir + "/" + governor + "/sampling_down_factor"
	return all, plugin.Exists(h, all)
}

func planSamplingDown(_ context.Context, r *plugin.Request, o profile.Option, cpu string) ([]plugin.Item, error) {
	if offline(r.Host, cpu) {
		return nil, nil
	}
	if !plugin.Exists(r.Host, policy(r.Host, cpu, "scaling_governor")) {
		return lacks(r, o, cpu, policyPlace("scaling_governor"), noScaling), nil
	}
	governor, byUnit := governorOf(r, cpu)
	limit := int64(100000)
	switch governor {
	case "ondemand":
	case "conservative":
		limit = 10
	default:
		path, _ := samplingPath(r.Host, cpu, "ondemand")
		return plugin.Lacks(r.Host, plugin.Sysfs(path), o, "only the governors ondemand and conservative have this setting; %s uses %s", cpu, governor), nil
	}
	path, there := samplingPath(r.Host, cpu, governor)
	s := plugin.Sysfs(path)
	if !there && !byUnit {
		return plugin.Lacks(r.Host, s, o, "the governor %s of this kernel does not have this setting", governor), nil
	}
	return plugin.Number(s, o, 1, limit, fmt.Sprintf("a number of sampling periods from 1 to %d", limit)), nil
}

func planBoost(_ context.Context, r *plugin.Request, o profile.Option, cpu string) ([]plugin.Item, error) {
	if offline(r.Host, cpu) {
		return nil, nil
	}
	own := policy(r.Host, cpu, "boost")
	on, ok := plugin.Truth(o.Value)
	if !ok {
		return plugin.BadValue(plugin.Sysfs(own), o, "1 or 0"), nil
	}
	var items []plugin.Item
	if plugin.Exists(r.Host, own) {
		items = append(items, plugin.Want(plugin.Sysfs(own), zeroOne(on), o))
	}
	if turbo := pstateDir + "/no_turbo"; plugin.Exists(r.Host, turbo) {
		if _, explicit := r.Option("no_turbo"); !explicit || r.Later {
			it := plugin.Want(plugin.Sysfs(turbo), zeroOne(!on), o)
			it.Why = "inverse of boost, for the whole machine"
			items = append(items, it)
		} else if len(items) == 0 {
			return nil, nil // the unit's no_turbo decides
		}
	}
	if len(items) > 0 {
		return items, nil
	}
	if all := cpufreqDir + "/boost"; plugin.Exists(r.Host, all) {
		// Before Linux 6.11 one switch covers the whole machine.
		cpus, _ := devices(context.Background(), r.Host)
		if len(r.Devices) < len(cpus) {
			return lacks(r, o, cpu, policyPlace("boost"), always("this kernel boosts all CPUs or none; the section selects only some")), nil
		}
		it := plugin.Want(plugin.Sysfs(all), zeroOne(on), o)
		it.Why = "one switch for all CPUs"
		return []plugin.Item{it}, nil
	}
	return lacks(r, o, cpu, policyPlace("boost"), noBoost), nil
}

func noBoost(h *host.Host) string {
	if name := driver(h); name != "" {
		return "the frequency driver " + name + " has no boost switch"
	}
	return noScaling(h)
}

func zeroOne(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// firstOnly rejects an option that only the first unit of its type can set. It returns false for
// the first unit.
func firstOnly(r *plugin.Request, s setting.Setting, o profile.Option) ([]plugin.Item, bool) {
	if !r.Later {
		return nil, false
	}
	return []plugin.Item{plugin.Refuse(s, o, plugin.Overridden, "%s applies to the whole machine; only the first section of type cpu sets it", o.Name)}, true
}

func planNoTurbo(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	s := plugin.Sysfs(pstateDir + "/no_turbo")
	if items, ok := firstOnly(r, s, o); ok {
		return items, nil
	}
	on, ok := plugin.Truth(o.Value)
	switch {
	case !ok:
		return plugin.BadValue(s, o, "1 or 0"), nil
	case !plugin.Exists(r.Host, s.Name):
		return plugin.Lacks(r.Host, s, o, "%s", needs("intel_pstate")(r.Host)), nil
	}
	return []plugin.Item{plugin.Want(s, zeroOne(on), o)}, nil
}

// planPerfPct plans both limits of a unit together. The kernel keeps the lower limit below the
// upper one (drivers/cpufreq/intel_pstate.c, store_min_perf_pct), so the limit that makes room is
// written first.
func planPerfPct(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	one := func(o profile.Option) []plugin.Item {
		s := plugin.Sysfs(pstateDir + "/" + o.Name)
		if items, ok := firstOnly(r, s, o); ok {
			return items
		}
		items := plugin.Number(s, o, 0, 100, "percent, 0 to 100")
		if items[0].Verdict == "" && !plugin.Exists(r.Host, s.Name) {
			return plugin.Lacks(r.Host, s, o, "%s", needs("intel_pstate")(r.Host))
		}
		return items
	}
	upper, hasUpper := r.Option("max_perf_pct")
	_, hasLower := r.Option("min_perf_pct")
	switch {
	case !hasUpper || !hasLower:
		return one(o), nil
	case o.Name == "max_perf_pct":
		return nil, nil // planned with min_perf_pct
	}
	_, text := plugin.Modifier(upper.Value)
	want, _ := strconv.Atoi(text)
	now, _ := plugin.Attribute(r.Host, pstateDir+"/max_perf_pct")
	if have, err := strconv.Atoi(now); err == nil && want > have {
		return append(one(upper), one(o)...), nil
	}
	return append(one(o), one(upper)...), nil
}
