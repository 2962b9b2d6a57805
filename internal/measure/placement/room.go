package placement

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Advice is the JSON form of fettle numa advise.
type Advice struct {
	Schema   string      `json:"schema"` // fettle/numa-advice/v1
	Headline ui.Headline `json:"headline"`
	// Nodes are the nodes on which the process fits best, as a list ("0-1,3").
	Nodes string `json:"nodes"`
	// Fits is false if the machine has too little free memory or CPU time.
	Fits  bool       `json:"fits"`
	Rooms []NodeRoom `json:"rooms"`
	// Notes lists the assumptions about values that the machine does not report.
	Notes []string `json:"notes"`
}

// NodeRoom is the room of one node in Advice.
type NodeRoom struct {
	Node        int     `json:"node"`
	MemoryBytes int64   `json:"memory_bytes"`
	FreeBytes   int64   `json:"free_bytes"` // free memory and inactive page cache
	CPUs        float64 `json:"cpus"`       // a core's second thread counts as 0.2
	FreeCPUs    float64 `json:"free_cpus"`
	Chosen      bool    `json:"chosen"`
}

// threadValue is the capacity that each thread of a core after the first adds, in hundredths of a
// core: numad's -t.
const threadValue = 20

// Sample is how long Advise observes the CPUs; numad does the same.
const Sample = 2 * time.Second

// Advise observes the machine for the time Sample, and chooses the nodes for a process that needs
// mb MiB and cpu hundredths of a core.
func Advise(ctx context.Context, h *host.Host, mb, cpu int) (*Advice, error) {
	before, err := cpuTimes(h)
	if err != nil {
		return nil, err
	}
	if host.Sleep(ctx, Sample) != nil {
		return nil, context.Cause(ctx)
	}
	after, err := cpuTimes(h)
	if err != nil {
		return nil, err
	}
	rooms, notes, err := Rooms(h, before, after)
	if err != nil {
		return nil, err
	}
	a := advice(rooms, mb, cpu)
	a.Notes = append(a.Notes, notes...)
	return a, nil
}

func cpuTimes(h *host.Host) (map[string]activity.CPUTime, error) {
	text, err := h.Files.ReadFile("/proc/stat")
	if err != nil {
		return nil, err
	}
	times, err := activity.ParseCPUTimes(string(text))
	if err != nil {
		return nil, fmt.Errorf("/proc/stat: %w", err)
	}
	return times, nil
}

// Rooms returns the room on each node as numad counts it: free memory with inactive page cache, and
// the CPU time that was idle between two readings of /proc/stat. notes lists the assumptions.
func Rooms(h *host.Host, before, after map[string]activity.CPUTime) (rooms []Room, notes []string, err error) {
	f, tables := fact.CollectNodes(h)
	if len(tables) == 0 {
		return nil, nil, fmt.Errorf("no NUMA nodes found: %s", f.NUMA.Node.Unknown())
	}
	known := fact.Collect(h, "cpu").CPU.ThreadsPerCore
	threads, ok := known.Get()
	if !ok || threads < 1 {
		threads = 1
		notes = append(notes, "threads per core unknown ("+cmp.Or(known.Unknown(), "not in "+known.Source())+"): each CPU counts as a core")
	}
	for _, t := range tables {
		r, err := newRoom(f.NUMA.Node.Get("node"+strconv.Itoa(t.Number)), &t)
		if err != nil {
			return nil, nil, fmt.Errorf("node %d: %w", t.Number, err)
		}
		r.countCPUs(int(threads), before, after)
		rooms = append(rooms, r.Room)
	}
	for _, r := range rooms {
		if len(r.Distances) != len(rooms) {
			return nil, nil, fmt.Errorf("node %d has %s for %s", r.Node, internaltext.Count(len(r.Distances), "distance"), internaltext.Count(len(rooms), "node"))
		}
	}
	return rooms, notes, nil
}

// roomWithCPUs is a room and the CPUs of its node.
type roomWithCPUs struct {
	Room
	cpus unit.CPUSet
}

// newRoom reads the memory, distances and CPUs of a node.
func newRoom(node *fact.Node, t *fact.NodeTable) (r roomWithCPUs, err error) {
	total, ok := t.Memory("MemTotal").Get()
	free, ok2 := t.Memory("MemFree").Get()
	if !ok || !ok2 {
		return r, fmt.Errorf("memory unknown: %s", cmp.Or(t.Memory("MemTotal").Unknown(), t.Memory("MemFree").Unknown()))
	}
	r.Room = Room{Node: t.Number, TotalMB: int(total >> 20), FreeMB: int(free>>20) + int(t.Memory("Inactive(file)").Or(0)>>20)}
	for _, d := range node.Distance.Or(nil) {
		r.Distances = append(r.Distances, int(d))
	}
	list := node.CPUList.Or("")
	if r.cpus, err = unit.ParseCPUList(list); err != nil || node.CPUList.Unknown() != "" {
		return r, fmt.Errorf("CPUs unknown: %s", cmp.Or(node.CPUList.Unknown(), list))
	}
	return r, nil
}

// countCPUs counts the cores of the node and their idle part. Threads of a core after the first
// count less.
func (r *roomWithCPUs) countCPUs(threads int, before, after map[string]activity.CPUTime) {
	n := r.cpus.Len()
	cores := (n + threads - 1) / threads
	r.TotalCPU = 100*cores + threadValue*(n-cores)
	idle := 0.0
	for _, c := range r.cpus.Numbers() {
		name := "cpu" + strconv.Itoa(c)
		a, b := before[name], after[name]
		if total := b.TotalS() - a.TotalS(); total > 0 {
			idle += (b.IdleS - a.IdleS) / total
		}
	}
	r.FreeCPU = max(int(100*idle)-(100*n-r.TotalCPU), 0)
}

func advice(rooms []Room, mb, cpu int) *Advice {
	nodes := unit.CPUs(Choose(rooms, mb, cpu)...)
	a := &Advice{Schema: "fettle/numa-advice/v1", Nodes: nodes.String(), Rooms: []NodeRoom{}, Notes: []string{}}
	freeMB, freeCPU := 0, 0
	for _, r := range rooms {
		chosen := nodes.Has(r.Node)
		if chosen {
			freeMB, freeCPU = freeMB+r.FreeMB, freeCPU+r.FreeCPU
		}
		a.Rooms = append(a.Rooms, NodeRoom{r.Node, int64(r.TotalMB) << 20, int64(r.FreeMB) << 20, float64(r.TotalCPU) / 100, float64(r.FreeCPU) / 100, chosen})
	}
	a.Fits = freeMB >= mb && freeCPU >= cpu
	h := &a.Headline
	wanted := unit.Digits(float64(cpu)/100) + " CPUs"
	if cpu == 100 {
		wanted = "1 CPU"
	}
	if mb > 0 {
		wanted += " and " + size(mb)
	}
	where, only := "node ", ""
	if nodes.Len() > 1 {
		where = "nodes "
	}
	if !a.Fits {
		only = "only "
	}
	h.Line("%s%s for %s; free there: %s%s CPUs and %s", where, a.Nodes, wanted, only,
		h.Figure("free_cpus", float64(freeCPU)/100, ""), h.Value("free_bytes", float64(int64(freeMB)<<20), size(freeMB)))
	return a
}

func size(mb int) string { return unit.Size(int64(mb) << 20).Human() }

// Print prints the nodes, then the room on each node.
func (a *Advice) Print(s *ui.Screen) {
	ui.PrintHeadline(s, &a.Headline)
	right := func(head string) ui.Column { return ui.Column{Head: head, Right: true} }
	g := &ui.Grid{Columns: []ui.Column{right("node"), right("free memory"), right("memory"), right("free CPUs"), right("CPUs"), {Head: "chosen"}}}
	for _, r := range a.Rooms {
		chosen := "no"
		if r.Chosen {
			chosen = "yes"
		}
		g.Rows = append(g.Rows, []string{strconv.Itoa(r.Node), unit.Size(r.FreeBytes).Human(), unit.Size(r.MemoryBytes).Human(), unit.Digits(r.FreeCPUs), unit.Digits(r.CPUs), chosen})
	}
	fmt.Fprintln(s.Out)
	g.Write(s)
	for _, note := range a.Notes {
		ui.PrintLine(s, "? %s", note)
	}
}

// ParseNeed reads a need as numad -w does: CPUS[:MB], such as 4 or 1.5:8192. MB may also be a size
// with a unit (8GiB). It returns MiB and hundredths of a core.
func ParseNeed(word string) (mb, cpu int, err error) {
	c, m, some := strings.Cut(word, ":")
	cpus, err := strconv.ParseFloat(c, 64)
	if err != nil || !(cpus >= 0 && cpus <= 1e6) {
		return 0, 0, fmt.Errorf("%q: want CPUS[:MB], such as 4:8192 or 4:8GiB", word)
	}
	if some {
		if mb, err = strconv.Atoi(m); err != nil {
			var n unit.Size
			n, err = unit.ParseSize(m)
			mb = int(n >> 20)
		}
		if err != nil || mb < 0 || mb > 1<<40 {
			return 0, 0, fmt.Errorf("%q: want CPUS[:MB], such as 4:8192 or 4:8GiB", word)
		}
	}
	if mb == 0 && cpus < 0.01 {
		return 0, 0, fmt.Errorf("%q: want at least 0.01 CPUs, or memory", word)
	}
	return mb, int(100 * cpus), nil
}
