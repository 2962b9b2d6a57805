package placement

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// View is the JSON form of fettle numa show.
type View struct {
	Schema   string      `json:"schema"` // fettle/numa/v1
	Headline ui.Headline `json:"headline"`
	Nodes    []Node      `json:"nodes"`
	// Balancing is kernel.numa_balancing: 0 off, 1 on, 2 memory tiering.
	Balancing fact.Fact[int64] `json:"balancing"`
	// HintFaultsPerS is the rate of page faults caused by NUMA balancing, averaged since boot.
	// HintFaultsLocalPercent is the share of faults on pages of the CPU's own node.
	HintFaultsPerS         fact.Fact[float64] `json:"hint_faults_per_s"`
	HintFaultsLocalPercent fact.Fact[float64] `json:"hint_faults_local_percent"`
	Devices                []Device           `json:"devices"`
	// Unknown lists the values that could not be read, with reasons.
	Unknown []string `json:"unknown"`
}

// Node is one NUMA node.
type Node struct {
	Number int `json:"node"`
	// Kind is "memory only", "CPUs only", "CXL memory", "empty", or "" for a node with both.
	Kind        string            `json:"kind"`
	CPUs        fact.Fact[string] `json:"cpus"`
	MemoryBytes fact.Fact[int64]  `json:"memory_bytes"`
	FreeBytes   fact.Fact[int64]  `json:"free_bytes"`
	// CacheBytes is the page cache with shared memory. ReclaimableBytes is the part of the
	// node's memory that the kernel frees without writing to swap: inactive files and
	// reclaimable slab.
	CacheBytes       fact.Fact[int64] `json:"cache_bytes"`
	ReclaimableBytes fact.Fact[int64] `json:"reclaimable_bytes"`
	AnonBytes        fact.Fact[int64] `json:"anon_bytes"`
	SlabBytes        fact.Fact[int64] `json:"slab_bytes"`
	// Distances lists the distances to all nodes in order; 10 is local.
	Distances fact.Fact[[]int64] `json:"distances"`
	HugePages []HugePages        `json:"huge_pages"`
	// MissPercent is the share of allocations on this node that were intended for another
	// one, since boot.
	MissPercent fact.Fact[float64] `json:"miss_percent"`
	// RemotePercent is the share of allocations on this node for CPUs of other nodes, since
	// boot.
	RemotePercent fact.Fact[float64] `json:"remote_percent"`
}

// HugePages is the pool of one page size on one node, in pages.
type HugePages struct {
	SizeBytes fact.Fact[int64] `json:"size_bytes"`
	Total     fact.Fact[int64] `json:"total"`
	Free      fact.Fact[int64] `json:"free"`
}

// Read reads the nodes of a machine, and the devices and interrupts near them.
func Read(h *host.Host) *View {
	f, tables := fact.CollectNodes(h, "disk", "net")
	v := newView(h, f, tables)
	v.Devices = append(v.Devices, devices(h, f, v.cpus())...)
	v.Headline = v.summarize()
	return v
}

// ReadNodes reads the nodes without devices, interrupts and headline.
func ReadNodes(h *host.Host) *View {
	f, tables := fact.CollectNodes(h)
	return newView(h, f, tables)
}

func newView(h *host.Host, f *fact.Facts, tables []fact.NodeTable) *View {
	v := &View{Schema: "fettle/numa/v1", Nodes: []Node{}, Balancing: f.NUMA.Balancing, Devices: []Device{}, Unknown: []string{}}
	if _, ok := f.NUMA.Node.Len(); !ok {
		v.Unknown = append(v.Unknown, f.NUMA.Node.Unknown())
	}
	cxl := cxlNodes(h)
	for _, t := range tables {
		v.Nodes = append(v.Nodes, newNode(f, &t, cxl[t.Number]))
	}
	v.readHintFaults(h)
	v.listUnknown()
	return v
}

// cpus returns the CPUs of each node for which they are known.
func (v *View) cpus() map[int]unit.CPUSet {
	cpus := map[int]unit.CPUSet{}
	for _, n := range v.Nodes {
		if set, err := unit.ParseCPUList(n.CPUs.Or("")); err == nil {
			cpus[n.Number] = set
		}
	}
	return cpus
}

// listUnknown adds why values of the nodes are unknown, each reason once.
func (v *View) listUnknown() {
	add := func(why string) {
		if why != "" && !slices.Contains(v.Unknown, why) {
			v.Unknown = append(v.Unknown, why)
		}
	}
	for _, n := range v.Nodes {
		for _, f := range []fact.Fact[int64]{n.MemoryBytes, n.FreeBytes, n.CacheBytes, n.ReclaimableBytes, n.AnonBytes, n.SlabBytes} {
			add(f.Unknown())
		}
		add(n.CPUs.Unknown())
		add(n.Distances.Unknown())
		add(n.MissPercent.Unknown())
		for _, p := range n.HugePages {
			add(p.Total.Unknown())
			add(p.Free.Unknown())
		}
	}
	add(v.Balancing.Unknown())
	add(v.HintFaultsPerS.Unknown())
}

func newNode(f *fact.Facts, t *fact.NodeTable, cxl bool) Node {
	name := "node" + strconv.Itoa(t.Number)
	known := f.NUMA.Node.Get(name)
	n := Node{
		Number: t.Number, CPUs: known.CPUList, MemoryBytes: known.TotalBytes, FreeBytes: known.FreeBytes, Distances: known.Distance,
		CacheBytes: t.Memory("FilePages"), AnonBytes: t.Memory("AnonPages"), SlabBytes: t.Memory("Slab"),
		ReclaimableBytes: sum(t.Memory("Inactive(file)"), t.Memory("SReclaimable")),
		MissPercent:      share(t.Allocated("numa_miss"), t.Allocated("numa_hit")),
		RemotePercent:    share(t.Allocated("other_node"), t.Allocated("local_node")),
		HugePages:        []HugePages{},
	}
	noCPUs, noMemory := fact.Is(n.CPUs, ""), fact.Is(n.MemoryBytes, 0)
	switch {
	case cxl:
		n.Kind = "CXL memory"
	case noCPUs && noMemory:
		n.Kind = "empty"
	case noCPUs:
		n.Kind = "memory only"
	case noMemory:
		n.Kind = "CPUs only"
	}
	for _, size := range f.Memory.HugePages.Names() {
		pool := f.Memory.HugePages.Get(size)
		if part := pool.Node.Get(name); part != nil {
			n.HugePages = append(n.HugePages, HugePages{pool.SizeBytes, part.Total, part.Free})
		}
	}
	return n
}

// sum adds two facts; it is unknown or absent if one of them is.
func sum(a, b fact.Fact[int64]) fact.Fact[int64] {
	x, ok := a.Get()
	y, ok2 := b.Get()
	switch {
	case !ok:
		return a
	case !ok2:
		return b
	}
	return fact.Known(x+y, a.Source())
}

// share returns a as a percentage of a and b. Without events it is absent.
func share(a, b fact.Fact[int64]) fact.Fact[float64] {
	both := sum(a, b)
	total, ok := both.Get()
	switch {
	case !ok && both.Unknown() != "":
		return fact.Unknown[float64](both.Source(), both.Unknown())
	case total <= 0:
		return fact.Absent[float64](both.Source())
	}
	return fact.Known(100*float64(a.Or(0))/float64(total), both.Source())
}

// readHintFaults reads the counters of NUMA balancing (numa_hint_faults in /proc/vmstat).
func (v *View) readHintFaults(h *host.Host) {
	const vmstat, uptimeFile = "/proc/vmstat", "/proc/uptime"
	file := h.File(vmstat)
	counters, _ := activity.ParseKeyed(file.Text)
	all, has := counters["numa_hint_faults"]
	first, _, _ := strings.Cut(h.File(uptimeFile).Text, " ")
	uptime, err := strconv.ParseFloat(first, 64)
	switch {
	case !file.Exists && file.Unknown != "":
		v.HintFaultsPerS = fact.Unknown[float64](vmstat, file.Unknown)
	case !has:
		v.HintFaultsPerS = fact.Absent[float64](vmstat)
	case err != nil || uptime <= 0:
		v.HintFaultsPerS = fact.Unknown[float64](vmstat, cmp.Or(h.File(uptimeFile).Unknown, uptimeFile+" is not a time"))
	default:
		v.HintFaultsPerS = fact.Known(all/uptime, vmstat)
	}
	v.HintFaultsLocalPercent = fact.Absent[float64](vmstat)
	if all > 0 {
		v.HintFaultsLocalPercent = fact.Known(100*counters["numa_hint_faults_local"]/all, vmstat)
	}
}

// cxlNodes returns the nodes whose memory is attached by CXL: the target_node of DAX devices in a
// CXL region (Documentation/ABI/testing/sysfs-bus-dax).
func cxlNodes(h *host.Host) map[int]bool {
	const dir = "/sys/bus/dax/devices"
	out := map[int]bool{}
	list, err := h.Files.ReadDir(dir)
	if err != nil {
		return out
	}
	for _, d := range list {
		to, err := h.Files.Resolve(dir + "/" + d.Name())
		if err != nil || !strings.Contains(to, "/region") {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(h.File(to + "/target_node").Text)); err == nil {
			out[n] = true
		}
	}
	return out
}
