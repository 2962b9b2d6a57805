package peers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// guestPlugin is a plug-in as generated profiles use it in the guest: the devices that
// its units are for, and its options with values, the last of which may be odd ones.
type guestPlugin struct {
	name    string
	devices []string
	options []guestOption
}

// guestOption is an option with values that do no harm in the guest.
type guestOption struct {
	name   string
	values []string
}

// guestPlugins are all plug-ins of TuneD 2.20 and of fettle. What is of sysctl, vm and
// sysfs here is added to choices, which both kinds of test share.
var guestPlugins = []guestPlugin{
	{"acpi", nil, []guestOption{{"platform_profile", []string{"performance", "balanced|low-power"}}}},
	{"audio", []string{"", "snd_hda_intel", "snd_ac97_codec"}, []guestOption{
		{"timeout", []string{"0", "10", "x"}}, {"reset_controller", []string{"true", "false", "0"}}}},
	{"bootloader", nil, []guestOption{
		{"skip_grub_config", []string{"1"}}, {"cmdline_a", []string{"+quiet", "+skew_tick=1 nohz=on"}}, {"cmdline_b", []string{"-nohz=on", "+audit=0"}}}},
	{"cpu", []string{"", "cpu0", "cpu[1-2]", "!cpu3", "cpu9"}, []guestOption{
		{"force_latency", []string{"99", "cstate.id:1|200", "None", "cstate.name:C6|170"}}, {"pm_qos_resume_latency_us", []string{"50", "n/a", "0", "cstate.id:9|30"}},
		{"governor", []string{"performance", "schedutil|ondemand"}}, {"energy_perf_bias", []string{"performance", "powersave|power"}},
		{"energy_performance_preference", []string{"performance", "balance_power|power"}}, {"min_perf_pct", []string{"50"}}, {"max_perf_pct", []string{"90"}},
		{"no_turbo", []string{"1"}}, {"sampling_down_factor", []string{"10"}}, {"load_threshold", []string{"0.3"}}}},
	{"disk", []string{"", "vda", "vdb", "sd*", "!vda", "nvme*,loop0", "nosuch"}, []guestOption{
		{"elevator", []string{"none", "mq-deadline", "kyber", "bfq", "noop|none", "deadline"}}, {"readahead", []string{"64", "1024", ">4096", "<64", "512 s"}},
		{"readahead_multiply", []string{"2", "0.5"}}, {"scheduler_quantum", []string{"16"}}, {"apm", []string{"128", "255"}}, {"spindown", []string{"6", "0"}}, {"dynamic", []string{"false"}}}},
	{"eeepc_she", nil, []guestOption{{"she_normal", []string{"1"}}, {"load_threshold_normal", []string{"0.7"}}}},
	{"irq", []string{""}, []guestOption{{"affinity", []string{"0-1"}}}},
	{"irqbalance", nil, []guestOption{{"banned_cpus", []string{"3", "2-3"}}}},
	{"modules", nil, []guestOption{
		{"dummy", []string{"+r numdummies=2", "numdummies=3"}}, {"nbd", []string{"+r,nbds_max=2", "nbds_max=8", "+r nbds_max=8 max_part=2"}}, {"nosuchmodule", []string{"+r a=1", "a=1"}}}},
	{"mounts", []string{"", "vdb", "vda"}, []guestOption{{"disable_barriers", []string{"true", "force", "false"}}}},
	{"net", []string{"", "net0", "net1", "net[01]", "!net1", "dummy0"}, []guestOption{
		{"features", []string{"gro off", "gro off, tso: off", "tx off rxvlan off", "rxhash off"}}, {"ring", []string{"rx 128", "rx 512 tx 64"}},
		{"channels", []string{"combined 1"}}, {"pause", []string{"autoneg off rx off tx off"}}, {"coalesce", []string{"rx-usecs 100"}},
		{"txqueuelen", []string{"2000", "500"}}, {"mtu", []string{"1400"}}, {"wake_on_lan", []string{"g", "d", "x"}}, {"nf_conntrack_hashsize", []string{"131072", "1000"}}}},
	{"rtentsk", nil, nil},
	{"scheduler", nil, []guestOption{
		{"sched_migration_cost_ns", []string{"5000000"}}, {"sched_min_granularity_ns", []string{"4000000", "1"}}, {"sched_latency_ns", []string{"24000000"}},
		{"sched_wakeup_granularity_ns", []string{"15000000"}}, {"sched_nr_migrate", []string{"8"}}, {"sched_tunable_scaling", []string{"0"}},
		{"numa_balancing_scan_delay_ms", []string{"2000"}}, {"numa_balancing_scan_size_mb", []string{"512"}}, {"default_irq_smp_affinity", []string{"0-1", "ignore"}},
		{"isolated_cores", []string{"3", "2-3"}}, {"ps_whitelist", []string{"one-sleeps"}}, {"ps_blacklist", []string{".*sshd.*"}},
		{"group.one", []string{"0:f:10:*:^/bin/sleep infinity", "0:b:0:3:^/bin/sleep infinity", "0:*:*:2:^/bin/sleep inf"}}, {"runtime", []string{"0"}}}},
	{"script", nil, []guestOption{{"script", []string{"${i:PROFILE_DIR}/script.sh"}}}},
	{"scsi_host", []string{"", "host1", "host[2-4]"}, []guestOption{{"alpm", []string{"min_power", "medium_power", "max_performance", "nosuch"}}}},
	{"selinux", nil, []guestOption{{"avc_cache_threshold", []string{"8192", "1024", "x"}}}},
	{"service", nil, []guestOption{
		{"service.one", []string{"start,enable", "start,enable,file:${i:PROFILE_DIR}/one.conf", "stop,disable"}},
		{"service.two", []string{"stop,disable", "stop", "stop;start"}}, {"service.nosuch", []string{"stop", "stop,disable"}}}},
	{"sysctl", nil, []guestOption{
		{"vm.zone_reclaim_mode", []string{"1", "3"}}, {"vm.nr_hugepages", []string{"8", "16"}}, {"vm.numa_stat", []string{"0"}},
		{"net.ipv4.ip_forward", []string{"1", "0"}}, {"net.ipv4.conf.all.rp_filter", []string{"1", "2"}}, {"net.ipv4.conf.net1.arp_ignore", []string{"1"}},
		{"net.ipv6.conf.all.forwarding", []string{"1"}}, {"net.core.default_qdisc", []string{"fq", "pfifo_fast"}}, {"net.ipv4.tcp_congestion_control", []string{"bbr", "reno"}},
		{"kernel.timer_migration", []string{"0"}}, {"kernel.numa_balancing_scan_period_min_ms", []string{"2000"}}, {"kernel.nosuch", []string{"1"}},
		{"vm.lowmem_reserve_ratio", []string{"256 128 32 0 0"}}, {"kernel.watchdog_cpumask", []string{"0-1", "0,1,2"}}, {"kernel.sched_rt_runtime_us", []string{"-1", "900000"}}}},
	{"sysfs", nil, []guestOption{
		{"/sys/bus/workqueue/devices/writeback/cpumask", []string{"3", "00000007"}}, {"/sys/class/net/net1/queues/rx-0/rps_cpus", []string{"3", "0000000c"}},
		{"/sys/block/sd*/queue/rq_affinity", []string{"2", "0"}}, {"/sys/block/vdb/queue/nomerges", []string{"1", "2"}}, {"/sys/module/usbcore/parameters/autosuspend", []string{"5"}},
		{"/sys/module/workqueue/parameters/power_efficient", []string{"Y", "1"}}, {"/sys/devices/system/cpu/cpu[0-3]/power/pm_qos_resume_latency_us", []string{"40"}},
		{"/sys/devices/virtual/workqueue/cpumask", []string{"3"}}, {"/sys/nosuch", []string{"1"}}}},
	{"systemd", nil, []guestOption{{"cpu_affinity", []string{"0-1", "0,2"}}}},
	{"uncore", []string{""}, []guestOption{{"max_freq_khz", []string{"2000000"}}, {"min_freq_khz", []string{"50%"}}}},
	{"usb", []string{"", "1-1", "usb*"}, []guestOption{{"autosuspend", []string{"0", "1", "true", "-1"}}}},
	{"video", []string{"", "card0"}, []guestOption{{"radeon_powersave", []string{"dpm-balanced", "low"}}, {"panel_power_savings", []string{"1"}}}},
	{"vm", nil, nil},
}

// coupled are places that two plug-ins, or two spellings, set: a line of each.
var coupled = [][]struct {
	plugin, devices, option string
	values                  []string
}{
	{{"disk", "vdb", "elevator", []string{"none", "bfq"}}, {"sysfs", "", "/sys/block/vdb/queue/nr_requests", []string{"32", "100"}}},
	{{"disk", "vdb", "readahead", []string{"256"}}, {"sysfs", "", "/sys/block/vdb/queue/read_ahead_kb", []string{"512"}}},
	{{"net", "net1", "mtu", []string{"1300"}}, {"sysfs", "", "/sys/class/net/net1/mtu", []string{"1450"}}},
	{{"net", "net1", "txqueuelen", []string{"700"}}, {"sysfs", "", "/sys/class/net/net1/tx_queue_len", []string{"900"}}},
	{{"net", "", "nf_conntrack_hashsize", []string{"8192"}}, {"sysctl", "", "net.netfilter.nf_conntrack_buckets", []string{"16384"}}},
	{{"net", "", "nf_conntrack_hashsize", []string{"4096"}}, {"sysctl", "", "net.netfilter.nf_conntrack_max", []string{"100000"}}},
	{{"vm", "", "transparent_hugepages", []string{"always", "never"}}, {"sysctl", "", "vm.min_free_kbytes", []string{"20000", "40000"}}},
	{{"vm", "", "transparent_hugepages", []string{"always", "never"}}, {"sysfs", "", "/sys/kernel/mm/transparent_hugepage/enabled", []string{"madvise"}}},
	{{"sysctl", "", "vm.nr_hugepages", []string{"8"}}, {"sysctl", "", "vm.nr_hugepages_mempolicy", []string{"12"}}},
	{{"sysctl", "", "vm.nr_hugepages", []string{"8"}}, {"sysfs", "", "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", []string{"5"}}},
	{{"sysctl", "", "vm.nr_hugepages", []string{"8"}}, {"sysfs", "", "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", []string{"6"}}},
	{{"sysctl", "", "net.ipv4.ip_forward", []string{"1"}}, {"sysctl", "", "net.ipv4.conf.all.forwarding", []string{"0", "1"}}},
	{{"sysctl", "", "net.ipv4.ip_forward", []string{"1"}}, {"sysctl", "", "net.ipv4.conf.net1.forwarding", []string{"0"}}},
	{{"usb", "1-1", "autosuspend", []string{"1"}}, {"sysfs", "", "/sys/bus/usb/devices/1-1/power/autosuspend_delay_ms", []string{"3000"}}},
	{{"audio", "", "timeout", []string{"5"}}, {"sysfs", "", "/sys/module/snd_hda_intel/parameters/power_save", []string{"20"}}},
	{{"cpu", "cpu0", "pm_qos_resume_latency_us", []string{"60"}}, {"sysfs", "", "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", []string{"70"}}},
	{{"scsi_host", "host1", "alpm", []string{"min_power"}}, {"sysfs", "", "/sys/class/scsi_host/host1/link_power_management_policy", []string{"medium_power"}}},
	{{"scheduler", "", "sched_migration_cost_ns", []string{"700000"}}, {"sysfs", "", "/sys/kernel/debug/sched/migration_cost_ns", []string{"800000"}}},
	{{"scheduler", "", "default_irq_smp_affinity", []string{"0-1"}}, {"scheduler", "", "isolated_cores", []string{"3"}}},
	{{"selinux", "", "avc_cache_threshold", []string{"2048"}}, {"sysfs", "", "/sys/fs/selinux/avc/cache_threshold", []string{"1000"}}},
}

// newer are plug-ins that TuneD 2.20 does not have; it rejects a profile that names one.
var newer = []string{"acpi", "irq", "uncore"}

// slow are plug-ins that have systemd read all its units, which takes emulated
// processors many seconds: of the profiles in turn only.
var slow = []string{"service", "irqbalance", "bootloader", "modules"}

// guestProfile is a generated profile: its own text and that of its parent, "" for none,
// with all plug-ins and with those that TuneD 2.20 has.
type guestProfile struct {
	n       int
	all     [2]string
	older   [2]string
	plugins map[string]bool
	handled string // /proc/interrupts
	failed  bool   // TuneD ended with an exception before it had applied all of it
}

// profileWriter collects the lines of a profile and its parent.
type profileWriter struct {
	order [2][]string
	units [2]map[string][]string
}

// add appends a line to the unit of a plug-in for some devices, which is made where
// none exists: units of other devices have names of their own.
func (w *profileWriter) add(generation int, plugin, devices, line string) {
	name := plugin
	if devices != "" {
		name = fmt.Sprintf("%s@%x", plugin, devices)
	}
	if w.units[generation] == nil {
		w.units[generation] = map[string][]string{}
	}
	unit, there := w.units[generation][name]
	if !there {
		w.order[generation] = append(w.order[generation], name)
		if devices != "" {
			unit = []string{"type=" + plugin, "devices=" + devices}
		}
	}
	if line != "" {
		unit = append(unit, line)
	}
	w.units[generation][name] = unit
}

// text is a generation's text without some plug-ins.
func (w *profileWriter) text(generation int, without []string) string {
	var b strings.Builder
	for _, name := range w.order[generation] {
		if plugin, _, _ := strings.Cut(name, "@"); slices.Contains(without, plugin) {
			continue
		}
		fmt.Fprintf(&b, "[%s]\n", name)
		for _, line := range w.units[generation][name] {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// generateForGuest writes the nth profile of a seed. Each plug-in and each coupled pair
// is of the profiles in turn; up to three more plug-ins are drawn.
func generateForGuest(seed uint64, n int) guestProfile {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	p := guestProfile{n: n, plugins: map[string]bool{}}
	var w profileWriter
	generations := 1 + r.IntN(2)
	add := func(plugin, devices, line string) {
		p.plugins[plugin] = true
		w.add(r.IntN(generations), plugin, devices, line)
	}
	pick := func(values []string) string { return values[r.IntN(len(values))] }
	chosen := []guestPlugin{guestPlugins[n%len(guestPlugins)]}
	for range 3 {
		if g := guestPlugins[r.IntN(len(guestPlugins))]; !slices.Contains(slow, g.name) {
			chosen = append(chosen, g)
		}
	}
	for _, g := range chosen {
		options := g.options
		for _, c := range choices {
			if c.unit == g.name && !strings.Contains(c.file, "loop0") {
				options = append(slices.Clip(options), guestOption{c.option, c.values})
			}
		}
		if len(options) == 0 {
			add(g.name, "", "")
			continue
		}
		devices := ""
		if g.devices != nil {
			devices = pick(g.devices)
		}
		for _, k := range r.Perm(len(options))[:1+r.IntN(min(3, len(options)))] {
			add(g.name, devices, options[k].name+"="+pick(options[k].values))
		}
	}
	pair := coupled[n%len(coupled)]
	for _, k := range r.Perm(len(pair)) {
		add(pair[k].plugin, pair[k].devices, pair[k].option+"="+pick(pair[k].values))
	}
	if r.IntN(3) == 0 { // both spellings of a limit, one of them 0
		limit := limits[r.IntN(len(limits))]
		valued := r.IntN(2)
		for _, k := range r.Perm(2) {
			v := "0"
			if k == valued {
				v = limit[k].value
			}
			add("sysctl", "", limit[k].name+"="+v)
		}
	}
	head := ""
	if generations == 2 {
		head = "[main]\ninclude=random-parent\n"
	}
	p.all = [2]string{head + w.text(0, nil), w.text(1, nil)}
	p.older = [2]string{head + w.text(0, newer), w.text(1, newer)}
	return p
}
