package fact

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// CPU describes the processors. Lists have the kernel's format ("0-3,8").
// Sources: /proc/cpuinfo and /sys/devices/system/cpu
// (Documentation/ABI/testing/sysfs-devices-system-cpu).
type CPU struct {
	Vendor    Fact[string]   `json:"vendor"`
	Model     Fact[string]   `json:"model"`
	Family    Fact[int64]    `json:"family"`
	ModelID   Fact[int64]    `json:"model_id"`
	Stepping  Fact[int64]    `json:"stepping"`
	Microcode Fact[string]   `json:"microcode"`
	Flags     Fact[[]string] `json:"flags"`

	// Count is the number of online logical CPUs.
	Count          Fact[int64] `json:"count"`
	Sockets        Fact[int64] `json:"sockets"`
	Cores          Fact[int64] `json:"cores"`
	ThreadsPerCore Fact[int64] `json:"threads_per_core"`

	OnlineList   Fact[string] `json:"online_list"`
	OfflineList  Fact[string] `json:"offline_list"`
	PresentList  Fact[string] `json:"present_list"`
	PossibleList Fact[string] `json:"possible_list"`
	IsolatedList Fact[string] `json:"isolated_list"`
	NohzFullList Fact[string] `json:"nohz_full_list"`

	// SMT is on, off, forceoff, notsupported or notimplemented.
	SMT       Fact[string] `json:"smt"`
	SMTActive Fact[bool]   `json:"smt_active"`

	Frequency Frequency  `json:"frequency"`
	Idle      Idle       `json:"idle"`
	Cache     Set[Cache] `json:"cache"`

	// Vulnerabilities maps each vulnerability to the kernel's status text.
	Vulnerabilities Fact[map[string]string] `json:"vulnerabilities"`
}

const cpuDir = "/sys/devices/system/cpu/"

// reportedFlags lists the CPU flags that are relevant to tuning or fingerprints.
var reportedFlags = []string{
	"hypervisor", "constant_tsc", "nonstop_tsc", "tsc_deadline_timer", "arat", "pdpe1gb", "aperfmperf",
	"hwp", "hwp_epp", "epb", "cppc", "cpb", "ida", "dtherm", "ht", "lm", "vmx", "svm",
	"aes", "sha_ni", "pclmulqdq", "vaes", "rdrand", "rdseed", "sse4_2", "avx", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "amx_tile",
	"cat_l3", "cdp_l3", "mba", "cqm_llc", "erms", "fsrm", "movdir64b", "waitpkg", "clwb", "umip", "smep", "smap", "la57", "md_clear", "flush_l1d",
	"asimd", "sve", "sve2", "crc32", "atomics", "sha2", "pmull",
}

func collectCPU(r *reader, f *Facts) {
	c := &f.CPU
	cpuinfo(r, c)
	c.OnlineList = r.cpus(cpuDir+"online", false)
	c.OfflineList = r.cpus(cpuDir+"offline", true)
	c.PresentList = r.cpus(cpuDir+"present", false)
	c.PossibleList = r.cpus(cpuDir+"possible", false)
	c.IsolatedList = r.cpus(cpuDir+"isolated", true)
	c.NohzFullList = r.cpus(cpuDir+"nohz_full", true)
	c.SMT = r.str(cpuDir + "smt/control")
	c.SMTActive = r.flag(cpuDir + "smt/active")
	topology(r, c)
	c.Frequency = frequency(r, c)
	c.Idle = idle(r, c)
	c.Cache = caches(r, c)
	c.Vulnerabilities = vulnerabilities(r)
}

// armVendors maps implementer codes of the Main ID Register to vendors (Arm
// ARM, MIDR_EL1).
var armVendors = map[string]string{"0x41": "ARM", "0x42": "Broadcom", "0x43": "Cavium", "0x46": "Fujitsu", "0x48": "HiSilicon", "0x4e": "NVIDIA", "0x50": "APM", "0x51": "Qualcomm", "0x61": "Apple", "0x6d": "Microsoft", "0xc0": "Ampere"}

func cpuinfo(r *reader, c *CPU) {
	const source = "/proc/cpuinfo"
	text, n := r.text(source)
	first, _, _ := strings.Cut(text, "\n\n")
	info := keyed(first, ":")
	if n.known() && !slices.ContainsFunc([]string{"processor", "vendor_id", "# processors", "CPU implementer", "cpu"}, func(key string) bool { return info[key] != "" }) {
		n.unknown = source + " lists no processor"
	}
	get := func(keys ...string) Fact[string] {
		if !n.known() {
			return Fact[string]{note: n}
		}
		for _, k := range keys {
			if v, ok := info[k]; v != "" {
				return Known(v, source)
			} else if ok {
				return Unknown[string](source, source+": "+k+" is empty")
			}
		}
		return Absent[string](source)
	}
	number := func(key string) Fact[int64] {
		v := get(key)
		s, ok := v.Get()
		if !ok {
			return Fact[int64]{note: v.note}
		}
		i, err := decimal(s, 0, 1)
		if err != nil {
			return Unknown[int64](source, fmt.Sprintf("%s: %s: %.60q %v", source, key, s, err))
		}
		return Known(i, source)
	}
	c.Vendor = get("vendor_id", "CPU implementer")
	if name := armVendors[c.Vendor.Or("")]; name != "" {
		c.Vendor = Known(name, source)
	}
	c.Model = get("model name", "cpu", "Processor", "CPU part")
	c.Family = number("cpu family")
	c.ModelID = number("model")
	c.Stepping = number("stepping")
	c.Microcode = get("microcode")
	c.Flags = convert(get("flags", "Features", "features"), func(s string) []string {
		has := map[string]bool{}
		for w := range strings.FieldsSeq(s) {
			has[w] = true
		}
		found := []string{}
		for _, w := range reportedFlags {
			if has[w] {
				found = append(found, w)
			}
		}
		return found
	})
	// Use the topology in /proc/cpuinfo, for copies without sysfs.
	if !n.known() {
		c.Count, c.Sockets, c.Cores = Fact[int64]{note: n}, Fact[int64]{note: n}, Fact[int64]{note: n}
		return
	}
	var threads int64
	sockets, cores := map[string]bool{}, map[string]bool{}
	for block := range strings.SplitSeq(text, "\n\n") {
		b := keyed(block, ":")
		if _, ok := b["processor"]; !ok {
			continue
		}
		threads++
		if id, ok := b["physical id"]; ok {
			sockets[id] = true
			cores[id+"/"+b["core id"]] = true
		}
	}
	c.Count = knownUnlessZero(threads, source, "the file lists no processor")
	c.Sockets = knownUnlessZero(int64(len(sockets)), source, "the lines physical id are missing")
	c.Cores = knownUnlessZero(int64(len(cores)), source, "the lines core id are missing")
}

func knownUnlessZero(n int64, source, why string) Fact[int64] {
	if n == 0 {
		return Unknown[int64](source, source+": "+why)
	}
	return Known(n, source)
}

// topology reads the topology, from sysfs if possible, because all architectures provide it.
func topology(r *reader, c *CPU) {
	online, err := unit.ParseCPUList(c.OnlineList.Or(""))
	if err == nil && !online.IsEmpty() {
		c.Count = Known(int64(online.Len()), c.OnlineList.source)
		sockets, cores := map[string]bool{}, map[string]bool{}
		for _, cpu := range online.Numbers() {
			dir := cpuDir + "cpu" + strconv.Itoa(cpu) + "/topology/"
			socket, n1 := r.text(dir + "physical_package_id")
			core, n2 := r.text(dir + "thread_siblings_list")
			if !n1.known() || !n2.known() {
				sockets = nil
				break
			}
			_, bad1 := strconv.Atoi(socket)
			if siblings, bad2 := unit.ParseCPUList(core); bad1 != nil || bad2 != nil || !siblings.Has(cpu) {
				why := fmt.Sprintf("%s: invalid socket %.60q or threads %.60q of CPU %d", dir, socket, core, cpu)
				c.Sockets, c.Cores = Unknown[int64](dir, why), Unknown[int64](dir, why)
				sockets = nil
				break
			}
			sockets[socket] = true
			cores[core] = true
		}
		if len(sockets) > 0 {
			c.Sockets = Known(int64(len(sockets)), cpuDir+"cpu*/topology")
			c.Cores = Known(int64(len(cores)), cpuDir+"cpu*/topology")
		}
	}
	n, ok1 := c.Count.Get()
	cores, ok2 := c.Cores.Get()
	if ok1 && ok2 {
		c.ThreadsPerCore = Known((n+cores-1)/cores, c.Cores.source)
	} else {
		c.ThreadsPerCore = Fact[int64]{note: c.Cores.note}
	}
}

// Cache is one kind of cache. Its name consists of level and type ("l1d", "l3").
type Cache struct {
	// SizeBytes is the size of one instance. Instances is the number of instances.
	SizeBytes Fact[int64] `json:"size_bytes"`
	Instances Fact[int64] `json:"instances"`
	// CPUsPerInstance is the number of logical CPUs that share an instance.
	CPUsPerInstance Fact[int64] `json:"cpus_per_instance"`
	LineBytes       Fact[int64] `json:"line_bytes"`
	Ways            Fact[int64] `json:"ways"`
}

// caches reads each cache once. It skips CPUs that share a cache that was already read.
func caches(r *reader, c *CPU) Set[Cache] {
	var set Set[Cache]
	online, err := unit.ParseCPUList(c.OnlineList.Or(""))
	if !c.OnlineList.known() || err != nil {
		set.note = note{source: cpuDir, unknown: firstNonEmpty(c.OnlineList.unknown, "the list of CPUs is unknown")}
		return set
	}
	indexes, n := r.dir(cpuDir + "cpu" + strconv.Itoa(max(0, firstOf(online))) + "/cache")
	set.note = n
	set.source = cpuDir + "cpu*/cache"
	for _, index := range numbered(indexes, "index") {
		covered := unit.CPUSet{}
		var cache *Cache
		instances := int64(0)
		for _, cpu := range online.Numbers() {
			if covered.Has(cpu) {
				continue
			}
			dir := cpuDir + "cpu" + strconv.Itoa(cpu) + "/cache/" + index + "/"
			shared, sn := r.text(dir + "shared_cpu_list")
			cpus, err := unit.ParseCPUList(shared)
			if !sn.known() {
				break
			}
			if err != nil || !cpus.Has(cpu) {
				set.unknown = fmt.Sprintf("%sshared_cpu_list: %.60q is not a CPU list with CPU %d", dir, shared, cpu)
				return set
			}
			covered = covered.Union(cpus)
			instances++
			if cache == nil {
				name, why := cacheName(r, dir)
				if why != "" {
					set.unknown = why
					return set
				}
				cache = set.add(name)
				cache.SizeBytes = parsed(r, dir+"size", func(s string) (int64, error) {
					size, err := unit.ParseSize(s)
					if err != nil || size > math.MaxInt64 {
						return 0, notAError("a size")
					}
					return int64(size), nil
				})
				cache.LineBytes = r.zeroAbsent(dir+"coherency_line_size", 1)
				cache.Ways = r.zeroAbsent(dir+"ways_of_associativity", 1)
				cache.CPUsPerInstance = Known(int64(cpus.Len()), dir+"shared_cpu_list")
			}
		}
		if cache != nil {
			cache.Instances = Known(instances, set.source)
		}
	}
	return set
}

func firstOf(s unit.CPUSet) int {
	if n := s.Numbers(); len(n) > 0 {
		return n[0]
	}
	return -1
}

func cacheName(r *reader, dir string) (name, unknown string) {
	level, kind := r.int(dir+"level"), r.str(dir+"type")
	at, ok := level.Get()
	if !ok || !kind.known() {
		return "", firstNonEmpty(level.unknown, kind.unknown, dir+"level or type is missing")
	}
	name = "l" + strconv.FormatInt(at, 10)
	switch kind.Or("") {
	case "Data":
		return name + "d", ""
	case "Instruction":
		return name + "i", ""
	case "Unified":
		return name, ""
	}
	return "", fmt.Sprintf("%stype: unknown cache type %.60q", dir, kind.Or(""))
}

func vulnerabilities(r *reader) Fact[map[string]string] {
	const dir = cpuDir + "vulnerabilities"
	names, n := r.dir(dir)
	found := map[string]string{}
	slices.Sort(names)
	for _, name := range names {
		if s, sn := r.nonEmpty(dir + "/" + name); sn.known() {
			found[name] = s
		} else if sn.unknown != "" {
			return Fact[map[string]string]{note: sn}
		}
	}
	return withNote(n, found)
}
