package power

import (
	"errors"
	"io/fs"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// residency counts the time that the processor spent in its idle states, with the performance
// monitoring units cstate_core and cstate_pkg (arch/x86/events/intel/cstate.c). They count at the
// rate of the time stamp counter, which the unit msr provides.
type residency struct {
	counters []residencyCounter
	why      string // reason why the counters cannot be read; "" if they can
}

type residencyCounter struct {
	pkg   bool   // of a package
	state string // C6; PC6 of a package; "" for the time stamp counter
	cpu   int
	host.PMUCounter
}

// openResidency opens the counters and starts to count.
func openResidency(h *host.Host) *residency {
	r := &residency{}
	if !h.Live {
		r.why = "not in this copy"
		return r
	}
	stamps, _, err := h.PMUEvents("msr")
	var tsc *host.PMUEvent
	for i := range stamps {
		if stamps[i].Name == "tsc" {
			tsc = &stamps[i]
		}
	}
	found := false
	for _, unit := range []struct {
		pmu, prefix string
	}{{"cstate_core", ""}, {"cstate_pkg", "P"}} {
		events, cpus, none := h.PMUEvents(unit.pmu)
		if errors.Is(none, fs.ErrNotExist) {
			continue
		}
		found = true
		if none != nil || tsc == nil {
			err = errors.Join(err, none)
			break
		}
		for _, cpu := range cpus.Numbers() {
			err = errors.Join(err, r.open(h, *tsc, residencyCounter{cpu: cpu, pkg: unit.prefix != ""}))
			for _, e := range events {
				state := unit.prefix + strings.ToUpper(strings.TrimSuffix(e.Name, "-residency"))
				err = errors.Join(err, r.open(h, e, residencyCounter{cpu: cpu, pkg: unit.prefix != "", state: state}))
			}
		}
	}
	switch {
	case !found:
		r.why = "no cstate_core or cstate_pkg in perf"
	case errors.Is(err, fs.ErrPermission):
		r.why = "only root can count them (kernel.perf_event_paranoid)"
	case host.Unknown(err):
		r.why = "perf counts on a running machine only"
	case err != nil:
		r.why = err.Error()
	case tsc == nil:
		r.why = "no time stamp counter in perf (msr)"
	default:
		return r
	}
	r.close()
	return r
}

func (r *residency) open(h *host.Host, e host.PMUEvent, c residencyCounter) (err error) {
	if c.PMUCounter, err = h.OpenPMU(e, c.cpu); err == nil {
		r.counters = append(r.counters, c)
	}
	return err
}

// read returns the count of each counter.
func (r *residency) read() []float64 {
	out := make([]float64, len(r.counters))
	for i, c := range r.counters {
		n, err := c.Count()
		if err != nil {
			r.why = err.Error()
			r.close()
			return nil
		}
		out[i] = float64(n)
	}
	return out
}

// set sets the entered states of CPUs and packages from the counts at both ends of the interval.
func (r *residency) set(s *Sample, cpus []topology, first, last []float64) {
	if len(first) == 0 || len(last) != len(first) {
		return
	}
	ticks := 0.0 // of the time stamp counter of the same CPU, which precedes its states
	for i, c := range r.counters {
		grown := last[i] - first[i]
		if c.state == "" {
			ticks = grown
			continue
		}
		if ticks <= 0 {
			continue
		}
		at := topologyOf(cpus, c.cpu)
		for j := range s.CPUs {
			if v := &s.CPUs[j]; !c.pkg && at != nil && v.Package == at.pkg && v.Core == at.core {
				enter(&v.Values, c.state, grown/ticks)
			}
		}
		for j := range s.Packages {
			if c.pkg && at != nil && s.Packages[j].Package == at.pkg {
				enter(&s.Packages[j].Values, c.state, grown/ticks)
			}
		}
	}
}

func enter(v *Values, state string, share float64) {
	if v.EnteredPercent == nil {
		v.EnteredPercent = map[string]float64{}
	}
	v.EnteredPercent[state] = min(100, 100*share)
}

func (r *residency) close() {
	for _, c := range r.counters {
		c.Close()
	}
	r.counters = nil
}
