package setting

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// kernelRange is the range that certain files of /proc/sys accept: extra1 and extra2 of the
// kernel's tables, or the range of an int or a byte. Writing a number outside fails. Before
// Linux 5.1 it is ignored for unsigned longs.
type kernelRange struct {
	min, max int64
	from     [2]int // first kernel with this range; zero means 4.18
	names    []string
}

const (
	maxInt      = math.MaxInt32
	minTwoPages = math.MinInt64 + 1 // as min: two memory pages, in bytes
	minUnknown  = math.MinInt64     // as min: unknown, or depends on the architecture
)

// Kernels that the table covers: Linux 4.19, 6.1.192 and 6.12.117 from their source, 6.18
// tested. If they differ, the table has the widest range, because vendors backport changes.
var (
	oldestRanged, newestRanged = [2]int{4, 18}, [2]int{6, 18}
	since61                    = [2]int{6, 1}
)

// kernelRanges is compiled from kernel/sysctl.c, the files to which its tables moved,
// net/core/sysctl_net_core.c, net/ipv4/sysctl_net_ipv4.c,
// net/netfilter/nf_conntrack_standalone.c, ipc/ipc_sysctl.c and net/core/neighbour.c.
var kernelRanges = []kernelRange{
	{0, 1, [2]int{}, []string{
		"kernel.sched_autogroup_enabled", "kernel.dmesg_restrict", "kernel.watchdog", "kernel.nmi_watchdog", "kernel.soft_watchdog",
		"kernel.softlockup_panic", "kernel.softlockup_all_cpu_backtrace", "kernel.hardlockup_panic", "kernel.hardlockup_all_cpu_backtrace",
		"kernel.hung_task_panic", "kernel.hung_task_all_cpu_backtrace", "kernel.panic_on_warn", "kernel.panic_on_rcu_stall", "kernel.timer_migration",
		"kernel.sched_schedstats", "kernel.sched_energy_aware", "kernel.oops_all_cpu_backtrace", "vm.numa_stat", "vm.memory_failure_early_kill", "vm.memory_failure_recovery",
		"fs.protected_symlinks", "fs.protected_hardlinks"}},
	{0, 2, [2]int{}, []string{"kernel.kptr_restrict", "kernel.unprivileged_bpf_disabled", "vm.overcommit_memory", "vm.panic_on_oom",
		"fs.protected_fifos", "fs.protected_regular", "fs.suid_dumpable"}},
	{0, 4, [2]int{}, []string{"kernel.numa_balancing"}}, // 0 or 1 before 5.18
	{-1, 1, [2]int{}, []string{"kernel.sysctl_writes_strict"}},
	{1, 1, [2]int{}, []string{"kernel.kexec_load_disabled", "kernel.modules_disabled"}},
	{1, 4, [2]int{}, []string{"vm.drop_caches"}},
	{0, 60, [2]int{}, []string{"kernel.watchdog_thresh"}},
	{0, 100, [2]int{}, []string{"vm.dirty_ratio", "vm.dirty_background_ratio", "vm.min_unmapped_ratio", "vm.min_slab_ratio", "vm.compaction_proactiveness", "kernel.perf_cpu_time_max_percent"}},
	{0, 200, [2]int{}, []string{"vm.swappiness"}}, // up to 100 before 5.8
	{0, 1000, [2]int{}, []string{"vm.extfrag_threshold", "kernel.perf_event_max_contexts_per_stack"}},
	{1, 3000, [2]int{}, []string{"vm.watermark_scale_factor"}}, // up to 1000 before 5.18
	{0, 10000, [2]int{}, []string{"kernel.printk_delay"}},
	{0, 65535, [2]int{}, []string{"kernel.overflowuid", "kernel.overflowgid", "fs.overflowuid", "fs.overflowgid"}},
	{0, 640 * 1024, [2]int{}, []string{"kernel.perf_event_max_stack"}},
	{301, 4 << 20, [2]int{}, []string{"kernel.pid_max"}},
	{64, maxInt &^ 63, [2]int{}, []string{"fs.nr_open"}},
	{0, maxInt, [2]int{}, []string{"kernel.hung_task_check_count", "vm.page-cluster", "vm.dirty_expire_centisecs", "vm.dirtytime_expire_seconds",
		"vm.min_free_kbytes", "vm.max_map_count", "vm.watermark_boost_factor", "vm.percpu_pagelist_high_fraction"}},
	{-1, maxInt, [2]int{}, []string{"kernel.hung_task_warnings"}},
	{1, maxInt, [2]int{}, []string{"kernel.sched_cfs_bandwidth_slice_us", "kernel.perf_event_max_sample_rate", "fs.mount-max"}},
	{minTwoPages, math.MaxInt64, [2]int{}, []string{"vm.dirty_bytes"}},
	{1, math.MaxInt64, [2]int{}, []string{"vm.dirty_background_bytes"}},

	{0, maxInt, since61, []string{"vm.vfs_cache_pressure", "vm.zone_reclaim_mode", "net.core.busy_poll", "net.core.busy_read", "net.core.somaxconn",
		"net.ipv4.neigh.default.gc_thresh1", "net.ipv4.neigh.default.gc_thresh2", "net.ipv4.neigh.default.gc_thresh3", "net.netfilter.nf_conntrack_max",
		"kernel.msgmax", "kernel.msgmnb"}},
	{minUnknown, maxInt, since61, []string{"net.core.rmem_max", "net.core.rmem_default", "net.core.wmem_max", "net.core.wmem_default", "net.core.netdev_max_backlog", "net.core.netdev_budget",
		"net.ipv4.tcp_max_tw_buckets", "net.ipv4.tcp_max_orphans", "net.ipv4.tcp_max_syn_backlog", "vm.overcommit_ratio"}},
	{1, maxInt, since61, []string{"net.core.dev_weight", "net.ipv4.tcp_max_reordering", "net.ipv4.udp_rmem_min", "net.ipv4.udp_wmem_min", "net.netfilter.nf_conntrack_expect_max"}},
	{0, 1, since61, []string{"net.ipv4.tcp_autocorking", "net.ipv4.tcp_ecn_fallback", "net.ipv4.tcp_no_ssthresh_metrics_save", "net.ipv4.icmp_echo_ignore_all",
		"net.ipv4.icmp_echo_ignore_broadcasts", "net.ipv4.icmp_ignore_bogus_error_responses", "vm.compact_unevictable_allowed", "kernel.shm_rmid_forced",
		"net.netfilter.nf_conntrack_acct", "net.netfilter.nf_conntrack_tcp_be_liberal", "net.netfilter.nf_conntrack_tcp_loose", "net.netfilter.nf_conntrack_timestamp"}},
	{0, 2, since61, []string{"net.ipv4.tcp_tw_reuse", "net.core.bpf_jit_harden"}},
	{0, 3, since61, []string{"net.ipv4.fib_multipath_hash_policy"}},
	{0, 4, since61, []string{"net.ipv4.tcp_early_retrans"}},
	{0, 31, since61, []string{"net.ipv4.tcp_app_win"}},
	{-31, 31, since61, []string{"net.ipv4.tcp_adv_win_scale"}},
	{1, 127, since61, []string{"net.ipv4.tcp_syn_retries"}},
	{1, 255, since61, []string{"net.ipv4.ip_default_ttl"}},
	{0, 1000, since61, []string{"net.ipv4.tcp_pacing_ca_ratio", "net.ipv4.tcp_pacing_ss_ratio"}},
	{0, 86400, since61, []string{"net.ipv4.tcp_min_rtt_wlen"}},
	{0, 255, since61, []string{"net.ipv4.tcp_retries1", "net.ipv4.tcp_retries2", "net.ipv4.tcp_synack_retries", "net.ipv4.tcp_orphan_retries", "net.ipv4.tcp_keepalive_probes",
		"net.ipv4.tcp_syncookies", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_window_scaling", "net.ipv4.tcp_sack", "net.ipv4.tcp_dsack", "net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_moderate_rcvbuf",
		"net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_rfc1337", "net.ipv4.tcp_abort_on_overflow", "net.ipv4.tcp_recovery",
		"net.ipv4.tcp_tso_win_divisor", "net.ipv4.ip_nonlocal_bind", "net.ipv4.ip_no_pmtu_disc"}},
}

// fixedChoices are files of /sys that list every accepted word, with the active word in brackets
// (mm/huge_memory.c, mm/shmem.c, drivers/pci/pcie/aspm.c; Linux 6.1 and 6.12). Files that load a
// module by name, such as the I/O scheduler's, accept more words and are not listed.
var fixedChoices = []string{
	"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/mm/transparent_hugepage/defrag", "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
	"/sys/kernel/mm/transparent_hugepage/hugepages-*/enabled", "/sys/kernel/mm/transparent_hugepage/hugepages-*/shmem_enabled",
	"/sys/module/pcie_aspm/parameters/policy",
}

// Rejects implements ValueChecker.
func (k sysctl) Rejects(s Setting, want Value) (why string, refused bool) {
	if s.Name == "vm.nr_hugepages" {
		return tooManyHugePages(k.host, k.defaultHugePage(), want)
	}
	words := strings.Fields(want.Text)
	i := slices.IndexFunc(kernelRanges, func(r kernelRange) bool { return slices.Contains(r.names, s.Name) })
	if i < 0 || len(words) != 1 || !ranged(k.host, kernelRanges[i].from) {
		return "", false
	}
	r := kernelRanges[i]
	low := r.min
	if low == minTwoPages {
		low = 2 * k.host.PageSize()
	}
	n, ok := number(words[0])
	switch {
	case ok && n >= low && n <= r.max, !ok && !notNumber(words[0]):
		return "", false
	case low == r.max:
		return fmt.Sprintf("the kernel accepts only %d", low), true
	case low == minUnknown:
		return fmt.Sprintf("the kernel accepts whole numbers up to %d", r.max), true
	case r.max == math.MaxInt64:
		return fmt.Sprintf("the kernel accepts whole numbers from %d", low), true
	case !ok:
		return fmt.Sprintf("the kernel accepts whole numbers, %d to %d", low, r.max), true
	}
	return fmt.Sprintf("the kernel accepts %d to %d", low, r.max), true
}

// notNumber reports whether the kernel cannot parse a word as a number, because it has a
// letter, a decimal point or a percent sign.
func notNumber(word string) bool {
	digits := strings.TrimPrefix(strings.ToLower(word), "-")
	return !strings.HasPrefix(digits, "0x") && strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
}

// ranged reports whether the table covers the machine's kernel, and the kernel is at least
// version from.
func ranged(h *host.Host, from [2]int) bool {
	b, err := h.Files.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return false
	}
	major, rest, _ := strings.Cut(strings.TrimSpace(string(b)), ".")
	minor, _, _ := strings.Cut(strings.FieldsFunc(rest+".", func(r rune) bool { return r < '0' || r > '9' })[0]+".", ".")
	a, errA := strconv.Atoi(major)
	m, errM := strconv.Atoi(minor)
	v := []int{a, m}
	return errA == nil && errM == nil && slices.Compare(v, oldestRanged[:]) >= 0 && slices.Compare(v, newestRanged[:]) <= 0 && slices.Compare(v, from[:]) >= 0
}

// Rejects implements ValueChecker.
func (k sysfs) Rejects(s Setting, want Value) (why string, refused bool) {
	if pool, ok := strings.CutPrefix(s.Name, hugePools); ok && path.Base(pool) == "nr_hugepages" {
		return tooManyHugePages(k.host, path.Dir(pool), want)
	}
	fixed := slices.ContainsFunc(fixedChoices, func(p string) bool { ok, _ := path.Match(p, s.Name); return ok })
	if !fixed || !ranged(k.host, since61) {
		return "", false
	}
	b, err := k.host.Files.ReadFile(s.Name)
	words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(string(b)))
	if err != nil || len(words) < 2 || slices.Contains(words, strings.TrimSpace(want.Text)) {
		return "", false
	}
	return "the kernel accepts " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1], true
}
