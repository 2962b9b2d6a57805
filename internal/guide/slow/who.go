package slow

import (
	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/unit"
)

// resource is a resource that tasks wait for.
type resource int

const (
	none resource = iota
	cpu
	memory
	memoryLimit // of a cgroup
	disk
	listeners
	locks
)

// Role names the cgroup and the process that used or waited for the most.
type Role struct {
	// Role is uses or waits.
	Role string `json:"role"`
	// Measure is the consumer's field by which they were selected.
	Measure string `json:"measure"`
	Text    string `json:"text"`
	// Group and Process may be unrelated. Either may be nil.
	Group   *activity.Consumer `json:"group,omitempty"`
	Process *activity.Consumer `json:"process,omitempty"`
}

// order is a criterion for consumers.
type order struct {
	role, title, measure string
	of                   func(*activity.Consumer) float64
	show                 func(float64) string
}

func percent(v float64) string { return unit.Digits(v) + " %" }
func cpus(v float64) string    { return unit.Digits(v/100) + " CPUs" }
func tasks(v float64) string   { return unit.Digits(v/100) + " tasks at a time" }
func size(v float64) string    { return unit.Size(v).Human() }

func orders(r resource) []order {
	switch r {
	case cpu:
		return []order{
			{"uses", "uses most CPU time", "cpu_percent", func(c *activity.Consumer) float64 { return c.CPUPercent }, cpus},
			{"waits", "waits most for a CPU", "cpu_wait_percent", func(c *activity.Consumer) float64 { return c.CPUWaitPercent }, tasks},
		}
	case memory:
		return []order{
			{"uses", "has most memory", "memory_bytes", func(c *activity.Consumer) float64 { return c.MemoryBytes }, size},
			{"waits", "waits most for memory", "memory_pressure_percent", func(c *activity.Consumer) float64 { return deref(c.MemoryPressurePercent) }, percent},
			{"waits", "reads most pages back", "major_faults_per_s", func(c *activity.Consumer) float64 { return c.MajorFaultsPerS }, func(v float64) string { return unit.Digits(v) + "/s" }},
		}
	case memoryLimit:
		return orders(memory)[1:] // who has most memory may have no limit
	case disk:
		return []order{
			{"uses", "reads and writes most", "disk_bytes_per_s", func(c *activity.Consumer) float64 { return deref(c.DiskBytesPerS) }, func(v float64) string { return size(v) + "/s" }},
			{"waits", "waits most for I/O", "io_pressure_percent", func(c *activity.Consumer) float64 { return deref(c.IOPressurePercent) }, percent},
		}
	case listeners:
		return []order{{"uses", "does not accept connections", "listen_waiting", func(c *activity.Consumer) float64 { return c.ListenWaiting }, func(v float64) string { return unit.Digits(v) + " in the queue" }}}
	case locks:
		return []order{{"waits", "waits most for a mutex", "lock_waiting_threads", func(c *activity.Consumer) float64 { return c.LockWaitingThreads }, func(v float64) string { return unit.Digits(v) + " threads" }}}
	case none:
	}
	return nil
}

func deref(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}

// roles returns the consumers that used and that waited the most for a resource.
func roles(s *activity.Sample, r resource) []Role {
	out := []Role{}
	for _, o := range orders(r) {
		group, process := o.first(s.Groups), o.first(s.Processes)
		if group == nil && process == nil {
			continue
		}
		role := Role{Role: o.role, Measure: o.measure, Group: group, Process: process, Text: o.title + ": "}
		if group != nil && group.Cgroup != "" {
			role.Text += group.Name() + ", " + o.show(o.of(group))
			if process != nil {
				role.Text += "; "
			}
		}
		if process != nil {
			role.Text += process.Process() + ", " + o.show(o.of(process))
		}
		out = append(out, role)
	}
	return out
}

// first returns the consumer with the highest value above 0, or nil.
func (o order) first(all []activity.Consumer) *activity.Consumer {
	var most *activity.Consumer
	for i := range all {
		if v := o.of(&all[i]); v > 0 && (most == nil || v > o.of(most)) {
			most = &all[i]
		}
	}
	return most
}
