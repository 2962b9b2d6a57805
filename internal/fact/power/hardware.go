package power

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// notIdle is the name of the state in which a CPU works. ofPackage is the prefix of the names of
// packages' states.
const notIdle, ofPackage = "C0", "P"

// hardware counts what the processors do, with the performance monitoring units of the kernel:
//
//   - msr (arch/x86/events/msr.c) counts the time stamp counter, and for each CPU mperf, which
//     advances at the same rate while the CPU is not idle, and aperf, which then advances at the
//     CPU's frequency.
//   - cstate_core and cstate_pkg (arch/x86/events/intel/cstate.c) count the time of idle states, at
//     the rate of the time stamp counter.
type hardware struct {
	cpus     []topology
	counters []hardwareCounter
	why      map[quantity]string
}

type hardwareCounter struct {
	unit, event string
	cpu         int
	counter
}

// counter is a running performance counter.
type counter interface {
	Count() (uint64, error)
	Close()
}

// openCounter starts to count an event on a CPU.
type openCounter func(e host.PMUEvent, cpu int) (counter, error)

// openHardware opens the counters and starts to count.
func openHardware(h *host.Host, cpus []topology, open openCounter) *hardware {
	w := &hardware{cpus: cpus, why: map[quantity]string{}}
	clocks := w.open(h, open, "msr", "tsc", "aperf", "mperf")
	if clocks == "" && !(w.counts("aperf") && w.counts("mperf")) {
		clocks = "no aperf and mperf in perf's msr"
	}
	states := cmp.Or(w.open(h, open, "cstate_core"), w.open(h, open, "cstate_pkg"))
	if states == "" && !w.counts("tsc") {
		states = "no tsc in perf's msr"
	}
	w.why[busyFrequency], w.why[entered] = clocks, states
	return w
}

// open counts events of a unit, by default all, on each CPU that the unit names. It returns why that
// is not possible, or "".
func (w *hardware) open(h *host.Host, open openCounter, unit string, only ...string) (why string) {
	events, named, err := h.PMUEvents(unit)
	on := named.Numbers()
	if len(on) == 0 {
		for _, t := range w.cpus {
			on = append(on, t.cpu)
		}
	}
	for _, e := range events {
		for _, cpu := range on {
			if len(only) > 0 && !slices.Contains(only, e.Name) || err != nil {
				continue
			}
			c := hardwareCounter{unit: unit, event: strings.TrimSuffix(e.Name, "-residency"), cpu: cpu}
			if c.counter, err = open(e, cpu); err == nil {
				w.counters = append(w.counters, c)
			}
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no " + unit + " in perf"
	case errors.Is(err, fs.ErrPermission):
		return "only root can count (kernel.perf_event_paranoid)"
	case host.Unknown(err):
		return "perf counts on a running machine only"
	case err != nil:
		return err.Error()
	}
	return ""
}

// counts reports whether an event is counted.
func (w *hardware) counts(event string) bool {
	return slices.ContainsFunc(w.counters, func(c hardwareCounter) bool { return c.event == event })
}

// read returns the count of each counter.
func (w *hardware) read() []float64 {
	out := make([]float64, len(w.counters))
	for i, c := range w.counters {
		n, err := c.Count()
		if err != nil { // a CPU went offline
			w.why[busyFrequency], w.why[entered] = err.Error(), err.Error()
			w.close()
			return nil
		}
		out[i] = float64(n)
	}
	return out
}

// set sets the frequency and the states of CPUs and packages from the counts at both ends of the
// interval.
func (w *hardware) set(s *Sample, first, last []float64) {
	if len(first) != len(w.counters) || len(last) != len(first) {
		return
	}
	clocks := map[int]map[string]float64{} // growth of tsc, aperf and mperf by CPU
	for _, t := range w.cpus {
		clocks[t.cpu] = map[string]float64{}
	}
	for i, c := range w.counters {
		if grown := last[i] - first[i]; c.unit == "msr" && clocks[c.cpu] != nil {
			clocks[c.cpu][c.event] = grown
		}
	}
	for i, c := range w.counters {
		tsc := clocks[c.cpu]["tsc"]
		if c.unit == "msr" || tsc <= 0 {
			continue
		}
		on := w.cpus[slices.IndexFunc(w.cpus, func(t topology) bool { return t.cpu == c.cpu })]
		state, percent := strings.ToUpper(c.event), 100*(last[i]-first[i])/tsc
		for j := range s.Packages {
			if p := &s.Packages[j]; c.unit == "cstate_pkg" && p.Package == on.pkg {
				set(&p.EnteredPercent, ofPackage+state, percent)
			}
		}
		for j := range s.CPUs {
			if cpu := &s.CPUs[j]; c.unit == "cstate_core" && cpu.Package == on.pkg && cpu.Core == on.core {
				set(&cpu.EnteredPercent, state, percent)
			}
		}
	}
	for _, p := range s.Packages {
		for state, percent := range p.EnteredPercent {
			set(&s.Machine.EnteredPercent, state, s.Machine.EnteredPercent[state]+percent/float64(len(s.Packages)))
		}
	}
	for i := range s.CPUs {
		c := &s.CPUs[i]
		clock := clocks[c.CPU]
		if clock["tsc"] <= 0 || clock["mperf"] <= 0 {
			continue
		}
		c.BusyFrequencyHz = new(clock["aperf"] / clock["mperf"] * clock["tsc"] / s.IntervalS)
		works := 100 * clock["mperf"] / clock["tsc"]
		if _, counted := c.EnteredPercent["C1"]; len(c.EnteredPercent) > 0 && !counted { // the time in no other state
			rest := 100 - works
			for _, percent := range c.EnteredPercent {
				rest -= percent
			}
			set(&c.EnteredPercent, "C1", rest)
		}
		set(&c.EnteredPercent, notIdle, works)
	}
}

func (w *hardware) close() {
	for _, c := range w.counters {
		c.Close()
	}
	w.counters = nil
}
