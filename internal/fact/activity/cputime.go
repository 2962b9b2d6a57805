package activity

import (
	"strconv"
	"strings"
)

// CPUTime is the time since boot that a CPU, or all CPUs, spent in each class of states, in
// seconds. Guest time is part of BusyS.
type CPUTime struct {
	BusyS, IdleS, IOWaitS, SoftIRQS, StealS float64
}

// TotalS returns the sum of all classes. SoftIRQS is part of BusyS.
func (t CPUTime) TotalS() float64 { return t.BusyS + t.IdleS + t.IOWaitS + t.StealS }

// ticksPerSecond is USER_HZ: 100 on all supported machines.
const ticksPerSecond = 100

// ParseCPUTimes parses the CPU lines of /proc/stat (proc_stat(5)). The key is the name of the
// line: "cpu" for all CPUs, "cpu0", "cpu1".
func ParseCPUTimes(text string) (map[string]CPUTime, error) {
	out := map[string]CPUTime{}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 || !strings.HasPrefix(w[0], "cpu") {
			continue
		}
		if len(w) < 9 {
			return nil, errFormat
		}
		n, err := numbers(w[1:9]) // user nice system idle iowait irq softirq steal; user includes guest
		if err != nil {
			return nil, err
		}
		busy := n[0] + n[1] + n[2] + n[5] + n[6]
		out[w[0]] = CPUTime{busy / ticksPerSecond, n[3] / ticksPerSecond, n[4] / ticksPerSecond, n[6] / ticksPerSecond, n[7] / ticksPerSecond}
	}
	if _, ok := out["cpu"]; !ok {
		return nil, errFormat
	}
	return out, nil
}

// Interrupt is a line of /proc/interrupts or /proc/softirqs.
type Interrupt struct {
	Name string // number, or a name such as LOC or NET_RX
	// Counts has the number since boot of each CPU, in the order of the CPUs.
	Counts []float64
	// Text describes the interrupt: chip, trigger and device. It is empty in /proc/softirqs.
	Text string
}

// ParseInterrupts parses /proc/interrupts or /proc/softirqs (proc_interrupts(5)). cpus has the CPU
// number of each column of counts. The lines ERR and MIS, which count for the whole machine, are
// omitted.
func ParseInterrupts(text string) (cpus []int, lines []Interrupt, err error) {
	head, rest, _ := strings.Cut(text, "\n")
	for name := range strings.FieldsSeq(head) {
		digits, isCPU := strings.CutPrefix(name, "CPU")
		cpu, err := strconv.ParseUint(digits, 10, 16)
		if !isCPU || err != nil {
			return nil, nil, errFormat
		}
		cpus = append(cpus, int(cpu))
	}
	if len(cpus) == 0 {
		return nil, nil, errFormat
	}
	for line := range strings.Lines(rest) {
		name, row, ok := strings.Cut(line, ":")
		w := strings.Fields(row)
		if name = strings.TrimSpace(name); !ok || len(w) < len(cpus) || name == "ERR" || name == "MIS" {
			continue
		}
		counts, err := numbers(w[:len(cpus)])
		if err != nil {
			return nil, nil, err
		}
		lines = append(lines, Interrupt{name, counts, strings.Join(w[len(cpus):], " ")})
	}
	return cpus, lines, nil
}
