package fact

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Memory is RAM, pages and swap. Sources: /proc/meminfo
// (Documentation/filesystems/proc.rst), /sys/kernel/mm/hugepages and
// /sys/kernel/mm/transparent_hugepage (Documentation/admin-guide/mm).
type Memory struct {
	TotalBytes       Fact[int64]     `json:"total_bytes"`
	AvailableBytes   Fact[int64]     `json:"available_bytes"`
	FreeBytes        Fact[int64]     `json:"free_bytes"`
	CachedBytes      Fact[int64]     `json:"cached_bytes"`
	DirtyBytes       Fact[int64]     `json:"dirty_bytes"`
	SlabBytes        Fact[int64]     `json:"slab_bytes"`
	PageTableBytes   Fact[int64]     `json:"page_table_bytes"`
	CommittedBytes   Fact[int64]     `json:"committed_bytes"`
	CommitLimitBytes Fact[int64]     `json:"commit_limit_bytes"`
	AnonHugeBytes    Fact[int64]     `json:"anon_huge_bytes"`
	HugeTLBBytes     Fact[int64]     `json:"hugetlb_bytes"`
	SwapTotalBytes   Fact[int64]     `json:"swap_total_bytes"`
	SwapFreeBytes    Fact[int64]     `json:"swap_free_bytes"`
	Swap             Set[Swap]       `json:"swap"`
	Zswap            Fact[bool]      `json:"zswap"`
	HugePageDefault  Fact[int64]     `json:"huge_page_default_bytes"`
	HugePages        Set[HugePages]  `json:"huge_pages"`
	THP              TransparentHuge `json:"transparent_huge_pages"`
	KSM              Fact[bool]      `json:"ksm"`
}

// Swap is one swap area by its path.
type Swap struct {
	Kind      Fact[string] `json:"kind"` // partition or file
	SizeBytes Fact[int64]  `json:"size_bytes"`
	UsedBytes Fact[int64]  `json:"used_bytes"`
	Priority  Fact[int64]  `json:"priority"`
}

// HugePages is the pool of one size of page ("2048kB", "1048576kB"); counts
// are pages.
type HugePages struct {
	SizeBytes  Fact[int64]         `json:"size_bytes"`
	Total      Fact[int64]         `json:"total"`
	Free       Fact[int64]         `json:"free"`
	Reserved   Fact[int64]         `json:"reserved"`
	Surplus    Fact[int64]         `json:"surplus"`
	Overcommit Fact[int64]         `json:"overcommit"`
	Node       Set[NodeOfHugePage] `json:"node"`
}

// NodeOfHugePage is a pool's share on one NUMA node.
type NodeOfHugePage struct {
	Total Fact[int64] `json:"total"`
	Free  Fact[int64] `json:"free"`
}

// TransparentHuge is transparent huge pages.
type TransparentHuge struct {
	Enabled    Fact[string] `json:"enabled"` // always, madvise, never
	Defrag     Fact[string] `json:"defrag"`
	Shmem      Fact[string] `json:"shmem"`
	ZeroPage   Fact[bool]   `json:"zero_page"`
	SizeBytes  Fact[int64]  `json:"size_bytes"`
	Khugepaged Khugepaged   `json:"khugepaged"`
}

// Khugepaged is the kernel thread that collapses pages into huge ones.
type Khugepaged struct {
	Defrag       Fact[bool]    `json:"defrag"`
	PagesToScan  Fact[int64]   `json:"pages_to_scan"`
	ScanSleepS   Fact[float64] `json:"scan_sleep_s"`
	AllocSleepS  Fact[float64] `json:"alloc_sleep_s"`
	MaxEmptyPTEs Fact[int64]   `json:"max_ptes_none"`
}

const thpDir = "/sys/kernel/mm/transparent_hugepage/"

func collectMemory(r *reader, f *Facts) {
	m := &f.Memory
	text, n := r.text("/proc/meminfo")
	info := meminfo(text, "")
	for _, line := range []struct {
		key  string
		fact *Fact[int64]
	}{
		{"MemTotal", &m.TotalBytes}, {"MemAvailable", &m.AvailableBytes}, {"MemFree", &m.FreeBytes},
		{"Cached", &m.CachedBytes}, {"Dirty", &m.DirtyBytes}, {"Slab", &m.SlabBytes},
		{"PageTables", &m.PageTableBytes}, {"Committed_AS", &m.CommittedBytes}, {"CommitLimit", &m.CommitLimitBytes},
		{"AnonHugePages", &m.AnonHugeBytes}, {"Hugetlb", &m.HugeTLBBytes},
		{"SwapTotal", &m.SwapTotalBytes}, {"SwapFree", &m.SwapFreeBytes}, {"Hugepagesize", &m.HugePageDefault},
	} {
		*line.fact = fromTable(n, info, line.key)
	}
	m.Swap = swaps(r)
	m.Zswap = r.flag("/sys/module/zswap/parameters/enabled")
	m.HugePages = hugePages(r, n, info)
	m.THP = TransparentHuge{
		Enabled: r.chosen(thpDir + "enabled"), Defrag: r.chosen(thpDir + "defrag"), Shmem: r.chosen(thpDir + "shmem_enabled"),
		ZeroPage: r.flag(thpDir + "use_zero_page"), SizeBytes: r.int(thpDir + "hpage_pmd_size"),
		Khugepaged: Khugepaged{
			Defrag: r.flag(thpDir + "khugepaged/defrag"), PagesToScan: r.int(thpDir + "khugepaged/pages_to_scan"),
			ScanSleepS:   milliseconds(r.int(thpDir + "khugepaged/scan_sleep_millisecs")),
			AllocSleepS:  milliseconds(r.int(thpDir + "khugepaged/alloc_sleep_millisecs")),
			MaxEmptyPTEs: r.int(thpDir + "khugepaged/max_ptes_none"),
		},
	}
	m.KSM = convert(r.int("/sys/kernel/mm/ksm/run"), func(run int64) bool { return run == 1 })
}

func milliseconds(f Fact[int64]) Fact[float64] {
	return convert(f, func(ms int64) float64 { return float64(ms) / 1e3 })
}

// meminfo parses /proc/meminfo, or a node's with the words before the key
// given; values in kB become bytes.
func meminfo(text, before string) map[string]int64 {
	values := map[string]int64{}
	for line := range strings.Lines(text) {
		key, rest, ok := strings.Cut(strings.TrimPrefix(line, before), ":")
		words := strings.Fields(rest)
		if !ok || len(words) == 0 {
			continue
		}
		v, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil || v < 0 || v > 1<<52 {
			continue
		}
		if len(words) > 1 && words[1] == "kB" {
			v *= 1024
		}
		values[key] = v
	}
	return values
}

func fromTable(n note, values map[string]int64, key string) Fact[int64] {
	if !n.known() {
		return Fact[int64]{note: n}
	}
	if v, ok := values[key]; ok {
		return Known(v, n.source)
	}
	return Absent[int64](n.source)
}

func swaps(r *reader) Set[Swap] {
	const source = "/proc/swaps"
	var set Set[Swap]
	text, n := r.text(source)
	set.note = n
	for i, line := range strings.Split(text, "\n") {
		w := strings.Fields(line)
		if i == 0 || len(w) != 5 {
			continue
		}
		s := set.add(unescapeMount(w[0]))
		s.Kind = Known(w[1], source)
		for _, c := range []struct {
			fact  *Fact[int64]
			word  string
			scale int64
		}{{&s.SizeBytes, w[2], 1024}, {&s.UsedBytes, w[3], 1024}, {&s.Priority, w[4], 1}} {
			if v, err := strconv.ParseInt(c.word, 10, 64); err == nil {
				*c.fact = Known(v*c.scale, source)
			} else {
				*c.fact = Unknown[int64](source, fmt.Sprintf("%s: cannot read %.40q", source, c.word))
			}
		}
	}
	return set
}

func hugePages(r *reader, mn note, info map[string]int64) Set[HugePages] {
	const dir = "/sys/kernel/mm/hugepages"
	var set Set[HugePages]
	names, n := r.dir(dir)
	set.note = n
	if n.unknown != "" && mn.known() && info["Hugepagesize"] > 0 {
		// A copy without sysfs: /proc/meminfo has the default size.
		set.note = note{source: mn.source}
		p := set.add(fmt.Sprintf("%dkB", info["Hugepagesize"]/1024))
		p.SizeBytes = fromTable(mn, info, "Hugepagesize")
		p.Total, p.Free = fromTable(mn, info, "HugePages_Total"), fromTable(mn, info, "HugePages_Free")
		p.Reserved, p.Surplus = fromTable(mn, info, "HugePages_Rsvd"), fromTable(mn, info, "HugePages_Surp")
		p.Overcommit = Fact[int64]{note: n}
		p.Node.note = n
		return set
	}
	for _, name := range names {
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(name, "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue
		}
		p := set.add(strings.TrimPrefix(name, "hugepages-"))
		at := dir + "/" + name + "/"
		p.SizeBytes = Known(kb*1024, dir+"/"+name)
		p.Total, p.Free = r.int(at+"nr_hugepages"), r.int(at+"free_hugepages")
		p.Reserved, p.Surplus = r.int(at+"resv_hugepages"), r.int(at+"surplus_hugepages")
		p.Overcommit = r.int(at + "nr_overcommit_hugepages")
		nodes, nn := r.dir(nodeDir)
		p.Node.note = nn
		for _, node := range numbered(nodes, "node") {
			share := p.Node.add(node)
			share.Total = r.int(nodeDir + "/" + node + "/hugepages/" + name + "/nr_hugepages")
			share.Free = r.int(nodeDir + "/" + node + "/hugepages/" + name + "/free_hugepages")
		}
	}
	return set
}

// NUMA is memory's distance from CPUs
// (Documentation/ABI/stable/sysfs-devices-node).
type NUMA struct {
	Count Fact[int64] `json:"count"`
	Node  Set[Node]   `json:"node"`
	// Balancing is kernel.numa_balancing: 0 off, 1 on, 2 memory tiering.
	Balancing       Fact[int64] `json:"balancing"`
	ZoneReclaimMode Fact[int64] `json:"zone_reclaim_mode"`
}

// Node is one NUMA node.
type Node struct {
	CPUList    Fact[string] `json:"cpu_list"`
	TotalBytes Fact[int64]  `json:"total_bytes"`
	FreeBytes  Fact[int64]  `json:"free_bytes"`
	// Distance is to each node in their order; 10 is local (ACPI SLIT).
	Distance Fact[[]int64] `json:"distance"`
}

const nodeDir = "/sys/devices/system/node"

func collectNUMA(r *reader, f *Facts) {
	names, n := r.dir(nodeDir)
	set := &f.NUMA.Node
	set.note = n
	for _, name := range numbered(names, "node") {
		dir := nodeDir + "/" + name + "/"
		node := set.add(name)
		node.CPUList = r.list(dir + "cpulist")
		text, mn := r.text(dir + "meminfo")
		info := meminfo(text, "Node "+strings.TrimPrefix(name, "node")+" ")
		node.TotalBytes, node.FreeBytes = fromTable(mn, info, "MemTotal"), fromTable(mn, info, "MemFree")
		node.Distance = parsed(r, dir+"distance", func(s string) ([]int64, error) {
			all := []int64{}
			for w := range strings.FieldsSeq(s) {
				d, err := strconv.ParseInt(w, 10, 64)
				if err != nil {
					return nil, err
				}
				all = append(all, d)
			}
			return slices.Clip(all), nil
		})
	}
	f.NUMA.Count = same(n, int64(len(set.items)))
	f.NUMA.Balancing = r.int("/proc/sys/kernel/numa_balancing")
	f.NUMA.ZoneReclaimMode = r.int("/proc/sys/vm/zone_reclaim_mode")
}
