package balance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/placement"
	"fettle.dev/fettle/internal/unit"
)

// spreadOn returns the memory of the process by node after its move: what is on the nodes stays, and
// the rest is spread over them in proportion to their free memory.
func spreadOn(w *placement.Workload, p *placement.WorkloadProcess, nodes unit.CPUSet) cpu.Spread {
	free, all := map[int]int64{}, int64(0)
	for _, r := range w.Rooms {
		if nodes.Has(r.Node) {
			free[r.Node] = int64(max(r.FreeMB, 1))
			all += free[r.Node]
		}
	}
	away := float64(p.Elsewhere(nodes))
	to := cpu.Spread{}
	for n, mb := range free {
		to[n] = int64(away * float64(mb) / float64(all))
	}
	for _, s := range p.Memory.Nodes {
		if nodes.Has(s.Node) {
			to[s.Node] += s.Bytes
		}
	}
	return to
}

// occupy changes the rooms to what they are after the process has moved to the nodes.
func occupy(w *placement.Workload, p *placement.WorkloadProcess, nodes unit.CPUSet, to cpu.Spread) {
	was := map[int]placement.NodeShare{}
	for _, s := range p.Memory.Nodes {
		was[s.Node] = s
	}
	for i := range w.Rooms {
		r := &w.Rooms[i]
		s := was[r.Node]
		r.FreeMB = min(r.FreeMB+int((s.Bytes-to[r.Node])>>20), r.TotalMB)
		r.FreeCPU += int(float64(p.CPU) * s.CPUPercent / 100)
		if nodes.Has(r.Node) {
			r.FreeCPU -= p.CPU / nodes.Len()
		}
		r.FreeCPU = min(r.FreeCPU, r.TotalCPU) // below 0: more is wanted than the node has
	}
}

// Limits of the brake.
const (
	mostPressure = 10       // percent of the last 10 s in which a task waited for memory
	leastFree    = 64 << 20 // bytes on a node that receives pages: free, or inactive page cache
)

// brake returns why no more pages should be moved to the nodes, or "".
func brake(h *host.Host, nodes unit.CPUSet) string {
	if share, ok := memoryPressure(h); ok && share > mostPressure {
		return fmt.Sprintf("stopped by memory pressure: %s %% of the last 10 s, limit %d %%", unit.Digits(share), mostPressure)
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

// memoryPressure returns the share of the last 10 s in which a task waited for memory, in percent. ok
// is false where the kernel does not measure it.
func memoryPressure(h *host.Host) (share float64, ok bool) {
	_, rest, _ := strings.Cut(h.File("/proc/pressure/memory").Text, "avg10=")
	word, _, _ := strings.Cut(rest, " ")
	share, err := strconv.ParseFloat(word, 64)
	return share, err == nil
}

// notesOf returns which limits of the moves this machine lacks.
func notesOf(h *host.Host) (notes []string) {
	if _, ok := memoryPressure(h); !ok {
		notes = append(notes, "memory pressure unknown (no /proc/pressure/memory; it needs psi=1): only a full node stops the moves")
	}
	return notes
}

// threadsOf returns the threads of a process; none if it has ended, also if its number is in use
// again.
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
// a CPU since before: 0 to 100, and 0 if that is less than 0.1 s, which is too little to judge by. A
// thread that has ended meanwhile does not count.
func waitPercent(before, after map[host.TaskID]runnable) float64 {
	ran, waited := 0.0, 0.0
	for id, now := range after {
		ran += now.ran - before[id].ran
		waited += now.waited - before[id].waited
	}
	if ran+waited < 1e8 {
		return 0
	}
	return 100 * waited / (ran + waited)
}
