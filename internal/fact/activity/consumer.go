package activity

import (
	"cmp"
	"slices"
	"strconv"
)

// Consumer is a process, or a cgroup with all of its processes, with the resources it used and the
// time it waited. 100 % of CPU time is one fully used CPU. 100 % of waiting is one thread that
// waits all the time.
type Consumer struct {
	Cgroup string `json:"cgroup,omitempty"`
	// Unit is the systemd unit. Container is the first 12 digits of the container's id.
	Unit      string `json:"unit,omitempty"`
	Container string `json:"container,omitempty"`
	// PID and Command identify the process. For a cgroup, it is the process with the most CPU
	// time.
	PID     int    `json:"pid,omitempty"`
	Command string `json:"command,omitempty"`

	CPUPercent      float64 `json:"cpu_percent"`
	CPUWaitPercent  float64 `json:"cpu_wait_percent"`
	MajorFaultsPerS float64 `json:"major_faults_per_s"`
	MemoryBytes     float64 `json:"memory_bytes"`
	// DiskBytesPerS is nil without permission to read it.
	DiskBytesPerS *float64 `json:"disk_bytes_per_s"`
	// LockWaitingThreads is the number of threads that waited for one mutex of their process
	// from the beginning to the end.
	LockWaitingThreads float64 `json:"lock_waiting_threads,omitempty"`
	// ListenWaiting is the number of connections not accepted yet. It is only read if
	// connections were dropped.
	ListenWaiting float64 `json:"listen_waiting,omitempty"`

	// CPUPressurePercent and the next two fields are the shares of time in which a task of the
	// cgroup waited. They are nil for processes, and for cgroups of version 1.
	CPUPressurePercent    *float64 `json:"cpu_pressure_percent,omitempty"`
	MemoryPressurePercent *float64 `json:"memory_pressure_percent,omitempty"`
	IOPressurePercent     *float64 `json:"io_pressure_percent,omitempty"`
}

// Name returns the container, unit or cgroup of a consumer, or the command of a process
// without any.
func (c *Consumer) Name() string {
	if c.Container != "" {
		return "container " + c.Container
	}
	return cmp.Or(c.Unit, c.Cgroup, c.Command)
}

// Process returns the command and the id of a process.
func (c *Consumer) Process() string { return c.Command + " (pid " + strconv.Itoa(c.PID) + ")" }

// kept is the number of consumers kept for each criterion.
const kept = 5

// top keeps the consumers that are among the first by any criterion. It returns them sorted by
// CPU time.
func top(all []Consumer) []Consumer {
	keep := map[int]bool{}
	byCPU := func(c *Consumer) float64 { return c.CPUPercent }
	for _, by := range []func(c *Consumer) float64{
		byCPU,
		func(c *Consumer) float64 { return c.CPUWaitPercent },
		func(c *Consumer) float64 { return c.MajorFaultsPerS },
		func(c *Consumer) float64 { return c.MemoryBytes },
		func(c *Consumer) float64 { return deref(c.DiskBytesPerS) },
		func(c *Consumer) float64 { return c.LockWaitingThreads },
		func(c *Consumer) float64 { return c.ListenWaiting },
		func(c *Consumer) float64 { return deref(c.CPUPressurePercent) },
		func(c *Consumer) float64 { return deref(c.MemoryPressurePercent) },
		func(c *Consumer) float64 { return deref(c.IOPressurePercent) },
	} {
		for _, i := range first(all, by) {
			keep[i] = true
		}
	}
	out := []Consumer{}
	for i := range all {
		if keep[i] {
			out = append(out, all[i])
		}
	}
	slices.SortStableFunc(out, func(a, b Consumer) int { return cmp.Compare(byCPU(&b), byCPU(&a)) })
	return out
}

// first returns the indices of the consumers with the highest values above 0.
func first(all []Consumer, by func(*Consumer) float64) []int {
	var at []int
	for i := range all {
		if by(&all[i]) > 0 {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(by(&all[b]), by(&all[a])) })
	return at[:min(kept, len(at))]
}

func deref(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}

// consumers returns the resources that each process used between two readings. Processes that ended
// in between are missing. Processes that started in between count from their start.
func consumers(before, now *processes, pageSize float64) []Consumer {
	var out []Consumer
	for pid, p := range now.all {
		was := before.all[pid]
		if was == nil || was.start != p.start {
			was = &process{at: before.at}
		}
		seconds := p.at.Sub(was.at).Seconds()
		if seconds <= 0 {
			continue
		}
		c := Consumer{PID: pid, Command: p.command, Cgroup: p.cgroup, Unit: Unit(p.cgroup), Container: Container(p.cgroup), MemoryBytes: p.rss * pageSize}
		c.CPUPercent = max(0, p.cpu-was.cpu) / seconds * 100
		c.CPUWaitPercent = max(0, p.delay-was.delay) / seconds * 100
		c.MajorFaultsPerS = max(0, p.faults-was.faults) / seconds
		c.LockWaitingThreads = lockWaiting(was, p)
		if p.disk >= 0 && was.disk >= 0 {
			c.DiskBytesPerS = known(max(0, p.disk-was.disk) / seconds)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Consumer) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

// groups adds up the processes of each cgroup, and adds each cgroup's pressure.
func groups(all []Consumer, cgroups span) []Consumer {
	at := map[string]int{}
	var out []Consumer
	busiest := map[string]float64{}
	for _, c := range all {
		i, known := at[c.Cgroup]
		if !known {
			i = len(out)
			at[c.Cgroup] = i
			out = append(out, Consumer{Cgroup: c.Cgroup, Unit: c.Unit, Container: c.Container})
		}
		g := &out[i]
		if used := c.CPUPercent + c.CPUWaitPercent; g.PID == 0 || used > busiest[c.Cgroup] {
			g.PID, g.Command, busiest[c.Cgroup] = c.PID, c.Command, used
		}
		g.CPUPercent += c.CPUPercent
		g.CPUWaitPercent += c.CPUWaitPercent
		g.MajorFaultsPerS += c.MajorFaultsPerS
		g.MemoryBytes += c.MemoryBytes
		g.LockWaitingThreads += c.LockWaitingThreads
		g.ListenWaiting += c.ListenWaiting
		if c.DiskBytesPerS != nil {
			sum := deref(g.DiskBytesPerS) + *c.DiskBytesPerS
			g.DiskBytesPerS = &sum
		}
	}
	for i := range out {
		g := &out[i]
		for resource, into := range map[string]**float64{"cpu": &g.CPUPressurePercent, "memory": &g.MemoryPressurePercent, "io": &g.IOPressurePercent} {
			m := measure{of: "pressure." + resource + ".some", kind: rate, scale: 100}
			if _, has := cgroups.last.counters[counter{m.of, g.Cgroup}]; has && g.Cgroup != "" {
				v := cgroups.value(m, g.Cgroup)
				*into = v.Value
			}
		}
	}
	return out
}
