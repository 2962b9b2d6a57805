package network

import (
	"strconv"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/host"
)

// cpuTime is the time of one processor since boot in clock ticks (proc(5), stat).
type cpuTime struct{ idle, interrupts, stolen, all uint64 }

// cpuTimes returns the times of each processor, or nil if /proc/stat is not readable.
func cpuTimes(h *host.Host) (times []cpuTime) {
	for line := range strings.Lines(h.File("/proc/stat").Text) {
		words := strings.Fields(line)
		if len(words) < 9 || !strings.HasPrefix(words[0], "cpu") || words[0] == "cpu" {
			continue
		}
		var n [8]uint64 // user nice system idle iowait irq softirq steal
		var t cpuTime
		for i, w := range words[1:9] {
			n[i], _ = strconv.ParseUint(w, 10, 64)
			t.all += n[i]
		}
		t.idle, t.interrupts, t.stolen = n[3]+n[4], n[5]+n[6], n[7]
		times = append(times, t)
	}
	return times
}

// processors is the work of this machine's processors during a run. Shares are from 0 to 1, and -1
// if unknown.
type processors struct {
	// CPU is the CPU time of this process, Wall the elapsed time of the run, both in seconds. A run
	// ends early if all bytes are sent.
	CPU  float64 `json:"cpu_s"`
	Wall float64 `json:"wall_s"`
	// All is the busy share of all processors. Programs is the part used by programs, including
	// this one, and Stolen the part used by other guests of the hypervisor.
	All      float64 `json:"all_cpus_share"`
	Programs float64 `json:"programs_share"`
	Stolen   float64 `json:"stolen_share"`
	// Interrupts is the share of time in interrupts on the processor with the largest such share.
	// InterruptsIdle is the idle share of the same processor.
	Interrupts     float64 `json:"interrupts_of_a_cpu_share"`
	InterruptsIdle float64 `json:"idle_of_that_cpu_share"`
	// BacklogDropped are received packets that a processor dropped because its queue was full.
	BacklogDropped int64 `json:"backlog_dropped"`
}

// watchCPU returns a function that returns the work since now.
func watchCPU(h *host.Host) func() processors {
	begin, before, times, dropped := time.Now(), processCPU(), cpuTimes(h), backlogDropped(h)
	return func() processors {
		p := processors{
			CPU: (processCPU() - before).Seconds(), Wall: time.Since(begin).Seconds(), BacklogDropped: backlogDropped(h) - dropped,
			All: -1, Programs: -1, Stolen: -1, Interrupts: -1, InterruptsIdle: -1,
		}
		var sum cpuTime
		for i, t := range cpuTimes(h) {
			if i >= len(times) || t.all <= times[i].all {
				continue
			}
			b := times[i]
			d := cpuTime{t.idle - b.idle, t.interrupts - b.interrupts, t.stolen - b.stolen, t.all - b.all}
			sum = cpuTime{sum.idle + d.idle, sum.interrupts + d.interrupts, sum.stolen + d.stolen, sum.all + d.all}
			if share := float64(d.interrupts) / float64(d.all); share > p.Interrupts {
				p.Interrupts, p.InterruptsIdle = share, float64(d.idle)/float64(d.all)
			}
		}
		if all := float64(sum.all); all > 0 {
			p.All, p.Stolen = 1-float64(sum.idle)/all, float64(sum.stolen)/all
			p.Programs = p.All - p.Stolen - float64(sum.interrupts)/all
		}
		return p
	}
}

// others returns the share of cpus processors that programs outside of the measurement used.
// alsoCPU is the CPU time in seconds of the measurement's processes other than this one.
func (p processors) others(cpus int, alsoCPU float64) float64 {
	if p.Programs < 0 || cpus == 0 || p.Wall <= 0 {
		return -1
	}
	return max(0, p.Programs-(p.CPU+alsoCPU)/(p.Wall*float64(cpus)))
}

// backlogDropped returns the packets that were dropped because the queue of a processor was full,
// since boot (/proc/net/softnet_stat, column 2, hexadecimal).
func backlogDropped(h *host.Host) (n int64) {
	for line := range strings.Lines(h.File("/proc/net/softnet_stat").Text) {
		if words := strings.Fields(line); len(words) > 1 {
			v, _ := strconv.ParseInt(words[1], 16, 64)
			n += v
		}
	}
	return n
}

func processCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
