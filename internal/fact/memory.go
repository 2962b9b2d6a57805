package fact

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// Memory describes RAM, pages and swap. Sources: /proc/meminfo
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
	PageBytes        Fact[int64]     `json:"page_bytes"`
	HugePageDefault  Fact[int64]     `json:"huge_page_default_bytes"`
	HugePages        Set[HugePages]  `json:"huge_pages"`
	THP              TransparentHuge `json:"transparent_huge_pages"`
	KSM              Fact[bool]      `json:"ksm"`
}

// Swap is one swap area, named by its path.
type Swap struct {
	Kind      Fact[string] `json:"kind"` // partition or file
	SizeBytes Fact[int64]  `json:"size_bytes"`
	UsedBytes Fact[int64]  `json:"used_bytes"`
	Priority  Fact[int64]  `json:"priority"`
}

// HugePages describes the pool of one page size ("2048kB", "1048576kB"). Its values are in pages.
type HugePages struct {
	SizeBytes  Fact[int64]         `json:"size_bytes"`
	Total      Fact[int64]         `json:"total"`
	Free       Fact[int64]         `json:"free"`
	Reserved   Fact[int64]         `json:"reserved"`
	Surplus    Fact[int64]         `json:"surplus"`
	Overcommit Fact[int64]         `json:"overcommit"`
	Node       Set[NodeOfHugePage] `json:"node"`
}

// NodeOfHugePage describes the part of a pool on one NUMA node.
type NodeOfHugePage struct {
	Total Fact[int64] `json:"total"`
	Free  Fact[int64] `json:"free"`
}

// TransparentHuge describes transparent huge pages.
type TransparentHuge struct {
	Enabled Fact[string] `json:"enabled"` // always, madvise, never
	// InUse is the strongest mode of all sizes. Since Linux 6.8 each size has its own mode or
	// inherits Enabled.
	InUse Fact[string] `json:"in_use"`
	// OwnSize is the size ("2048kB") with a mode of its own that is InUse and stronger than
	// Enabled. It is absent without such a size.
	OwnSize    Fact[string] `json:"own_size"`
	Defrag     Fact[string] `json:"defrag"`
	Shmem      Fact[string] `json:"shmem"`
	ZeroPage   Fact[bool]   `json:"zero_page"`
	SizeBytes  Fact[int64]  `json:"size_bytes"`
	Khugepaged Khugepaged   `json:"khugepaged"`
}

// Khugepaged describes the kernel thread that collapses pages into huge ones.
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
	info := r.meminfo("/proc/meminfo", "", requiredMeminfo...)
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
		*line.fact = info.get(line.key)
	}
	m.PageBytes = pageSize(r, f)
	m.Swap = swaps(r)
	m.Zswap = r.flag("/sys/module/zswap/parameters/enabled")
	m.HugePages = hugePages(r, info)
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
	m.THP.InUse, m.THP.OwnSize = hugeModes(r, m.THP.Enabled)
	m.KSM = convert(r.int("/sys/kernel/mm/ksm/run"), func(run int64) bool { return run == 1 })
}

// pageSize reads the size of a page. The architectures whose pages have one size reveal it for a
// copied machine too.
func pageSize(r *reader, f *Facts) Fact[int64] {
	if n, source := r.host.KnownPageSize(); n != 0 {
		return Known(n, source)
	}
	switch f.Kernel.Arch.Or("") {
	case "x86_64", "i686", "s390x":
		return Known[int64](4<<10, f.Kernel.Arch.source)
	}
	switch f.CPU.Vendor.Or("") {
	case "GenuineIntel", "AuthenticAMD", "HygonGenuine":
		return Known[int64](4<<10, f.CPU.Vendor.source)
	}
	return Unknown[int64]("/proc/self/auxv", "neither the page size is recorded, nor an architecture that has only one")
}

// hugeModes reads the modes of each size. On kernels with such modes, the global mode applies
// only to sizes that inherit it.
func hugeModes(r *reader, global Fact[string]) (inUse, ownSize Fact[string]) {
	rank := map[string]int{"never": 1, "madvise": 2, "always": 3}
	inUse, ownSize = global, Absent[string](thpDir)
	names, n := r.dir(strings.TrimSuffix(thpDir, "/"))
	switch {
	case global.Unknown() != "":
		return global, Fact[string]{note: global.note}
	case n.unknown != "" && !r.kernelBefore(6, 8):
		return Fact[string]{note: n}, Fact[string]{note: n}
	}
	strongest := 0
	for _, name := range names {
		size, ok := strings.CutPrefix(name, "hugepages-")
		mode := r.chosen(thpDir + name + "/enabled")
		switch {
		case !ok || mode.Absent(): // size for files only
			continue
		case mode.Unknown() != "":
			return mode, mode
		}
		own := !Is(mode, "inherit")
		if !own {
			mode = global
		}
		if n := rank[mode.Or("")]; n > strongest {
			strongest, inUse, ownSize = n, mode, Absent[string](thpDir)
			if own && n > rank[global.Or("")] {
				ownSize = Known(size, thpDir+name+"/enabled")
			}
		}
	}
	return inUse, ownSize
}

func (r *reader) kernelBefore(major, minor int) bool {
	release, _ := r.text("/proc/sys/kernel/osrelease")
	return unit.KernelBefore(release, major, minor)
}

func milliseconds(f Fact[int64]) Fact[float64] {
	return convert(f, func(ms int64) float64 { return float64(ms) / 1e3 })
}

// table holds the values of a meminfo file in bytes, and why values could not be read.
type table struct {
	note
	values map[string]int64
	bad    map[string]string
	keys   []string // in the order of the lines
}

// requiredMeminfo lists lines that every kernel prints at the start and near the end of
// /proc/meminfo (fs/proc/meminfo.c). If one is missing, the file is truncated.
var requiredMeminfo = []string{"MemTotal", "CommitLimit", "Committed_AS"}

// meminfo parses /proc/meminfo, or a node's meminfo, whose keys have the prefix before. It
// converts kB to bytes. If a line in always is missing, all missing values are unknown.
func (r *reader) meminfo(p, before string, always ...string) table {
	text, n := r.text(p)
	t := table{note: n, values: map[string]int64{}, bad: map[string]string{}}
	for line := range strings.Lines(text) {
		key, rest, ok := strings.Cut(strings.TrimPrefix(line, before), ":")
		if !ok {
			continue
		}
		t.keys = append(t.keys, key)
		value, kb := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		factor := int64(1)
		if kb {
			factor = 1024
		}
		if v, err := decimal(value, 0, factor); err == nil && v <= 1<<62 {
			t.values[key] = v
		} else {
			t.bad[key] = fmt.Sprintf("%s: %s: %.60q is not a number", p, key, strings.TrimSpace(rest))
		}
	}
	for _, key := range always {
		if _, ok := t.values[key]; n.known() && !ok && t.bad[key] == "" && t.bad[""] == "" {
			t.bad[""] = fmt.Sprintf("%s is incomplete: %s is missing", p, key)
		}
	}
	return t
}

// get returns one value. A missing value is absent if the file is complete, otherwise unknown.
func (t table) get(key string) Fact[int64] {
	if !t.known() {
		return Fact[int64]{note: t.note}
	}
	if v, ok := t.values[key]; ok {
		return Known(v, t.source)
	}
	if why := firstNonEmpty(t.bad[key], t.bad[""]); why != "" {
		return Unknown[int64](t.source, why)
	}
	return Absent[int64](t.source)
}

func swaps(r *reader) Set[Swap] {
	const source = "/proc/swaps"
	var set Set[Swap]
	text, n := r.text(source)
	set.note = n
	for i, line := range strings.Split(text, "\n") {
		w := strings.Fields(line)
		switch {
		case i == 0 && n.known() && (len(w) == 0 || w[0] != "Filename"):
			set.unknown = source + " lacks the header line"
			return set
		case i == 0 || len(w) == 0:
			continue
		case len(w) != 5:
			set.unknown = fmt.Sprintf("%s: cannot read %.60q", source, line)
			return set
		}
		s := set.add(host.UnescapeMount(w[0]))
		s.Kind = Known(w[1], source)
		for _, c := range []struct {
			fact  *Fact[int64]
			word  string
			scale int64
			least int64
		}{{&s.SizeBytes, w[2], 1024, 0}, {&s.UsedBytes, w[3], 1024, 0}, {&s.Priority, w[4], 1, math.MinInt16}} {
			if v, err := decimal(c.word, c.least, c.scale); err == nil {
				*c.fact = Known(v, source)
			} else {
				*c.fact = Unknown[int64](source, fmt.Sprintf("%s: cannot read %.40q", source, c.word))
			}
		}
	}
	return set
}

func hugePages(r *reader, info table) Set[HugePages] {
	const dir = "/sys/kernel/mm/hugepages"
	var set Set[HugePages]
	names, n := r.dir(dir)
	set.note = n
	if size := info.values["Hugepagesize"]; n.unknown != "" && info.known() && size > 0 {
		// For copies without sysfs, use the default size in /proc/meminfo.
		set.note = note{source: info.source}
		p := set.add(fmt.Sprintf("%dkB", size/1024))
		p.SizeBytes = info.get("Hugepagesize")
		p.Total, p.Free = info.get("HugePages_Total"), info.get("HugePages_Free")
		p.Reserved, p.Surplus = info.get("HugePages_Rsvd"), info.get("HugePages_Surp")
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
