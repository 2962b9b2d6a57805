// Package activity reads the kernel's counters twice and returns the machine's activity in between:
// how long tasks waited for CPUs, memory and disks, how many packets were dropped, and which limits
// are nearly reached. It also returns the units, containers and processes that used or waited the
// most. On a copy it returns the averages since boot. Package slow of internal/guide judges the
// results.
package activity

import (
	"context"
	"slices"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Sample is the activity of a machine in a period.
type Sample struct {
	// Time is the end of the sample.
	Time time.Time `json:"time"`
	// DurationS is the length of the sample. It is 0 if only averages since boot are known.
	DurationS float64 `json:"duration_s"`
	// UptimeS is the time since boot, or 0 if unknown.
	UptimeS float64 `json:"uptime_s,omitempty"`
	Values  []Value `json:"values"`
	// Groups are the cgroups, and Processes the processes, that used or waited the most. Both
	// are sorted by CPU time, and empty on a copy.
	Groups    []Consumer `json:"groups"`
	Processes []Consumer `json:"processes"`
	// Partial is the reason that not all processes were read, or "".
	Partial string `json:"partial,omitempty"`
}

// SinceBoot returns the averages since boot, for a machine or a copy.
func SinceBoot(h *host.Host) *Sample {
	last := readMachine(h)
	s := span{last: last, uptime: last.uptime()}
	return &Sample{Time: last.at.UTC(), UptimeS: s.uptime, Values: s.values(measures), Groups: []Consumer{}, Processes: []Consumer{}}
}

// Reading holds the counters at the beginning of a sample.
type Reading struct {
	LeaveOut         func(Consumer) bool // processes that are not listed; initially none
	host             *host.Host
	processes        *processes
	cgroups, machine *snapshot
}

// Begin reads the counters of a live machine.
func Begin(h *host.Host) *Reading {
	return &Reading{LeaveOut: func(Consumer) bool { return false }, host: h, processes: readProcesses(h, false), cgroups: readCgroups(h, false), machine: readMachine(h)}
}

// Measure samples a live machine for the given time.
func Measure(ctx context.Context, h *host.Host, lasting time.Duration) (*Sample, error) {
	begun := Begin(h)
	wait := time.NewTimer(lasting)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wait.C:
	}
	return begun.End(), nil
}

// End reads the counters again and returns the sample since Begin.
func (r *Reading) End() *Sample {
	h := r.host
	// Read the processes last: the machine's sample does not include the time for that.
	machineNow, cgroupsNow, processesNow := readMachine(h), readCgroups(h, true), readProcesses(h, true)
	whole := span{r.machine, machineNow, machineNow.uptime()}
	groupsIn := span{r.cgroups, cgroupsNow, 0}
	s := &Sample{Time: machineNow.at.UTC(), DurationS: whole.seconds(), UptimeS: whole.uptime, Partial: processesNow.partial}
	all := consumers(r.processes, processesNow, float64(h.PageSize()))
	if grew(r.machine, machineNow, "listen.overflows") {
		machineNow.addListeners(h, all)
	}
	processesNow.addLocks(all)
	s.Values = whole.values(measures)
	s.setDelay(all)
	s.Values = append(s.Values, groupsIn.values(cgroupMeasures)...)
	s.Values = append(s.Values, span{nil, processesNow.own, 0}.values(taskMeasures)...)
	s.Groups, s.Processes = top(groups(all, groupsIn)), top(slices.DeleteFunc(all, r.LeaveOut))
	return s
}

func grew(first, last *snapshot, name string) bool {
	k := counter{name, ""}
	return last.counters[k] > first.counters[k]
}

// setDelay sets the machine's run-queue delay from the delays of all processes, for kernels
// without CONFIG_SCHEDSTATS.
func (s *Sample) setDelay(all []Consumer) {
	v := s.Find("run_queue_waiting_tasks")
	if v == nil || v.Value != nil {
		return
	}
	sum := 0.0
	for i := range all {
		sum += all[i].CPUWaitPercent / 100
	}
	*v = Value{Name: v.Name, Value: &sum, Source: "/proc/*/schedstat"}
}

// Find returns the value of a measure: the machine's, or else the highest of its items. It
// returns nil if the measure has no value.
func (s *Sample) Find(name string) *Value {
	for i := range s.Values {
		if s.Values[i].Name == name {
			return &s.Values[i]
		}
	}
	return nil
}
