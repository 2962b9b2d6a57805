package linux

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// processes has the big processes of a machine with several NUMA nodes, and
// where their memory is (proc_pid_numa_maps(5), as numastat -p adds it up).
var processes = platform.Source{
	Prefix: "processes",
	Sets:   []string{"processes"},
	Inputs: inputs("processes",
		fact.Input{Name: "*.resident_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory on all nodes"},
		fact.Input{Name: "*.local_percent", Type: fact.Number, Unit: "%", Doc: "share of it on the nodes of the CPUs that the process may use; where it may use those of every node, on the node that has most"},
		fact.Input{Name: "*.node_bytes", Type: fact.Number, Unit: "bytes", Doc: "memory of the smallest node"},
		fact.Input{Name: "*.bound", Type: fact.Truth, Doc: "it may not use the CPUs of every node"},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		nodes, smallest, why := numaNodes(s)
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
			p.give(s.Host, t, nodes, smallest)
		}
		return t
	},
}

// maxBig and leastBig bound the processes that are looked at: to read where the
// memory of one is, the kernel walks its page tables.
const (
	maxBig   = 8
	leastBig = 1 << 30 // bytes; a process below has little to gain
)

// numaNodes are the CPUs of each node, and the memory of the smallest that has
// any. why says why that is not known.
func numaNodes(s *platform.Subject) (nodes map[int]unit.CPUSet, smallest float64, why string) {
	names, unknown := s.Items("numa.node")
	if unknown != "" {
		return nil, 0, unknown
	}
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
	}
	return nodes, smallest, ""
}

// process is one big process.
type process struct {
	pid      string
	name     string
	resident float64 // bytes
}

// bigProcesses are the largest, by the memory that is resident.
func bigProcesses(h *host.Host, node float64) (big []process, why string) {
	entries, err := h.Files.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Sprintf("/proc cannot be listed: %v", err)
	}
	any := false
	least := max(leastBig, node/20)
	for _, e := range entries {
		pid := e.Name()
		if strings.Trim(pid, "0123456789") != "" {
			continue
		}
		text, _, ok := read(h, "/proc/"+pid+"/status")
		if !ok {
			continue // it has ended
		}
		any = true
		status := parseStatus(text)
		rss, _, _ := strings.Cut(status["VmRSS"], " ")
		if kb, ok := number(rss); ok && kb*1024 >= least {
			big = append(big, process{pid, status["Name"], kb * 1024})
		}
	}
	if !any {
		return nil, "/proc has no processes in this copy"
	}
	slices.SortFunc(big, func(a, b process) int { return cmp.Compare(b.resident, a.resident) })
	return big[:min(len(big), maxBig)], ""
}

// parseStatus reads lines of "Key:\tvalue".
func parseStatus(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			out[k] = strings.TrimSpace(v)
		}
	}
	return out
}

// give answers for the process; one that has ended meanwhile is left out.
func (p process) give(h *host.Host, t *platform.Known, nodes map[int]unit.CPUSet, smallest float64) {
	item := fmt.Sprintf("%s[%s]", path.Base("/"+p.name), p.pid)
	file := "/proc/" + p.pid + "/numa_maps"
	text, why, ok := read(h, file)
	if !ok && why.Unknown == "" {
		return
	}
	t.Add("processes", item)
	in := "processes." + item + "."
	t.Give(in+"resident_bytes", p.resident, "/proc/"+p.pid+"/status")
	t.Give(in+"node_bytes", smallest, "numa.node")
	if !ok {
		t.Put(why, in+"local_percent", in+"bound")
		return
	}
	status, _, _ := read(h, "/proc/"+p.pid+"/status")
	allowed, err := unit.ParseCPUList(parseStatus(status)["Cpus_allowed_list"])
	if err != nil || allowed.IsEmpty() {
		why := fact.Answer{Unknown: "/proc/" + p.pid + "/status does not say which CPUs it may use"}
		t.Put(why, in+"local_percent", in+"bound")
		return
	}
	share, bound := localShare(parseNumaMaps(text), nodes, allowed)
	t.Give(in+"local_percent", share, file)
	t.Give(in+"bound", bound, file)
}

// localShare is how much of the memory is where the process runs, in percent.
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

// parseNumaMaps adds up the bytes on each node: "N0=12 N1=3 kernelpagesize_kB=4".
// A line without a size of page is of 4 KiB ones.
func parseNumaMaps(text string) map[int]float64 {
	out := map[int]float64{}
	for line := range strings.Lines(text) {
		pages := map[int]float64{}
		size := 4.0
		for word := range strings.FieldsSeq(line) {
			key, value, ok := strings.Cut(word, "=")
			n, isNumber := number(value)
			switch {
			case !ok || !isNumber:
			case key == "kernelpagesize_kB" && n > 0 && n <= 1<<30:
				size = n
			case len(key) > 1 && key[0] == 'N':
				if node, err := strconv.ParseUint(key[1:], 10, 16); err == nil {
					pages[int(node)] += n
				}
			}
		}
		for node, n := range pages {
			out[node] += n * size * 1024
		}
	}
	return out
}
