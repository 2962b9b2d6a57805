package setting_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

const (
	same      = setting.Same
	different = setting.Different
	unclear   = setting.Unclear
)

// TestCompareAsTheKernel compares written texts with the texts that the kernel
// prints, for each format of the table.
func TestCompareAsTheKernel(t *testing.T) {
	const queue = "/sys/devices/x/block/sda/queue/"
	kinds := setting.Kernel(machine.Mounted(t, map[string]string{
		"/sys/devices/system/cpu/possible":              "0-3\n",
		queue + "rotational":                            "1\n",
		"/sys/devices/x/block/nvme0n1/queue/rotational": "0\n",
	}))
	for _, c := range []struct {
		name, want, read string
		like             setting.Comparison
	}{
		// Lists of ranges, masks, lists of CPUs.
		{"net.ipv4.ip_local_reserved_ports", "8080,8081,22", "22,8080-8081", same},
		{"net.ipv4.ip_local_reserved_ports", "8080-8082", "8080-8081", different},
		{"net.ipv4.ip_local_reserved_ports", "", "22", different},
		{"kernel.watchdog_cpumask", "1,0,2", "0-2", same},
		{"kernel.watchdog_cpumask", "0,2", "0-2", different},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "3,1-2", "1-3", same},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "all", "0-3", same},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "All", "0-2", different},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "1-N", "1-3", same},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "N", "3", same},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "0-N:1/2", "0,2", same},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "all:2/4", "0-1", same},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "0 2", "0,2", same},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "0-7:2/4", "0-1,4-5", same},
		{"/sys/fs/cgroup/x.slice/cpuset.cpus", "0-7:2/4", "0-1", different},
		{"/sys/fs/cgroup/x.slice/cpuset.mems", "all", "0", unclear}, // N is the kernel's limit
		{"/sys/devices/system/cpu/smt/control", "off", "off", same},
		{"/sys/devices/system/cpu/smt/control", "on", "off", different},
		{"/sys/devices/system/cpu/smt/control", "off", "notsupported", different},
		{"/sys/devices/system/cpu/smt/control", "on", "notimplemented", different},
		{"/sys/devices/system/cpu/smt/control", "off", "forceoff", different},
		{"/sys/devices/system/cpu/smt/control", "1", "off", same},
		{"/sys/devices/system/cpu/smt/control", "2", "on", unclear},
		{"/sys/devices/system/cpu/smt/control", "2", "4", different},
		{"/sys/devices/x/net/eth0/queues/rx-0/rps_cpus", "f", "00000000,0000000f", same},
		{"/sys/devices/x/net/eth0/queues/rx-0/rps_cpus", "1,2", "00000001,00000002", same},
		{"/sys/devices/x/net/eth0/queues/rx-0/rps_cpus", "1,2", "00000000,00000012", different},
		{"net.core.rps_default_mask", "03", "3", same},
		{"/sys/bus/workqueue/devices/writeback/cpumask", "1f", "0000,0000000f", different},
		{"/sys/bus/workqueue/devices/writeback/cpumask", "0000000f", "f", same},
		// Booleans.
		{"/sys/kernel/mm/numa/demotion_enabled", "1", "true", same},
		{"/sys/kernel/mm/numa/demotion_enabled", "on", "false", different},
		{"/sys/kernel/mm/swap/vma_ra_enabled", "no", "false", same},
		{"/sys/kernel/debug/sched/verbose", "1", "Y", same},
		{"/sys/module/workqueue/parameters/power_efficient", "off", "N", same},
		{"/sys/module/workqueue/parameters/power_efficient", "Yes", "Y", same},
		{"/sys/module/kvm/parameters/nx_huge_pages", "auto", "N", unclear},
		{"/sys/module/kvm/parameters/halt_poll_ns", "0x10", "16", same},
		{"/sys/module/kvm/parameters/halt_poll_ns", "010", "8", same},
		{"/sys/module/kvm/parameters/halt_poll_ns", "200", "100", different},
		{"/sys/module/snd/parameters/index", "1,off", "Y,N", same},
		{"/sys/module/workqueue/parameters/default_affinity_scope", "cach", "cache", unclear},
		{"/sys/module/pcie_aspm/parameters/policy", "performance", "default", different},
		{"/sys/class/scsi_host/host0/link_power_management_policy", "min_power", "max_performance", different},
		{"/sys/kernel/mm/ksm/use_zero_pages", "yes", "1", same},
		{"/sys/devices/system/cpu/cpufreq/boost", "off", "0", same},
		{"/sys/devices/x/quirk", "1", "true", unclear}, // unknown file format
		// The switch of the multi-generational LRU.
		{"/sys/kernel/mm/lru_gen/enabled", "y", "0x0007", same},
		{"/sys/kernel/mm/lru_gen/enabled", "Y", "0x0000", different},
		{"/sys/kernel/mm/lru_gen/enabled", "y", "0x0003", unclear},
		{"/sys/kernel/mm/lru_gen/enabled", "n", "0x0000", same},
		{"/sys/kernel/mm/lru_gen/enabled", "n", "0x0007", different},
		{"/sys/kernel/mm/lru_gen/enabled", "5", "0x0005", same},
		{"/sys/kernel/mm/lru_gen/enabled", "5", "0x0007", different},
		// One switch is written, the whole list is read.
		{"/sys/kernel/debug/sched/features", "NO_HRTICK", "PLACE_LAG NO_HRTICK", same},
		{"/sys/kernel/debug/sched/features", "HRTICK", "PLACE_LAG NO_HRTICK", different},
		{"/sys/kernel/debug/sched/features", "PLACE_LAG NO_HRTICK", "PLACE_LAG NO_HRTICK", same},
		{"/sys/kernel/debug/sched/features", "GENTLE", "PLACE_LAG NO_HRTICK", unclear},
		{"/sys/kernel/tracing/trace_options", "nooverwrite", "print-parent\nnooverwrite\n", same},
		{"/sys/fs/cgroup/cgroup.subtree_control", "+cpu -io", "cpuset cpu", same},
		{"/sys/fs/cgroup/cgroup.subtree_control", "+io", "cpuset cpu", different},
		{"net.ipv4.tcp_allowed_congestion_control", "cubic reno", "reno cubic", same},
		{"net.ipv4.tcp_allowed_congestion_control", "cubic", "reno cubic", different},
		// Second names of a choice.
		{queue + "scheduler", "deadline", "mq-deadline", same},
		{queue + "scheduler", "none", "mq-deadline", different},
		{queue + "write_cache", "none", "write through", same},
		{"/sys/devices/system/cpu/cpu0/power/energy_perf_bias", "performance", "0", same},
		{"/sys/devices/system/cpu/cpu0/power/energy_perf_bias", "6", "normal", different},
		{"/sys/kernel/mm/transparent_hugepage/enabled", "never", "madvise", different},
		{"kernel.core_pattern", "core.%p", "core", different},
		// Texts that look like numbers or masks.
		{"kernel.core_pattern", "0A", "a", different},
		{"kernel.core_pattern", "0xa", "10", different},
		{"kernel.core_pattern", "01", "1", different},
		{"kernel.core_pattern", "|/bin/x  %p", "|/bin/x %p", same},
		{"kernel.hostname", "CAFE", "cafe", different},
		{"net.core.default_qdisc", "FACE", "face", different},
		{"/sys/devices/system/cpu/cpu0/power/energy_perf_bias", "0x6", "6", same},
		// Numbers that are rounded, or select a default.
		{queue + "read_ahead_kb", "17", "16", same},
		{queue + "read_ahead_kb", "0128", "128", same}, // base 10
		{queue + "read_ahead_kb", "0100", "64", different},
		{"fs.pipe-max-size", "040000", "16384", same}, // octal
		{queue + "read_ahead_kb", "32", "16", different},
		{queue + "nr_requests", "3", "4", same},
		{queue + "nr_requests", "64", "256", different},
		{queue + "wbt_lat_usec", "-1", "75000", same},
		{queue + "wbt_lat_usec", "-1", "2000", different},
		{"/sys/devices/x/block/nvme0n1/queue/wbt_lat_usec", "-1", "2000", same},
		{queue + "wbt_lat_usec", "-1", "0", unclear},
		{queue + "max_sectors_kb", "0", "1280", unclear},
		{"net.core.rps_sock_flow_entries", "1000", "1024", same},
		{"fs.pipe-max-size", "1000000", "1048576", same},
		{"net.netfilter.nf_conntrack_buckets", "1000", "1024", same},
		{"net.ipv4.neigh.default.retrans_time_ms", "1001", "1004", unclear},
		{"/sys/fs/cgroup/x.slice/memory.high", "1G", "1073741824", same},
		{"/sys/fs/cgroup/x.slice/memory.high", "1G", "max", unclear},
		{"/sys/fs/cgroup/x.slice/cpu.max", "50000", "50000 100000", same},
		// Numbers.
		{"net.ipv4.tcp_max_syn_backlog", "04000", "2048", same},
		{"net.ipv4.tcp_max_syn_backlog", "04000", "4000", different},
		{"kernel.printk", "3", "3 4 1 7", same},
		{"kernel.printk", "3 4", "3 5 1 7", different},
		{"kernel.shmmax", "18446744073692774399", "18446744073692774399", same},
		{"vm.swappiness", "0x3C", "60", same},
		{"vm.swappiness", "ten", "10", different},
		{"/sys/devices/x/number", "16", "0x10", same},
		{"/sys/devices/x/number", "7", "8", different},
		{"/sys/devices/x/number", "010", "8", unclear}, // read in base 0 or 10
		{"/sys/devices/x/number", "010", "9", different},
		// Not in the table.
		{"/sys/devices/x/mode", "fast", "mode=fast", unclear},
		{"/sys/devices/x/mode", " fast", "fast\n", same},
		{"dev.x.mode", "fast", "quick", unclear},
		{"/sys/devices/x/mode", "AC", "ac", unclear},
		{"/sys/devices/x/mode", "a", "0a", unclear},
		{"dev.x.mode", "DC", "dc", unclear},
		{"/sys/devices/x/mode", "ff", "00000000,000000ff", same},
		{"/sys/devices/x/mode", "fe", "00000000,000000ff", unclear},
	} {
		s, err := setting.Parse(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := kinds.Compare(s, setting.Text(c.want), setting.Text(c.read)); got != c.like {
			t.Errorf("%s: %q written, %q read: %v, want %v", c.name, c.want, c.read, got, c.like)
		}
		if got := kinds.Compare(s, setting.Text(c.read), setting.Text(c.read)); got != same {
			t.Errorf("%s: %q is not itself: %v", c.name, c.read, got)
		}
	}
}

// TestCompareInPages compares values that the kernel rounds to pages, on
// machines with pages of 4 and 64 KiB.
func TestCompareInPages(t *testing.T) {
	for _, c := range []struct {
		name, want string
		reads      map[int64]string // by page size
	}{
		{"/sys/devices/x/block/sda/queue/read_ahead_kb", "100", map[int64]string{4096: "100", 65536: "64"}},
		{"fs.pipe-max-size", "10000", map[int64]string{4096: "16384", 65536: "65536"}},
		{"net.netfilter.nf_conntrack_buckets", "1000", map[int64]string{4096: "1024", 65536: "8192"}},
		{"/sys/fs/cgroup/x.slice/memory.max", "100000", map[int64]string{4096: "98304", 65536: "65536"}},
	} {
		for page, read := range c.reads {
			auxv := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 6), uint64(page)) // AT_PAGESZ
			kinds := setting.Kernel(machine.Mounted(t, map[string]string{"/proc/self/auxv": string(auxv)}))
			kind := "sysctl"
			if strings.HasPrefix(c.name, "/sys/") {
				kind = "sysfs"
			}
			for other, text := range c.reads {
				want := different
				if other == page || text == read || text == c.want {
					want = same
				}
				if got := kinds.Compare(setting.Setting{Kind: kind, Name: c.name}, setting.Text(c.want), setting.Text(text)); got != want {
					t.Errorf("pages of %d: %s: %s written, %s read: %v, want %v", page, c.name, c.want, text, got, want)
				}
			}
		}
	}
}

// Each format names the kernel's parser and printer.
func TestFormatsNameTheKernel(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("formats.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "var fileFormats")
	table, _, _ = strings.Cut(table, "\n}\n")
	formats := strings.Count(table, "{files:")
	for _, field := range []string{"reader", "writer"} {
		if n := strings.Count(table, field+": "); n != formats || formats < 20 || strings.Contains(table, field+`: ""`) {
			t.Errorf("%d of %d formats name the kernel's %s", n, formats, field)
		}
	}
}
