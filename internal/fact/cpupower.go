package fact

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// Frequency describes CPU frequency scaling (Documentation/admin-guide/pm/cpufreq.rst). Lists
// of words hold the distinct values of all policies: one word means that all policies have the
// same value. All facts are absent without cpufreq.
type Frequency struct {
	Driver     Fact[string]   `json:"driver"`
	Governors  Fact[[]string] `json:"governors"`
	Preference Fact[[]string] `json:"energy_performance_preferences"`
	// EnergyPerfBias lists the distinct values of the CPUs, from 0 (performance) to 15 (power
	// saving) (Documentation/admin-guide/pm/intel_epb.rst).
	EnergyPerfBias Fact[[]string] `json:"energy_perf_bias"`
	// Boost reports whether turbo is on. It is false if intel_pstate/no_turbo is 1, or if a policy
	// has it off (boost of Linux 6.11, cpb of acpi-cpufreq on AMD).
	Boost Fact[bool] `json:"boost"`
	// PstateStatus is active, passive or guided (intel_pstate, amd_pstate).
	PstateStatus Fact[string] `json:"pstate_status"`
	Policy       Set[Policy]  `json:"policy"`
}

// Policy is a group of CPUs with a common frequency.
type Policy struct {
	CPUList            Fact[string]   `json:"cpu_list"`
	Driver             Fact[string]   `json:"driver"`
	Governor           Fact[string]   `json:"governor"`
	GovernorsAvailable Fact[[]string] `json:"governors_available"`
	Preference         Fact[string]   `json:"energy_performance_preference"`
	MinHz              Fact[int64]    `json:"min_hz"`
	MaxHz              Fact[int64]    `json:"max_hz"`
	HardwareMinHz      Fact[int64]    `json:"hardware_min_hz"`
	HardwareMaxHz      Fact[int64]    `json:"hardware_max_hz"`
}

func frequency(r *reader, c *CPU) Frequency {
	var f Frequency
	names, n := r.dir(cpuDir + "cpufreq")
	policies := numbered(names, "policy")
	if n.known() && len(policies) == 0 {
		n.absent = true
	}
	f.Policy.note = n
	for _, name := range policies {
		dir := cpuDir + "cpufreq/" + name + "/"
		p := f.Policy.add(name)
		p.CPUList = convert(r.optional(dir+"affected_cpus"), func(s string) string {
			set, err := unit.ParseCPUList(strings.Join(strings.Fields(s), ","))
			if err != nil {
				return s
			}
			return set.String()
		})
		p.Driver = r.str(dir + "scaling_driver")
		p.Governor = r.str(dir + "scaling_governor")
		p.GovernorsAvailable = r.words(dir + "scaling_available_governors")
		p.Preference = r.str(dir + "energy_performance_preference")
		p.MinHz = r.scaled(dir+"scaling_min_freq", 1000)
		p.MaxHz = r.scaled(dir+"scaling_max_freq", 1000)
		p.HardwareMinHz = r.scaled(dir+"cpuinfo_min_freq", 1000)
		p.HardwareMaxHz = r.scaled(dir+"cpuinfo_max_freq", 1000)
	}
	f.Driver = driver(f.Policy)
	working := active(f.Policy, c.OnlineList)
	rest := missingPolicies(r, f.Policy, c.OnlineList)
	f.Governors = distinct(working, rest, func(p *Policy) Fact[string] { return p.Governor })
	f.Preference = distinct(working, rest, func(p *Policy) Fact[string] { return p.Preference })
	f.EnergyPerfBias = energyPerfBias(r, c)
	f.Boost = r.flag(cpuDir + "cpufreq/boost")
	if !f.Boost.known() {
		if no := r.flag(cpuDir + "intel_pstate/no_turbo"); !no.absent && r.seen[no.source].known() {
			f.Boost = convert(no, func(b bool) bool { return !b })
		}
	}
	if !f.Boost.known() {
		f.Boost = policyBoost(r, working, f.Boost)
	}
	f.PstateStatus = firstKnown(r.str(cpuDir+"intel_pstate/status"), r.str(cpuDir+"amd_pstate/status"))
	return f
}

// policyBoost returns whether all policies have turbo on, from the files of drivers without a
// file for the whole machine. It returns machine if the policies have no such file.
func policyBoost(r *reader, set Set[Policy], machine Fact[bool]) Fact[bool] {
	for _, name := range set.Names() {
		dir := cpuDir + "cpufreq/" + name + "/"
		own := firstKnown(r.flag(dir+"boost"), r.flag(dir+"cpb"))
		if !own.known() {
			return machine
		}
		if machine = own; Is(own, false) {
			break
		}
	}
	return machine
}

func energyPerfBias(r *reader, c *CPU) Fact[[]string] {
	online, err := unit.ParseCPUList(c.OnlineList.Or(""))
	if !c.OnlineList.known() || err != nil {
		return Fact[[]string]{note: c.OnlineList.note}
	}
	found := map[string]bool{}
	for _, cpu := range online.Numbers() {
		bias := r.str(cpuDir + "cpu" + strconv.Itoa(cpu) + "/power/energy_perf_bias")
		v, ok := bias.Get()
		if !ok {
			return Fact[[]string]{note: bias.note}
		}
		found[v] = true
	}
	return Known(sortedNames(found), cpuDir+"cpu*/power/energy_perf_bias")
}

// driver returns the driver of any policy: the kernel has only one at a time.
func driver(set Set[Policy]) Fact[string] {
	if !set.known() || len(set.Names()) == 0 {
		return Fact[string]{note: set.note}
	}
	var all []Fact[string]
	for _, name := range set.Names() {
		all = append(all, set.Get(name).Driver)
	}
	return firstKnown(all...)
}

// active returns the policies with online CPUs. For other policies the kernel returns EBUSY. A
// policy has the number of its first CPU.
func active(set Set[Policy], onlineList Fact[string]) Set[Policy] {
	online, err := unit.ParseCPUList(onlineList.Or(""))
	if !onlineList.known() || err != nil {
		return set
	}
	out := Set[Policy]{note: set.note, items: map[string]*Policy{}}
	for _, name := range set.Names() {
		p := set.Get(name)
		first, err := strconv.Atoi(strings.TrimPrefix(name, "policy"))
		if err != nil || online.Has(first) || p.CPUList.known() {
			out.items[name] = p
		}
	}
	return out
}

// missingPolicies returns an unknown note that names a CPU whose policy a copy lacks. If all
// policies were recorded, the note is known. CPUs without frequency scaling have no policy.
func missingPolicies(r *reader, set Set[Policy], onlineList Fact[string]) note {
	list, ok := onlineList.Get()
	online, err := unit.ParseCPUList(list)
	if !set.known() || !ok || err != nil {
		return onlineList.note
	}
	covered := map[int]bool{}
	all := note{source: set.source} // known if every policy lists its CPUs
	for _, name := range set.Names() {
		own, err := unit.ParseCPUList(set.Get(name).CPUList.Or(""))
		if n := set.Get(name).CPUList.note; n.unknown != "" {
			all = n
		}
		if err == nil {
			for _, cpu := range own.Numbers() {
				covered[cpu] = true
			}
		}
		if cpu, err := strconv.Atoi(strings.TrimPrefix(name, "policy")); err == nil {
			covered[cpu] = true // the policy has the number of its first CPU
		}
	}
	for _, cpu := range online.Numbers() {
		if covered[cpu] {
			continue
		}
		switch there := r.exists(cpuDir + "cpu" + strconv.Itoa(cpu) + "/cpufreq"); {
		case Is(there, false):
		case !all.known():
			return all
		case there.unknown != "":
			return there.note
		default:
			return note{source: there.source, unknown: fmt.Sprintf("the policy of cpu%d is not in this copy", cpu)}
		}
	}
	return note{source: set.source}
}

// distinct returns the values of one attribute over all items, sorted and unique. If rest or
// an item is unknown or missing, the fact's note says that the list may be incomplete.
func distinct[T any](set Set[T], rest note, of func(*T) Fact[string]) Fact[[]string] {
	if !set.known() {
		return Fact[[]string]{note: set.note}
	}
	words := []string{}
	last := note{source: set.source, absent: true}
	why, missing := rest.unknown, ""
	for _, name := range set.Names() {
		v := of(set.Get(name))
		if s, ok := v.Get(); ok {
			words = append(words, s)
			continue
		}
		last = v.note
		if v.absent { // all items share one driver and therefore have the same attributes
			missing = cmp.Or(missing, v.source+" is missing, although other CPUs have this file")
		}
		why = cmp.Or(why, v.unknown)
	}
	switch {
	case len(words) == 0 && why != "":
		return Unknown[[]string](last.source, why)
	case len(words) == 0:
		return Fact[[]string]{note: last}
	}
	slices.Sort(words)
	f := Known(slices.Compact(words), set.source)
	f.more = cmp.Or(why, missing)
	return f
}

// Idle describes the CPUs' idle states (Documentation/admin-guide/pm/cpuidle.rst).
type Idle struct {
	Driver   Fact[string]   `json:"driver"`
	Governor Fact[string]   `json:"governor"`
	State    Set[IdleState] `json:"state"`
}

// IdleState is an idle state of the first online CPU (state0, state1, ...), with the list of
// CPUs on which it is disabled.
type IdleState struct {
	Name         Fact[string]  `json:"name"` // POLL, C1, C6
	LatencyS     Fact[float64] `json:"exit_latency_s"`
	ResidencyS   Fact[float64] `json:"target_residency_s"`
	DisabledList Fact[string]  `json:"disabled_cpu_list"`
}

func idle(r *reader, c *CPU) Idle {
	var i Idle
	i.Driver = r.str(cpuDir + "cpuidle/current_driver")
	if Is(i.Driver, "none") {
		i.Driver = Absent[string](i.Driver.source)
	}
	i.Governor = firstKnown(r.str(cpuDir+"cpuidle/current_governor_ro"), r.str(cpuDir+"cpuidle/current_governor"))
	online, _ := unit.ParseCPUList(c.OnlineList.Or("0"))
	if !c.OnlineList.known() || online.IsEmpty() {
		online = unit.CPUs(0)
	}
	first := cpuDir + "cpu" + strconv.Itoa(firstOf(online)) + "/cpuidle"
	names, n := r.dir(first)
	i.State.note = n
	for _, name := range numbered(names, "state") {
		st := i.State.add(name)
		st.Name = r.str(first + "/" + name + "/name")
		st.LatencyS = microseconds(r.int(first + "/" + name + "/latency"))
		st.ResidencyS = microseconds(r.int(first + "/" + name + "/residency"))
		disabled := []int{}
		st.DisabledList = Known("", cpuDir+"cpu*/cpuidle/"+name+"/disable")
		for _, cpu := range online.Numbers() {
			p := cpuDir + "cpu" + strconv.Itoa(cpu) + "/cpuidle/" + name + "/disable"
			v, vn := r.text(p)
			if !vn.known() {
				st.DisabledList = Fact[string]{note: vn}
				break
			}
			if _, err := strconv.ParseUint(v, 10, 64); err != nil {
				st.DisabledList = Unknown[string](p, fmt.Sprintf("%s: %.60q %v", p, v, notAError("a number")))
				break
			}
			if v != "0" {
				disabled = append(disabled, cpu)
			}
		}
		if st.DisabledList.known() {
			st.DisabledList = Known(unit.CPUs(disabled...).String(), st.DisabledList.source)
		}
	}
	return i
}

func microseconds(f Fact[int64]) Fact[float64] {
	return convert(f, func(us int64) float64 { return float64(us) / 1e6 })
}
