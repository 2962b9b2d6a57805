package compare

import (
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/text"
)

// A fold is the reason why a difference is not listed.
type fold string

// Folds. The texts are printed after a number.
const (
	identity  fold = "names, addresses and identifiers"
	momentary fold = "counters, times and momentary values"
	perBoot   fold = "sizes that differ a little with each boot"
)

// folds lists the values that differ between any two machines, or between two boots of one.
// * stands for any characters. perBoot folds only what differs by at most closeTo.
var folds = []struct {
	fold     fold
	patterns string
}{
	{identity, `kernel.hostname kernel.domainname machine.asset_tag disk.*.mapper_name
		kernel.parameters.BOOT_IMAGE kernel.parameters.root kernel.parameters.resume kernel.parameters.rd.lvm.lv kernel.parameters.initrd
		kernel.parameters.ip kernel.parameters.ostree`},
	{momentary, `kernel.boot_id kernel.uptime_s kernel.random.* kernel.ns_last_pid kernel.pty.nr kernel.cad_pid
		kernel.hung_task_detect_count kernel.msg_next_id kernel.sem_next_id kernel.shm_next_id
		kernel.perf_event_max_sample_rate
		fs.aio-nr fs.file-nr fs.inode-nr fs.inode-state fs.dentry-state fs.quota.* net.netfilter.nf_conntrack_count
		net.ipv4.route.* net.ipv6.route.* net.ipv6.conf.*.stable_secret vm.stat_refresh
		services.process_count services.running_units.session-* services.running_units.user@* services.running_units.*.scope
		memory.available_bytes memory.free_bytes memory.cached_bytes memory.dirty_bytes memory.slab_bytes memory.page_table_bytes
		memory.committed_bytes memory.anon_huge_bytes memory.swap_free_bytes memory.swap.*.used_bytes
		memory.huge_pages.*.free memory.huge_pages.*.reserved memory.huge_pages.*.surplus memory.huge_pages.*.node.*.free numa.node.*.free_bytes
		/sys/kernel/mm/ksm/full_scans /sys/kernel/mm/ksm/general_profit /sys/kernel/mm/ksm/ksm_zero_pages /sys/kernel/mm/ksm/pages_s* /sys/kernel/mm/ksm/pages_unshared
		/sys/kernel/mm/ksm/pages_volatile /sys/kernel/mm/ksm/stable_node_chains /sys/kernel/mm/ksm/stable_node_dups
		/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed /sys/kernel/mm/transparent_hugepage/khugepaged/full_scans
		/sys/kernel/mm/transparent_hugepage/*/stats/* /sys/kernel/mm/hugepages/*`},
	{perBoot, `memory.total_bytes memory.commit_limit_bytes numa.node.*.total_bytes ` + ofMemory},
}

// ofMemory lists the sysctls that the kernel calculates from the size of memory at boot.
const ofMemory = `fs.file-max fs.epoll.max_user_watches fs.inotify.max_user_watches fs.fanotify.max_user_marks kernel.threads-max user.max_* vm.min_free_kbytes vm.lowmem_reserve_ratio vm.user_reserve_kbytes
	vm.admin_reserve_kbytes net.ipv4.tcp_mem net.ipv4.udp_mem net.ipv4.tcp_max_orphans net.ipv4.tcp_max_tw_buckets net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_max_syn_backlog
	net.ipv4.ipfrag_high_thresh net.netfilter.nf_conntrack_max net.nf_conntrack_max net.netfilter.nf_conntrack_buckets net.netfilter.nf_conntrack_expect_max net.ipv6.route.gc_thresh kernel.keys.maxbytes`

// closeTo is the relative difference up to which sizes count as the same machine's.
const closeTo = 0.02

// followers lists values that follow another one. A value that differs is folded if its leader
// differs on the same machines and no file or profile sets it.
var followers = []struct{ leader, patterns string }{
	{"kernel.release", `kernel.version kernel.osrelease kernel.preemption`},
	{"cpu.model", `cpu.vendor cpu.family cpu.model_id cpu.stepping cpu.microcode cpu.flags.* cpu.vulnerabilities.* cpu.cache.*`},
	{"cpu.count", `cpu.sockets cpu.cores cpu.online_list cpu.present_list cpu.possible_list cpu.cache.*.instances cpu.cache.*.cpus_per_instance numa.node.*.cpu_list
		cpu.frequency.policy.* net.*.rx_queues net.*.tx_queues kernel.watchdog_cpumask`},
	{"cpu.frequency.driver", `cpu.frequency.governors cpu.frequency.energy_performance_preferences cpu.frequency.policy.* cpu.frequency.pstate_status`},
	{"cpu.idle.driver", `cpu.idle.*`},
	{"memory.total_bytes", `memory.commit_limit_bytes numa.node.*.total_bytes ` + ofMemory},
	{"vm.nr_hugepages", `vm.nr_hugepages_mempolicy memory.hugetlb_bytes memory.huge_pages.2048kB.* memory.huge_pages.524288kB.*`},
	{"numa.count", `numa.node.* cpu.sockets`},
	{"machine.product", `machine.* virtualization.*`},
	{"os.name", `os.*`},
}

// settable lists the facts that can be set. All other facts describe the machine. What is not a
// fact is a setting.
var settable = words(`cpu.frequency.boost cpu.frequency.energy_perf_bias cpu.frequency.pstate_status cpu.frequency.policy.*.governor cpu.frequency.policy.*.min_hz cpu.frequency.policy.*.max_hz
	cpu.frequency.policy.*.energy_performance_preference cpu.idle.governor cpu.idle.state.*.disabled_cpu_list cpu.smt cpu.isolated_list cpu.nohz_full_list cpu.offline_list
	disk.*.scheduler disk.*.nr_requests disk.*.read_ahead_bytes disk.*.rq_affinity disk.*.nomerges disk.*.writeback_throttling_s disk.*.max_request_bytes
	disk.*.add_random disk.*.io_poll disk.*.io_timeout_s disk.*.queue_depth disk.*.write_cache
	net.*.mtu_bytes net.*.tx_queue_len net.*.rx_queues net.*.tx_queues net.*.gro_flush_ns net.*.defer_hard_irq net.*.bond_mode
	memory.zswap memory.huge_pages.*.total memory.huge_pages.*.overcommit memory.huge_page_default_bytes memory.transparent_huge_pages.* memory.ksm memory.swap.*.priority
	mount.*.options mount.*.type kernel.parameters.* kernel.clocksource kernel.preemption
	services.enabled_units.* services.masked_units.* services.tuned_profile services.tuned_mode services.tuner.*.enabled cgroup.*`)

// notSettable lists the sysctls that only report something.
var notSettable = words(`kernel.ostype kernel.bootloader_* kernel.cap_last_cap kernel.ngroups_max net.ipv4.tcp_available_*`)

// isSetting reports whether a value can be set.
func (v *value) isSetting() bool {
	if v.fact {
		return matchAny(settable, v.pattern)
	}
	return !matchAny(notSettable, v.pattern)
}

func words(s string) []string { return strings.Fields(s) }

// foldOf returns the fold of a value by its name alone, or "".
func foldOf(name string) fold {
	for _, f := range compiledFolds() {
		if matchAny(f.patterns, name) {
			return f.fold
		}
	}
	return ""
}

type compiledFold struct {
	fold     fold
	patterns []string
}

var compiledFolds = sync.OnceValue(func() (out []compiledFold) {
	for _, f := range folds {
		out = append(out, compiledFold{f.fold, words(f.patterns)})
	}
	return out
})

// follows returns the leaders of a value.
func follows(name string) (leaders []string) {
	for _, f := range compiledFollowers() {
		if name != f.leader && matchAny(f.patterns, name) {
			leaders = append(leaders, f.leader)
		}
	}
	return leaders
}

type compiledFollower struct {
	leader   string
	patterns []string
}

var compiledFollowers = sync.OnceValue(func() (out []compiledFollower) {
	for _, f := range followers {
		out = append(out, compiledFollower{f.leader, words(f.patterns)})
	}
	return out
})

// matchAny reports whether a name matches one of the patterns.
func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if match(p, name) {
			return true
		}
	}
	return false
}

// match reports whether a name matches a pattern in which * stands for any characters.
func match(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for star {
		first, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, first)
		}
		i := strings.Index(name, first)
		if i < 0 {
			return false
		}
		name = name[i+len(first):]
	}
	return true
}

// identifiers finds UUIDs, MAC addresses, and IP addresses.
var identifiers = text.LazyRegexp(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}|\b[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}\b|\b[0-9]{1,3}(\.[0-9]{1,3}){3}\b|\b[0-9a-fA-F]{1,4}(:[0-9a-fA-F]{0,4}){3,7}\b`)

// withoutIdentity returns a value without identifiers and without the machine's own name, for
// comparison only.
func withoutIdentity(text, hostname string) string {
	if strings.ContainsAny(text, ":-.") {
		text = identifiers().ReplaceAllString(text, "#")
	}
	short, _, _ := strings.Cut(hostname, ".")
	for _, own := range []string{hostname, short} {
		if len(own) >= minHostname {
			text = strings.ReplaceAll(text, own, "#")
		}
	}
	return text
}

// minHostname is the length from which a host's own name is ignored in values.
const minHostname = 4

// versions lists the values in which four numbers with dots are not an address.
var versions = words(`machine.* os.* kernel.release kernel.version cpu.* disk.*.firmware /sys/module/*`)

// firstNumber returns the number at the start of a text, or 0.
func firstNumber(text string) float64 {
	first, _, _ := strings.Cut(text, " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}

// near reports whether all texts have the same form, with numbers that differ by at most closeTo.
func near(texts []string) bool {
	var low, high []float64
	for i, text := range texts {
		fields := strings.Fields(text)
		if i == 0 {
			low, high = make([]float64, len(fields)), make([]float64, len(fields))
		}
		if len(fields) != len(low) {
			return false
		}
		for j, f := range fields {
			n, err := strconv.ParseFloat(f, 64)
			if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
				return false
			}
			if i == 0 {
				low[j], high[j] = n, n
			}
			low[j], high[j] = min(low[j], n), max(high[j], n)
		}
	}
	for j := range low {
		if high[j]-low[j] > closeTo*math.Abs(high[j]) {
			return false
		}
	}
	return true
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// skipped reports whether a file is never compared: reading it has an effect, or it belongs to one
// CPU.
func skipped(p string) bool {
	return strings.HasPrefix(p, "/proc/sys/kernel/sched_domain") || strings.HasPrefix(p, "/proc/sys/fs/binfmt_misc") ||
		strings.HasPrefix(p, "/sys/kernel/mm/damon") || strings.HasPrefix(p, "/sys/kernel/mm/hugepages") || strings.HasSuffix(p, "/vm/stat_refresh") || strings.HasPrefix(p, "/proc/sys/kernel/osrelease") || strings.HasPrefix(p, "/proc/sys/kernel/version") ||
		strings.HasPrefix(p, "/proc/sys/kernel/arch") || strings.HasSuffix(p, "/kernel/random/uuid")
}
