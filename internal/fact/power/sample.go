package power

import (
	"maps"
	"slices"
	"strconv"
)

// sample returns the changes between two readings. Without a first reading it has only the values
// that need no interval.
func (m *Monitor) sample(first, last *reading) Sample {
	s := Sample{Time: last.at.UTC(), Packages: []Package{}, CPUs: []CPU{}}
	if first != nil {
		s.IntervalS = last.at.Sub(first.at).Seconds()
	}
	for _, t := range m.cpus {
		c := CPU{CPU: t.cpu, Package: t.pkg, Core: t.core}
		if hz, ok := last.hz[t.cpu]; ok {
			c.FrequencyHz = &hz
		}
		if celsius, ok := last.celsius.cores[[2]int{t.pkg, t.core}]; ok {
			c.TemperatureC = &celsius
		}
		if n, ok := last.throttled[t.cpu]; ok {
			c.ThrottledSinceBoot = &n.core
		}
		if s.IntervalS > 0 {
			c.since(first, last, s.IntervalS)
		}
		s.CPUs = append(s.CPUs, c)
	}
	for _, pkg := range packagesOf(m.cpus) {
		s.Packages = append(s.Packages, Package{Package: pkg})
	}
	if s.IntervalS > 0 {
		m.residency.set(&s, m.cpus, first.entered, last.entered)
	}
	for i := range s.Packages {
		p := &s.Packages[i]
		p.combine(slices.DeleteFunc(slices.Clone(s.CPUs), func(c CPU) bool { return c.Package != p.Package }))
		p.addThrottles(m.cpus, first, last)
		if celsius, ok := last.celsius.packages[p.Package]; ok {
			p.TemperatureC = &celsius
		}
	}
	s.Machine.combine(s.CPUs)
	for i := range s.Packages {
		s.Machine.TemperatureC = highest(s.Machine.TemperatureC, s.Packages[i].TemperatureC)
	}
	for _, celsius := range last.celsius.other {
		s.Machine.TemperatureC = highest(s.Machine.TemperatureC, &celsius)
	}
	if len(s.Packages) > 0 {
		s.Machine.Throttled, s.Machine.ThrottledSinceBoot = nil, nil
		for _, p := range s.Packages {
			s.Machine.Throttled, s.Machine.ThrottledSinceBoot = plus(s.Machine.Throttled, p.Throttled), plus(s.Machine.ThrottledSinceBoot, p.ThrottledSinceBoot)
		}
	}
	if s.IntervalS > 0 {
		joules := slices.Clone(last.joules)
		for i := range joules {
			joules[i] -= first.joules[i]
		}
		m.energy.setPower(&s, joules)
	}
	return s
}

// since sets the rates of a CPU. A CPU that went online in the interval has none.
func (c *CPU) since(first, last *reading, seconds float64) {
	name := "cpu" + strconv.Itoa(c.CPU)
	before, had := first.times[name]
	now, has := last.times[name]
	if total := now.TotalS() - before.TotalS(); had && has && total > 0 {
		c.BusyPercent, c.StealPercent = percent((now.BusyS-before.BusyS)/total), percent((now.StealS-before.StealS)/total)
	}
	if a, ok := first.interrupts[c.CPU]; ok {
		b := last.interrupts[c.CPU]
		c.InterruptsPerS = new(max(0, b.all-a.all) / seconds)
		if b.timers > 0 {
			c.TimersPerS, c.ReschedulesPerS = new(max(0, b.timers-a.timers)/seconds), new(max(0, b.reschedules-a.reschedules)/seconds)
		}
	}
	if a, ok := first.softirq[c.CPU]; ok {
		c.SoftIRQsPerS = new(max(0, last.softirq[c.CPU].all-a.all) / seconds)
	}
	if a, b := first.idle[c.CPU], last.idle[c.CPU]; len(a) > 0 && len(a) == len(b) {
		c.RequestedPercent = map[string]float64{}
		wakeups := 0.0
		for i := range a {
			wakeups += b[i].entries - a[i].entries
			// The kernel counts the time of a state at its end, so a long one may exceed the interval.
			c.RequestedPercent[b[i].name] += min(100, max(0, (b[i].us-a[i].us)/1e4/seconds))
		}
		c.WakeupsPerS = new(max(0, wakeups) / seconds)
	}
	if a, ok := first.throttled[c.CPU]; ok {
		c.Throttled = new(max(0, last.throttled[c.CPU].core-a.core))
	}
}

func percent(share float64) *float64 { return new(min(100, max(0, 100*share))) }

// combine computes the values of several CPUs from the values of each CPU.
func (v *Values) combine(cpus []CPU) {
	mean := func(of func(*CPU) *float64) *float64 {
		sum, n := sumOf(cpus, of)
		if n == 0 {
			return nil
		}
		return new(sum / n)
	}
	total := func(of func(*CPU) *float64) *float64 {
		sum, n := sumOf(cpus, of)
		if n == 0 {
			return nil
		}
		return &sum
	}
	v.BusyPercent = mean(func(c *CPU) *float64 { return c.BusyPercent })
	v.StealPercent = mean(func(c *CPU) *float64 { return c.StealPercent })
	v.FrequencyHz = mean(func(c *CPU) *float64 { return c.FrequencyHz })
	v.InterruptsPerS = total(func(c *CPU) *float64 { return c.InterruptsPerS })
	v.TimersPerS = total(func(c *CPU) *float64 { return c.TimersPerS })
	v.ReschedulesPerS = total(func(c *CPU) *float64 { return c.ReschedulesPerS })
	v.SoftIRQsPerS = total(func(c *CPU) *float64 { return c.SoftIRQsPerS })
	v.WakeupsPerS = total(func(c *CPU) *float64 { return c.WakeupsPerS })
	v.RequestedPercent = meanOf(v.RequestedPercent, cpus, func(c *CPU) map[string]float64 { return c.RequestedPercent })
	v.EnteredPercent = meanOf(v.EnteredPercent, cpus, func(c *CPU) map[string]float64 { return c.EnteredPercent })
	// Threads of a core have the same counters.
	cores := map[[2]int]CPU{}
	for _, c := range cpus {
		key := [2]int{c.Package, c.Core}
		if c.Core < 0 {
			key = [2]int{-1, c.CPU}
		}
		had := cores[key]
		c.Throttled, c.ThrottledSinceBoot = highest(had.Throttled, c.Throttled), highest(had.ThrottledSinceBoot, c.ThrottledSinceBoot)
		cores[key] = c
		v.TemperatureC = highest(v.TemperatureC, c.TemperatureC)
	}
	for _, c := range cores {
		v.Throttled, v.ThrottledSinceBoot = plus(v.Throttled, c.Throttled), plus(v.ThrottledSinceBoot, c.ThrottledSinceBoot)
	}
}

// sumOf returns the sum of a value over the CPUs that have it, and their number.
func sumOf(cpus []CPU, of func(*CPU) *float64) (sum, n float64) {
	for i := range cpus {
		if v := of(&cpus[i]); v != nil {
			sum, n = sum+*v, n+1
		}
	}
	return sum, n
}

// meanOf adds the means over the CPUs to values.
func meanOf(values map[string]float64, cpus []CPU, of func(*CPU) map[string]float64) map[string]float64 {
	for i := range cpus {
		for name, v := range of(&cpus[i]) {
			if values == nil {
				values = map[string]float64{}
			}
			values[name] += v / float64(len(cpus))
		}
	}
	return values
}

// addThrottles adds the events of the package itself to the events of its cores.
func (p *Package) addThrottles(cpus []topology, first, last *reading) {
	var before, now *float64
	for _, t := range cpus {
		n, ok := last.throttled[t.cpu]
		if t.pkg != p.Package || !ok {
			continue
		}
		now = highest(now, &n.pkg)
		if first != nil {
			if n, ok := first.throttled[t.cpu]; ok {
				before = highest(before, &n.pkg)
			}
		}
	}
	p.ThrottledSinceBoot = plus(p.ThrottledSinceBoot, now)
	if now != nil && before != nil {
		p.Throttled = plus(p.Throttled, new(max(0, *now-*before)))
	}
}

func highest(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func plus(a, b *float64) *float64 {
	if b == nil {
		return a
	}
	return add(a, *b)
}

// missing returns the values that a sample lacks, in the order of the columns.
func (m *Monitor) missing(s *Sample) []Missing {
	out := []Missing{}
	say := func(what, why string) { out = append(out, Missing{what, why}) }
	if len(m.cpus) == 0 {
		say("CPUs", without(m.host.File(cpuDir+"online"), "no "+cpuDir+"online"))
	}
	if s.IntervalS == 0 {
		say(rates, "a copy has the counters of one moment only")
		return out
	}
	why := maps.Clone(m.last.why)
	why[entered], why[power] = m.residency.why, m.energy.Why()
	if why[power] == "" && s.Machine.PowerW == nil {
		why[power] = "the RAPL counters do not move"
	}
	for _, what := range []string{busy, frequency, requested, entered, interrupts, softirqs, throttling, temperature, power} {
		if why[what] != "" {
			say(what, why[what])
		}
	}
	return out
}
