package setting

import (
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// comparisonInput holds a kernel file, the requested text and the text read from the file.
type comparisonInput struct {
	host             *host.Host
	file, want, read string
}

// fileFormat describes how the kernel parses writes to certain files, and how it prints their
// values.
type fileFormat struct {
	// files are patterns of path.Match. A pattern that begins with ".../" matches the end of a
	// path. A pattern that ends with "/..." matches everything below a directory.
	files []string
	// prints limits the format to files with a current text for which it returns true; nil
	// means all files.
	prints func(read string) bool
	// reader and writer name the kernel functions that parse a write and print the value.
	reader, writer string
	compare        func(comparisonInput) Comparison
}

// fileFormats lists the files with a known parser and printer. The first match decides, so
// specific files precede patterns. Function names are from Linux 6.12.
var fileFormats = []fileFormat{
	// Lists of ranges, CPU masks and CPU lists.
	{files: []string{"/proc/sys/net/ipv4/ip_local_reserved_ports", "/proc/sys/kernel/watchdog_cpumask"},
		reader: "proc_do_large_bitmap", writer: "proc_do_large_bitmap", compare: compareRanges},
	{files: []string{".../cpuset.cpus", ".../cpuset.cpus.exclusive", ".../cpus_list"},
		reader: "bitmap_parselist", writer: `"%*pbl"`, compare: compareCPUList},
	{files: []string{".../cpuset.mems"}, reader: "bitmap_parselist", writer: `"%*pbl"`, compare: compareRanges},
	{files: []string{"/proc/sys/net/core/rps_default_mask", "/proc/sys/net/core/flow_limit_cpu_bitmap",
		".../queues/*/rps_cpus", ".../queues/*/xps_cpus", ".../queues/*/xps_rxqs", "/sys/devices/virtual/workqueue/...", "/sys/bus/workqueue/devices/*/cpumask",
		".../tracing/tracing_cpumask", "/sys/fs/resctrl/cpus", "/sys/fs/resctrl/*/cpus"},
		prints: isMask, reader: "bitmap_parse", writer: `"%*pb"`, compare: compareMask},

	// Booleans.
	{files: []string{"/sys/kernel/mm/lru_gen/enabled"}, reader: "mm/vmscan.c enabled_store", writer: "mm/vmscan.c enabled_show", compare: compareLRUGen},
	{files: []string{"/sys/kernel/mm/..."}, prints: isTruthWord, reader: "kstrtobool", writer: "str_true_false, \"%c\"", compare: compareBool},
	{files: []string{"/sys/kernel/mm/ksm/use_zero_pages", "/sys/kernel/mm/ksm/smart_scan", "/sys/devices/system/cpu/cpufreq/boost", ".../cpufreq/policy*/boost", ".../online"},
		prints: isBit, reader: "kstrtobool", writer: `"%d"`, compare: compareBool},
	{files: []string{"/sys/kernel/debug/..."}, prints: isTruthWord, reader: "debugfs_write_file_bool", writer: "debugfs_read_file_bool", compare: compareBool},
	{files: []string{"/sys/module/pcie_aspm/parameters/policy"}, reader: "pcie_aspm_set_policy", writer: "pcie_aspm_get_policy", compare: compareWord()},
	{files: []string{"/sys/module/*/parameters/*"}, reader: "param_set_bool, param_set_int, ...", writer: "param_get_bool, param_get_int, ...", compare: compareParameter},

	// Lists of words that are written one at a time, and sets of words.
	{files: []string{"/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features"}, reader: "sched_feat_write", writer: "sched_feat_show", compare: compareFeature},
	{files: []string{".../tracing/trace_options"}, reader: "tracing_trace_options_write", writer: "tracing_trace_options_show", compare: compareTraceOption},
	{files: []string{".../cgroup.subtree_control"}, reader: "cgroup_subtree_control_write", writer: "cgroup_print_ss_mask", compare: compareSigned},
	{files: []string{"/proc/sys/net/ipv4/tcp_allowed_congestion_control"}, reader: "tcp_set_allowed_congestion_control", writer: "tcp_get_allowed_congestion_control", compare: compareSet},
	{files: []string{"/proc/sys/kernel/seccomp/actions_logged"}, reader: "seccomp_names_to_actions_logged", writer: "seccomp_names_from_actions_logged", compare: compareSet},

	// Choices with a second name for a value.
	{files: []string{"/sys/devices/system/cpu/smt/control"}, reader: "__store_smt_control", writer: "control_show", compare: compareSMT},
	{files: []string{".../queue/scheduler"}, reader: "elevator_find_get", writer: "elv_iosched_show", compare: compareWord("deadline=mq-deadline")},
	{files: []string{".../queue/write_cache"}, reader: "queue_wc_store", writer: "queue_wc_show", compare: compareWord("none=write through")},
	{files: []string{".../power/energy_perf_bias"}, reader: "energy_perf_bias_store", writer: "energy_perf_bias_show",
		compare: compareWord("performance=0", "balance-performance=4", "normal=6", "normal-powersave=7", "balance-power=8", "power=15")},
	{files: []string{"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/defrag", "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
		"/sys/kernel/mm/transparent_hugepage/hugepages-*/enabled", "/sys/kernel/mm/transparent_hugepage/hugepages-*/shmem_enabled", ".../cpufreq/scaling_governor",
		"/sys/devices/system/clocksource/clocksource0/current_clocksource", ".../link_power_management_policy"},
		reader: "sysfs_streq", writer: "the word in brackets, or alone", compare: compareWord()},
	{files: []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/poweroff_cmd",
		"/proc/sys/kernel/printk_devkmsg", "/proc/sys/net/core/default_qdisc", "/proc/sys/net/ipv4/tcp_congestion_control", "/proc/sys/net/mptcp/path_manager",
		"/proc/sys/net/mptcp/scheduler", "/proc/sys/net/netfilter/nf_log/*"},
		reader: "proc_dostring", writer: "proc_dostring", compare: compareText},

	// Numbers that the kernel rounds, or that select a default.
	{files: []string{".../queue/read_ahead_kb", "/sys/devices/virtual/bdi/*/read_ahead_kb"}, reader: "queue_ra_store", writer: "queue_ra_show", compare: compareRounded(wholePages)},
	{files: []string{".../queue/nr_requests"}, reader: "queue_requests_store", writer: "queue_requests_show", compare: compareRounded(atLeastFour)},
	{files: []string{".../queue/wbt_lat_usec"}, reader: "queue_wb_lat_store", writer: "queue_wb_lat_show", compare: compareLatency},
	{files: []string{".../queue/max_sectors_kb", ".../queue/discard_max_bytes", "/sys/kernel/mm/lru_gen/min_ttl_ms"}, reader: "queue_max_sectors_store, queue_max_discard_sectors_store, min_ttl_ms_store",
		writer: "rounded, or the device's default", compare: compareApproximate},
	{files: []string{".../queues/*/rps_flow_cnt", "/proc/sys/net/core/rps_sock_flow_entries"}, reader: "store_rps_dev_flow_table_cnt, rps_sock_flow_sysctl", writer: "a power of two", compare: compareRounded(powerOfTwo)},
	{files: []string{"/proc/sys/fs/pipe-max-size"}, reader: "proc_dopipe_max_size", writer: "round_pipe_size", compare: compareRounded(pipeSize)},
	{files: []string{"/proc/sys/net/netfilter/nf_conntrack_buckets", "/proc/sys/net/nf_conntrack_buckets"}, reader: "nf_conntrack_hash_sysctl", writer: "nf_ct_alloc_hashtable: whole pages", compare: compareRounded(pageOfHeads)},
	{files: []string{"/proc/sys/net/ipv4/neigh/*/*_ms", "/proc/sys/net/ipv6/neigh/*/*_ms", "/proc/sys/net/ipv4/route/*_ms", "/proc/sys/net/ipv6/route/*_ms"},
		reader: "proc_dointvec_ms_jiffies", writer: "proc_dointvec_ms_jiffies", compare: compareApproximate},
	{files: []string{"/proc/sys/net/ipv4/neigh/*/*", "/proc/sys/net/ipv6/neigh/*/*"}, reader: "proc_dointvec_userhz_jiffies", writer: "proc_dointvec_userhz_jiffies", compare: compareApproximate},
	{files: []string{".../memory.min", ".../memory.low", ".../memory.high", ".../memory.max", ".../memory.swap.max", ".../memory.swap.high", ".../memory.limit_in_bytes", ".../memory.soft_limit_in_bytes"},
		reader: "page_counter_memparse", writer: "page_counter: whole pages", compare: compareSize},
	{files: []string{".../cpu.max"}, reader: "cpu_max_write", writer: "cpu_max_show", compare: compareNumbers},

	// Numbers.
	{files: []string{"/proc/sys/net/ipv4/tcp_fastopen_key"}, reader: "proc_tcp_fastopen_key", writer: "proc_tcp_fastopen_key", compare: compareHexGroups},
	{files: []string{"/proc/sys/..."}, prints: areNumbers, reader: "proc_get_long (strtoul_lenient, base 0)", writer: "proc_put_long", compare: compareNumbers},
	{files: []string{"/sys/..."}, prints: areNumbers, reader: "kstrtoul, kstrtoint and the like, base 0 or 10", writer: `sysfs_emit("%d")`, compare: compareDecimal},
}

// formatOf returns the format of a file with the current text read, or nil if unknown.
func formatOf(file, read string) *fileFormat {
	for i := range fileFormats {
		f := &fileFormats[i]
		if (f.prints == nil || f.prints(read)) && f.of(file) {
			return f
		}
	}
	return nil
}

// of reports whether the format is for a file.
func (f *fileFormat) of(file string) bool {
	for _, p := range f.files {
		if tail, ok := strings.CutPrefix(p, ".../"); ok {
			parts := strings.Split(file, "/")
			if n := strings.Count(tail, "/") + 1; n < len(parts) {
				if ok, _ := path.Match(tail, strings.Join(parts[len(parts)-n:], "/")); ok {
					return true
				}
			}
		} else if dir, ok := strings.CutSuffix(p, "..."); ok {
			if strings.HasPrefix(file, dir) {
				return true
			}
		} else if ok, _ := path.Match(p, file); ok {
			return true
		}
	}
	return false
}

// compareFile compares a requested text with the text read from a file, ignoring the amount of
// white space. Without a known format, only equal words and bitmaps in full groups are the
// same: "a" and "0A" may be names.
func compareFile(c comparisonInput) Comparison {
	if c.want == c.read || strings.TrimSpace(c.want) == strings.TrimSpace(c.read) {
		return Same
	}
	if f := formatOf(c.file, c.read); f != nil {
		return f.compare(c)
	}
	if slices.Equal(strings.Fields(c.want), strings.Fields(c.read)) || printedMask(c.read) && compareMask(c) == Same {
		return Same
	}
	return Unclear
}
