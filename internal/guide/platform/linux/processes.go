package linux

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// processes provides the largest processes of a machine with several NUMA nodes, and the location
// of their memory (proc_pid_numa_maps(5), summed as by numastat -p).
var processes = platform.Source{
	Prefix: "processes",
	Sets:   []string{"processes"},
	Inputs: inputs("processes",
		fact.Input{Name: "*.resident_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory on all nodes"},
		fact.Input{Name: "*.local_percent", Type: fact.Number, Unit: "%", Doc: "share of the memory on the nodes of the CPUs that the process may use; for a process that may use all nodes, on the node with most of its memory"},
		fact.Input{Name: "*.node_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory of the smallest node"},
		fact.Input{Name: "*.nodes", Type: fact.Text, Doc: "nodes with its memory, such as 0-3"},
		fact.Input{Name: "*.room", Type: fact.Text, Doc: "the node with the most free memory, in words"},
		fact.Input{Name: "*.bound", Type: fact.Truth, Doc: "whether the process may use only some of the nodes"},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		nodes, smallest, room, why := numaNodes(s)
		if why != "" || len(nodes) < 2 {
			t.Rest(why)
			return t
		}
		big, why := bigProcesses(s.Host, smallest)
		if why != "" {
			t.Rest(why)
			return t
		}
		for _, p := range big {
			p.give(s.Host, t, nodes, smallest, room)
		}
		return t
	},
}

// maxBig is the maximum number of inspected processes, leastBig their minimum size: the kernel
// walks a process's page tables to locate its memory.
const (
	maxBig   = 8
	leastBig = 1 << 30 // bytes; smaller processes gain little
)

// numaNodes returns the CPUs per node, the memory of the smallest node that has memory, and the node
// with the most free memory in words; or the reason why they are unknown.
func numaNodes(s *platform.Subject) (nodes map[int]unit.CPUSet, smallest float64, room, why string) {
	names, unknown := s.Items("numa.node")
	if unknown != "" {
		return nil, 0, "", unknown
	}
	room, most := "free memory unknown", 0.0
	nodes = map[int]unit.CPUSet{}
	for _, name := range names {
		number, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
		list, _ := s.Answer("numa.node." + name + ".cpu_list").Value.(string)
		cpus, err2 := unit.ParseCPUList(list)
		if err != nil || err2 != nil {
			continue
		}
		nodes[number] = cpus
		if total, ok := s.Answer("numa.node." + name + ".total_bytes").Value.(float64); ok && total > 0 && (smallest == 0 || total < smallest) {
			smallest = total
		}
		if free, ok := s.Answer("numa.node." + name + ".free_bytes").Value.(float64); ok && free > most {
			room, most = fmt.Sprintf("node %d has %s free", number, unit.Size(free).Human()), free
		}
	}
	return nodes, smallest, room, ""
}

type process struct {
	pid      int
	name     string
	resident float64 // bytes
}

// bigProcesses returns the largest processes by resident memory.
func bigProcesses(h *host.Host, node float64) (big []process, why string) {
	all, err := h.PIDs()
	if err != nil {
		return nil, unlisted(err)
	}
	any := false
	least := max(leastBig, node/20)
	for _, pid := range all {
		text, _, ok := read(h, fmt.Sprintf("/proc/%d/status", pid))
		if !ok {
			continue // process has ended
		}
		any = true
		status := host.StatusFields(text)
		rss, _, _ := strings.Cut(status["VmRSS"], " ")
		if kb, ok := number(rss); ok && kb*1024 >= least {
			big = append(big, process{pid, status["Name"], kb * 1024})
		}
	}
	if !any {
		return nil, "this copy contains no processes (/proc)"
	}
	slices.SortFunc(big, func(a, b process) int { return cmp.Compare(b.resident, a.resident) })
	return big[:min(len(big), maxBig)], ""
}

// give adds the answers to all inputs about the process, unless it has ended.
func (p process) give(h *host.Host, t *platform.Known, nodes map[int]unit.CPUSet, smallest float64, room string) {
	item := fmt.Sprintf("%s[%d]", path.Base("/"+p.name), p.pid)
	dir := fmt.Sprintf("/proc/%d/", p.pid)
	file := dir + "numa_maps"
	text, why, ok := read(h, file)
	if !ok && why.Unknown == "" {
		return
	}
	t.Add("processes", item)
	in := "processes." + item + "."
	t.Give(in+"resident_bytes", p.resident, dir+"status")
	t.Give(in+"node_bytes", smallest, "numa.node")
	t.Give(in+"room", room, "numa.node")
	if !ok {
		t.Put(why, in+"local_percent", in+"bound", in+"nodes")
		return
	}
	status, _, _ := read(h, dir+"status")
	allowed, err := unit.ParseCPUList(host.StatusFields(status)["Cpus_allowed_list"])
	if err != nil || allowed.IsEmpty() {
		why := fact.Answer{Unknown: dir + "status does not list the CPUs that the process may use"}
		t.Put(why, in+"local_percent", in+"bound", in+"nodes")
		return
	}
	memory := parseNumaMaps(text, int64(h.PageSize()))
	share, bound := localShare(memory, nodes, allowed)
	t.Give(in+"local_percent", share, file)
	t.Give(in+"bound", bound, file)
	maps.DeleteFunc(memory, func(_ int, bytes float64) bool { return bytes == 0 })
	t.Give(in+"nodes", unit.CPUs(slices.Collect(maps.Keys(memory))...).String(), file)
}

// localShare returns the percentage of memory on nodes where the process may run.
func localShare(bytes map[int]float64, nodes map[int]unit.CPUSet, allowed unit.CPUSet) (percent float64, bound bool) {
	total, most, near := 0.0, 0.0, 0.0
	for _, cpus := range nodes {
		if cpus.Len() > 0 && !overlap(cpus, allowed) {
			bound = true
		}
	}
	for node, b := range bytes {
		total += b
		most = max(most, b)
		if overlap(nodes[node], allowed) {
			near += b
		}
	}
	switch {
	case total == 0:
		return 100, bound
	case bound:
		return near / total * 100, true
	}
	return most / total * 100, false
}

func overlap(a, b unit.CPUSet) bool { return !a.Intersect(b).IsEmpty() }

// parseNumaMaps sums the bytes on each node.
func parseNumaMaps(text string, pageSize int64) map[int]float64 {
	out := map[int]float64{}
	fact.ParseNumaMaps(text, pageSize, func(m *fact.NumaMapping) {
		for _, n := range m.Nodes {
			out[n.Node] += float64(n.Pages) * float64(m.PageBytes)
		}
	})
	return out
}
