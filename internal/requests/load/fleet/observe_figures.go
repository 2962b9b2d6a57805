package fleet

import "fettle.dev/fettle/internal/fact/activity"

// Figures describe a machine over a period of time.
type Figures struct {
	Machine string  `json:"machine"`
	FromS   float64 `json:"from_s"`
	ToS     float64 `json:"to_s"`
	CPUs    int     `json:"cpus"`
	// CPUShare is the share of time in which the processors were not idle. It includes
	// StolenShare, the hypervisor's share. Waiting for a disk counts as idle.
	CPUShare    float64 `json:"cpu_share"`
	StolenShare float64 `json:"stolen_share"`
	// BusiestCPUShare is the share of the busiest processor.
	BusiestCPUShare float64 `json:"busiest_cpu_share"`
	// RunQueue is the mean number of runnable tasks per processor. LongestRunQueue is the mean
	// of the busiest processor, or nil if the kernel does not record it.
	RunQueue        float64  `json:"run_queue_per_cpu"`
	LongestRunQueue *float64 `json:"longest_run_queue,omitempty"`
	// MemoryShare is the highest share of memory in use, 0 to 1. Memory available without
	// swapping is not in use.
	MemoryShare float64            `json:"memory_share"`
	MemoryBytes int64              `json:"memory_bytes"`
	Networks    map[string]Network `json:"networks"` // by interface
}

// Network is the traffic of an interface.
type Network struct {
	InBytesPerS  float64 `json:"in_bytes_per_s"`
	OutBytesPerS float64 `json:"out_bytes_per_s"`
}

// figures returns the figures between two samples. It returns false if they are unknown. The
// caller holds the lock.
func (c *Course) figures(first, last int) (Figures, bool) {
	a, b := c.seen[first], c.seen[last]
	length := b.uptime - a.uptime
	if length < 0 || len(a.times) != len(b.times) || len(a.queued) != len(b.queued) {
		if c.ended == nil {
			c.ended = errRestarted
		}
		return Figures{}, false
	}
	before, after := a.times["cpu"], b.times["cpu"]
	if length == 0 || after.TotalS() <= before.TotalS() { // less than a tick apart
		return Figures{}, false
	}
	f := Figures{Machine: c.Name, FromS: c.at[first].Seconds(), ToS: c.at[last].Seconds(), CPUs: len(b.times) - 1, Networks: map[string]Network{}}
	f.CPUShare = share(before, after)
	f.StolenShare = max(0, after.StealS-before.StealS) / (after.TotalS() - before.TotalS())
	for name, t := range b.times {
		if name != "cpu" {
			f.BusiestCPUShare = max(f.BusiestCPUShare, share(a.times[name], t))
		}
	}
	if n := len(b.queued); n > 0 {
		longest := 0.0
		for i := range b.queued {
			queue := float64(b.queued[i]-min(a.queued[i], b.queued[i])) / 1e9 / length
			f.RunQueue += queue / float64(n)
			longest = max(longest, queue)
		}
		f.LongestRunQueue = &longest
	} else {
		for _, s := range c.seen[first+1 : last+1] {
			f.RunQueue += float64(max(0, s.runnable-1)) / float64(f.CPUs) / float64(last-first)
		}
	}
	for _, s := range c.seen[first+1 : last+1] {
		used := s.memory - s.free
		f.MemoryBytes = max(f.MemoryBytes, used)
		f.MemoryShare = max(f.MemoryShare, float64(used)/float64(s.memory))
	}
	for name, in := range b.received {
		was, known := a.received[name]
		if !known || in < was || b.posted[name] < a.posted[name] {
			continue // the interface is new
		}
		f.Networks[name] = Network{float64(in-was) / length, float64(b.posted[name]-a.posted[name]) / length}
	}
	return f, true
}

// share returns the share of time in which a processor was not idle between two samples. While it
// waits for a disk it is idle: another task could run. The kernel's idle time may decrease by one
// tick.
func share(a, b activity.CPUTime) float64 {
	all := b.TotalS() - a.TotalS()
	idle := b.IdleS + b.IOWaitS - a.IdleS - a.IOWaitS
	if all <= 0 {
		return 0
	}
	return min(1, max(0, 1-idle/all))
}

// BusiestNetwork returns the traffic of the busiest interface, in bytes a second. It uses the
// busier direction of each interface.
func (f *Figures) BusiestNetwork() float64 {
	most := 0.0
	for _, n := range f.Networks {
		most = max(most, n.InBytesPerS, n.OutBytesPerS)
	}
	return most
}
