package power

import (
	"maps"
	"slices"
)

// sample returns the changes between two readings. Without a first reading it has only the values
// that need no interval.
func (m *Monitor) sample(first, last *reading) Sample {
	s := Sample{Time: last.at.UTC(), Packages: []Package{}, CPUs: []CPU{}}
	if first != nil {
		s.IntervalS = last.at.Sub(first.at).Seconds()
	} else {
		first = &reading{}
	}
	for _, t := range m.cpus {
		c := CPU{CPU: t.cpu, Package: t.pkg, Core: t.core}
		c.since(first.cpus[t.cpu], last.cpus[t.cpu], s.IntervalS)
		s.CPUs = append(s.CPUs, c)
	}
	for _, pkg := range packagesOf(m.cpus) {
		s.Packages = append(s.Packages, Package{Package: pkg})
	}
	m.hardware.set(&s, first.hardware, last.hardware)
	for i := range s.Packages {
		p := &s.Packages[i]
		p.combine(slices.DeleteFunc(slices.Clone(s.CPUs), func(c CPU) bool { return c.Package != p.Package }), first, last)
		if celsius, ok := last.celsius[p.Package]; ok {
			p.TemperatureC = &celsius
		}
	}
	s.Machine.combine(s.CPUs, first, last)
	for _, celsius := range last.celsius {
		s.Machine.TemperatureC = new(max(celsius, value(s.Machine.TemperatureC)))
	}
	if s.IntervalS > 0 {
		m.energy.setPower(&s, first.joules, last.joules)
	}
	return s
}

// since sets the values of a CPU from its counters. A CPU that went online in the interval, and
// every CPU of a copy, has only those that need no interval.
func (c *CPU) since(first, last *counters, seconds float64) {
	if last == nil {
		return
	}
	if first == nil {
		first = &counters{}
	}
	for q, now := range last.values {
		def := &quantities[q]
		v := new(now)
		if def.source != gauge {
			before, ok := first.values[q]
			grown := max(0, now-before)
			switch ticks := last.totalS - first.totalS; {
			case !ok || seconds <= 0 || def.source == share && ticks <= 0:
				v = nil
			case def.source == share:
				v = new(min(100, 100*grown/ticks))
			case def.source == perSecond:
				v = new(grown / seconds)
			default:
				v = &grown
			}
		}
		*def.at(&c.Values) = v
	}
	for state, us := range last.idleUS {
		if before, ok := first.idleUS[state]; ok && seconds > 0 {
			// The kernel counts the time of a state at its end, so a long one may exceed the interval.
			set(&c.RequestedPercent, state, (us-before)/1e4/seconds)
		}
	}
}

// set sets the share of a state, in percent.
func set(states *map[string]float64, name string, percent float64) {
	if *states == nil {
		*states = map[string]float64{}
	}
	(*states)[name] = min(100, max(0, percent))
}

// combine computes the values of several CPUs from the values of each CPU.
func (v *Values) combine(cpus []CPU, first, last *reading) {
	for q := range quantities {
		def := &quantities[q]
		if def.combination == none {
			continue
		}
		if def.states != nil {
			v.combineStates(cpus, def.states)
			continue
		}
		sum, weights, most := 0.0, 0.0, 0.0
		for i := range cpus {
			x := *def.at(&cpus[i].Values)
			if x == nil {
				continue
			}
			weight := 1.0
			if quantity(q) == busyFrequency { // of the time in which the CPUs were not idle
				weight = cpus[i].EnteredPercent[notIdle]
			}
			sum, weights, most = sum+*x*weight, weights+weight, max(most, *x)
		}
		switch {
		case weights == 0:
		case def.combination == mean:
			*def.at(v) = new(sum / weights)
		case def.combination == total:
			*def.at(v) = &sum
		case def.combination == highest:
			*def.at(v) = &most
		}
	}
	if now, ok := throttled(cpus, last); ok {
		v.ThrottledSinceBoot = &now
		if before, ok := throttled(cpus, first); ok {
			v.Throttled = new(max(0, now-before))
		}
	}
}

// combineStates adds the means over the CPUs to the shares of states.
func (v *Values) combineStates(cpus []CPU, of func(*Values) *map[string]float64) {
	sums := map[string]float64{}
	for i := range cpus {
		for name, percent := range *of(&cpus[i].Values) {
			sums[name] += percent
		}
	}
	for name, sum := range sums {
		set(of(v), name, sum/float64(len(cpus)))
	}
}

// throttled returns how often heat lowered the frequency since boot: the sum over the cores of the
// CPUs, whose threads share a counter, and over their packages.
func throttled(cpus []CPU, r *reading) (sum float64, ok bool) {
	counts := map[[3]int]float64{}
	for _, c := range cpus {
		counters := r.cpus[c.CPU]
		if counters == nil {
			continue
		}
		n, has := counters.values[throttles]
		if !has {
			continue
		}
		core, pkg := [3]int{0, c.Package, c.Core}, [3]int{1, c.Package}
		if c.Core < 0 {
			core = [3]int{2, c.CPU}
		}
		counts[core], counts[pkg] = max(counts[core], n), max(counts[pkg], counters.packageThrottles)
	}
	for _, n := range counts {
		sum += n
	}
	return sum, len(counts) > 0
}

// value returns a value, or 0 if it is unknown.
func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

// missing returns the quantities that a sample lacks, in the order of the columns.
func (m *Monitor) missing(s *Sample) []Missing {
	out := []Missing{}
	if len(m.cpus) == 0 {
		return append(out, Missing{"CPUs", without(m.host.File(cpuDir+"online"), "no "+cpuDir+"online")})
	}
	if s.IntervalS == 0 {
		out = append(out, Missing{"rates", "a copy has the counters of one moment only"})
	}
	why := maps.Clone(m.last.why)
	maps.Copy(why, m.hardware.why)
	if why[power] = m.energy.Why(); why[power] == "" && s.Machine.PowerW == nil {
		why[power] = "the RAPL counters do not move"
	}
	for i := range quantities {
		def, q := &quantities[i], quantity(i)
		if s.IntervalS == 0 && def.source != gauge {
			continue
		}
		if why[q] == "" && !q.known(&s.Machine) {
			why[q] = "the kernel did not count in this interval"
		}
		if def.name != "" && why[q] != "" {
			out = append(out, Missing{def.name, why[q]})
		}
	}
	return out
}
