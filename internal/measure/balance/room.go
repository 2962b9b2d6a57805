package balance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// Limits of the brake.
const (
	mostPressure = 10       // percent of the last 10 s in which a task waited for memory
	leastFree    = 64 << 20 // bytes on a node that receives pages: free, or inactive page cache
)

// brake returns why no more pages should be moved to the nodes, or "".
func brake(h *host.Host, nodes unit.CPUSet) string {
	if why := Pressure(h); why != "" {
		return "stopped by " + why
	}
	for _, n := range nodes.Numbers() {
		free := int64(0)
		text := h.File(fmt.Sprintf("/sys/devices/system/node/node%d/meminfo", n)).Text
		for line := range strings.Lines(text) {
			f := strings.Fields(line) // Node 1 MemFree: 42 kB
			if len(f) > 3 && (f[2] == "MemFree:" || f[2] == "Inactive(file):") {
				kb, _ := strconv.ParseInt(f[3], 10, 50)
				free += kb << 10
			}
		}
		if text != "" && free < leastFree {
			return fmt.Sprintf("stopped: node %d has %s free, limit %s", n, unit.Size(free).Human(), unit.Size(leastFree).Human())
		}
	}
	return ""
}

// Pressure returns a sentence if the machine is under memory pressure, or else "".
func Pressure(h *host.Host) string {
	if share, ok := memoryPressure(h); ok && share > mostPressure {
		return fmt.Sprintf("memory pressure: %s %% of the last 10 s, limit %d %%", unit.Digits(share), mostPressure)
	}
	return ""
}

// memoryPressure returns the share of the last 10 s in which a task waited for memory, in percent. ok
// is false where the kernel does not measure it.
func memoryPressure(h *host.Host) (share float64, ok bool) {
	_, rest, _ := strings.Cut(h.File("/proc/pressure/memory").Text, "avg10=")
	word, _, _ := strings.Cut(rest, " ")
	share, err := strconv.ParseFloat(word, 64)
	return share, err == nil
}

// notesOf names the limits of the moves that this machine cannot check.
func notesOf(h *host.Host) (notes []string) {
	if _, ok := memoryPressure(h); !ok {
		notes = append(notes, "memory pressure unknown (no /proc/pressure/memory; it needs psi=1): only a full node stops the moves")
	}
	return notes
}

// threadsOf returns the threads of a process; none if it has ended, even if another process has its
// number now.
func threadsOf(h *host.Host, process host.TaskID) (ids []host.TaskID) {
	if now, err := h.Sched.Task(process.TID); err != nil || now.TaskID != process {
		return nil
	}
	list, _ := h.Files.ReadDir(fmt.Sprintf("/proc/%d/task", process.TID))
	for _, d := range list {
		tid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if t, err := h.Sched.Task(tid); err == nil && !t.Zombie {
			ids = append(ids, t.TaskID)
		}
	}
	slices.SortFunc(ids, func(a, b host.TaskID) int { return a.TID - b.TID })
	return ids
}

// runnable is how long a thread ran and waited for a CPU since it started, in nanoseconds.
type runnable struct{ ran, waited float64 }

// runnableTimes returns the times of each thread of a process.
func runnableTimes(h *host.Host, process host.TaskID) map[host.TaskID]runnable {
	all := map[host.TaskID]runnable{}
	for _, id := range threadsOf(h, process) {
		f := strings.Fields(h.File(fmt.Sprintf("/proc/%d/task/%d/schedstat", process.TID, id.TID)).Text)
		if len(f) == 3 {
			ran, _ := strconv.ParseFloat(f[0], 64)
			waited, _ := strconv.ParseFloat(f[1], 64)
			all[id] = runnable{ran, waited}
		}
	}
	return all
}

// waitPercent returns the share of their runnable time in which the threads in after have waited for
// a CPU since before: 0 to 100, and 0 if that is less than 0.1 s, which is too little to judge by. Each
// thread counts by the time for which it ran, because a runtime's helper thread that wakes up often
// waits long and does little. A thread that has ended meanwhile does not count.
func waitPercent(before, after map[host.TaskID]runnable) float64 {
	ran, waited, share := 0.0, 0.0, 0.0
	for id, now := range after {
		r, w := now.ran-before[id].ran, now.waited-before[id].waited
		if r+w > 0 {
			ran, waited, share = ran+r, waited+w, share+r*w/(r+w)
		}
	}
	switch {
	case ran+waited < 1e8:
		return 0
	case ran == 0: // none of them got a CPU
		return 100
	}
	return 100 * share / ran
}
