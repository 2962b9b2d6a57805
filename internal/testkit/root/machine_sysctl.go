package root

import "strings"

// sysctls are the keys that common profiles name (TuneD's, the vendors' tuning guides), with
// the defaults of a server kernel 6.1, so that every line of a profile can be written. They
// include the keys of the older scheduler, because profiles still name them.
const sysctls = `
abi.vsyscall32 1
fs.aio-max-nr 65536
fs.file-max 9223372036854775807
fs.inotify.max_user_instances 128
fs.inotify.max_user_watches 8192
fs.nr_open 1048576
fs.suid_dumpable 0
kernel.hung_task_timeout_secs 120
kernel.hostname invented
kernel.msgmax 8192
kernel.msgmnb 16384
kernel.msgmni 32000
kernel.nmi_watchdog 1
kernel.numa_balancing 1
kernel.numa_balancing_scan_delay_ms 1000
kernel.numa_balancing_scan_period_max_ms 60000
kernel.numa_balancing_scan_period_min_ms 1000
kernel.numa_balancing_scan_size_mb 256
kernel.osrelease 6.1.0-fake
kernel.ostype Linux
kernel.panic 0
kernel.panic_on_oops 0
kernel.perf_event_max_sample_rate 100000
kernel.pid_max 4194304
kernel.printk 4 4 1 7
kernel.sched_autogroup_enabled 1
kernel.sched_latency_ns 24000000
kernel.sched_migration_cost_ns 500000
kernel.sched_min_granularity_ns 3000000
kernel.sched_nr_migrate 32
kernel.sched_rt_period_us 1000000
kernel.sched_rt_runtime_us 950000
kernel.sched_schedstats 0
kernel.sched_tunable_scaling 1
kernel.sched_wakeup_granularity_ns 4000000
kernel.sem 32000 1024000000 500 32000
kernel.shmall 18446744073692774399
kernel.shmmax 18446744073692774399
kernel.shmmni 4096
kernel.softlockup_panic 0
kernel.threads-max 512000
kernel.timer_migration 1
kernel.version #1 SMP PREEMPT_DYNAMIC Debian 6.1.0-1
kernel.watchdog 1
kernel.watchdog_thresh 10
net.bridge.bridge-nf-call-arptables 1
net.bridge.bridge-nf-call-ip6tables 1
net.bridge.bridge-nf-call-iptables 1
net.core.busy_poll 0
net.core.busy_read 0
net.core.default_qdisc fq_codel
net.core.netdev_budget 300
net.core.netdev_max_backlog 1000
net.core.rmem_default 212992
net.core.rmem_max 212992
net.core.somaxconn 4096
net.core.wmem_default 212992
net.core.wmem_max 212992
net.ipv4.conf.all.arp_announce 0
net.ipv4.conf.all.rp_filter 2
net.ipv4.conf.default.arp_announce 0
net.ipv4.ip_forward 0
net.ipv4.ip_local_port_range 32768	60999
net.ipv4.ip_local_reserved_ports 
net.ipv4.neigh.default.gc_thresh1 128
net.ipv4.neigh.default.gc_thresh2 512
net.ipv4.neigh.default.gc_thresh3 1024
net.ipv4.tcp_congestion_control cubic
net.ipv4.tcp_fastopen 1
net.ipv4.tcp_fin_timeout 60
net.ipv4.tcp_max_syn_backlog 4096
net.ipv4.tcp_notsent_lowat 4294967295
net.ipv4.tcp_rmem 4096	131072	6291456
net.ipv4.tcp_slow_start_after_idle 1
net.ipv4.tcp_timestamps 1
net.ipv4.tcp_tw_reuse 2
net.ipv4.tcp_window_scaling 1
net.ipv4.tcp_wmem 4096	16384	4194304
net.ipv4.udp_mem 764304	1019072	1528608
net.ipv6.conf.all.forwarding 0
net.ipv6.neigh.default.gc_thresh1 128
net.ipv6.neigh.default.gc_thresh2 512
net.ipv6.neigh.default.gc_thresh3 1024
net.netfilter.nf_conntrack_max 262144
user.max_user_namespaces 256000
vm.dirty_background_bytes 0
vm.dirty_background_ratio 10
vm.dirty_bytes 0
vm.dirty_expire_centisecs 3000
vm.dirty_ratio 20
vm.dirty_writeback_centisecs 500
vm.hugetlb_shm_group 0
vm.laptop_mode 0
vm.max_map_count 65530
vm.min_free_kbytes 67584
vm.nr_hugepages 0
vm.nr_overcommit_hugepages 0
vm.overcommit_memory 0
vm.overcommit_ratio 50
vm.stat_interval 1
vm.swappiness 60
vm.vfs_cache_pressure 100
vm.watermark_boost_factor 15000
vm.watermark_scale_factor 10
vm.zone_reclaim_mode 0
`

func (b treeBuilder) sysctls() {
	for line := range strings.Lines(sysctls) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), " ")
		if ok {
			// No key in the table has a dot within a component.
			b.file("proc/sys/"+strings.ReplaceAll(key, ".", "/"), value+"\n")
		}
	}
}
