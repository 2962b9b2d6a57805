package root

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Machine is a simulated machine as a tree of plain files below /proc, /sys, /boot and /etc.
//
// Plain files do not behave like the kernel: they accept every value, return what was written
// without brackets, and a write changes no other file. Two programs can be compared by the last
// values that they wrote, but not by what a kernel would have made of them.
type Machine struct {
	// Dir contains the tree. Tests may write more files to it before a Root uses it.
	Dir string
}

// The simulated machine is an Intel server of the Ice Lake generation.
const (
	machineCPUs  = 8 // two sockets, two cores each, two threads each
	machineNodes = 2
)

// NewMachine creates the tree of an eight-CPU Intel server with two NUMA nodes, cpufreq, one
// NVMe and two SCSI disks, two network devices, and every sysctl that a TuneD profile names.
func NewMachine(t testing.TB) *Machine {
	t.Helper()
	m := &Machine{Dir: t.TempDir()}
	b := treeBuilder{t: t, dir: m.Dir}
	b.sysctls()
	b.cpus()
	b.memory()
	b.blockDevice("devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1", "nvme0n1", "[none] mq-deadline kyber bfq", 0)
	b.blockDevice("devices/pci0000:00/0000:00:05.0/host0/target0:0:0/0:0:0:0/block/sda", "sda", "none [mq-deadline] kyber bfq", 1)
	b.blockDevice("devices/pci0000:00/0000:00:05.0/host0/target0:0:1/0:0:1:0/block/sdb", "sdb", "none [mq-deadline] kyber bfq", 0)
	b.scsiHost()
	b.netDevice("devices/pci0000:00/0000:00:06.0/net/eth0", "eth0", "52:54:00:11:22:33")
	b.netDevice("devices/pci0000:00/0000:00:07.0/net/eth1", "eth1", "52:54:00:11:22:34")
	b.netDevice("devices/virtual/net/lo", "lo", "00:00:00:00:00:00")
	b.modules()
	b.interrupts()
	// Programs that limit the wake-up latency hold it open; here it is a plain file.
	b.file("dev/cpu_dma_latency", "")
	for _, disk := range []string{"nvme0n1", "sda", "sdb"} {
		b.file("dev/"+disk, "")
	}
	return m
}

// files returns the machine's files outside /proc, /sys and /dev (path to content). They are
// laid over the test root, so Root.Written reports what a program changes in them.
func (m *Machine) files() map[string]string {
	return map[string]string{
		"/etc/default/grub": "GRUB_DEFAULT=0\nGRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\nGRUB_CMDLINE_LINUX=\"\"\n",
		"/boot/grub2/grub.cfg": "### BEGIN /etc/grub.d/10_linux ###\nmenuentry 'Debian' {\n" +
			"\tlinux /boot/vmlinuz-6.1.0-fake root=/dev/nvme0n1p1 ro quiet\n\tinitrd /boot/initrd.img-6.1.0-fake\n}\n" +
			"### END /etc/grub.d/10_linux ###\n",
		"/etc/sysctl.conf":                "",
		"/etc/modprobe.d/tuned.conf":      "",
		"/etc/systemd/system.conf.d/.dir": "",
	}
}

type treeBuilder struct {
	t   testing.TB
	dir string
}

func (b treeBuilder) file(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// files writes a block of lines "path value", with paths below dir. Each value ends with a
// newline, as in the kernel.
func (b treeBuilder) files(dir, block string) {
	b.t.Helper()
	for line := range strings.Lines(block) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			b.file(filepath.Join(dir, name), strings.TrimSpace(value)+"\n")
		}
	}
}

// link makes sys/name a relative link to sys/target, as in sysfs.
func (b treeBuilder) link(name, target string) {
	b.t.Helper()
	p := filepath.Join(b.dir, "sys", name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	rel, err := filepath.Rel(filepath.Dir(p), filepath.Join(b.dir, "sys", target))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(rel, p); err != nil {
		b.t.Fatal(err)
	}
}

// device adds to a directory of /sys the files that udev requires of a device.
func (b treeBuilder) device(path, uevent, subsystem string) {
	b.file("sys/"+path+"/uevent", uevent)
	if err := os.MkdirAll(filepath.Join(b.dir, "sys", subsystem), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.link(path+"/subsystem", subsystem)
}

func (b treeBuilder) cpus() {
	var cpuinfo strings.Builder
	for n := range machineCPUs {
		core, socket := n/2%2, n/4
		fmt.Fprintf(&cpuinfo, "processor\t: %d\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n"+
			"model name\t: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz\nstepping\t: 6\nmicrocode\t: 0xd0003a5\n"+
			"cpu MHz\t\t: 2000.000\nphysical id\t: %d\nsiblings\t: 4\ncore id\t\t: %d\ncpu cores\t: 2\n"+
			"flags\t\t: fpu vme de tsc msr constant_tsc nonstop_tsc aperfmperf hwp epb\n\n", n, socket, core)
		cpu := fmt.Sprintf("devices/system/cpu/cpu%d", n)
		b.device(cpu, "DRIVER=processor\nMODALIAS=cpu:type:x86,ven0000fam0006mod006A:feature:,0000\n", "bus/cpu")
		b.link(fmt.Sprintf("bus/cpu/devices/cpu%d", n), cpu)
		b.files("sys/"+cpu, fmt.Sprintf(`
power/energy_perf_bias 6
power/pm_qos_resume_latency_us 0
topology/physical_package_id %d
topology/core_id %d
topology/die_id 0
topology/thread_siblings_list %d-%d
topology/core_cpus_list %d-%d
topology/package_cpus_list %d-%d
cache/index0/level 1
cache/index0/type Data
cache/index0/size 48K
cache/index3/level 3
cache/index3/type Unified
cache/index3/size 49152K
cache/index3/shared_cpu_list %d-%d
cpuidle/state0/name POLL
cpuidle/state0/latency 0
cpuidle/state0/disable 0
cpuidle/state1/name C1
cpuidle/state1/latency 1
cpuidle/state1/disable 0
cpuidle/state2/name C1E
cpuidle/state2/latency 4
cpuidle/state2/disable 0
cpuidle/state3/name C6
cpuidle/state3/latency 170
cpuidle/state3/disable 0
`, socket, core, n&^1, n|1, n&^1, n|1, socket*4, socket*4+3, socket*4, socket*4+3))
		if n > 0 { // the boot processor cannot go off line
			b.file("sys/"+cpu+"/online", "1\n")
		}
		policy := fmt.Sprintf("devices/system/cpu/cpufreq/policy%d", n)
		b.files("sys/"+policy, fmt.Sprintf(`
affected_cpus %d
related_cpus %d
scaling_driver intel_pstate
scaling_governor powersave
scaling_available_governors performance powersave
scaling_min_freq 800000
scaling_max_freq 3200000
cpuinfo_min_freq 800000
cpuinfo_max_freq 3200000
energy_performance_preference balance_performance
energy_performance_available_preferences default performance balance_performance balance_power power
boost 0
`, n, n))
		b.link(cpu+"/cpufreq", policy)
	}
	b.file("proc/cpuinfo", cpuinfo.String())
	all := fmt.Sprintf("0-%d\n", machineCPUs-1)
	for _, name := range []string{"online", "present", "possible"} {
		b.file("sys/devices/system/cpu/"+name, all)
	}
	b.file("sys/devices/system/cpu/isolated", "\n")
	b.file("sys/devices/system/cpu/offline", "\n")
	b.files("sys/devices", `
system/cpu/intel_pstate/status active
system/cpu/intel_pstate/no_turbo 0
system/cpu/intel_pstate/min_perf_pct 25
system/cpu/intel_pstate/max_perf_pct 100
system/cpu/cpufreq/boost 0
system/cpu/cpuidle/current_driver intel_idle
system/cpu/cpuidle/current_governor menu
system/cpu/smt/active 1
system/cpu/smt/control on
cpu/caps/pmu_name icelake
cpu/caps/max_precise 3
system/machinecheck/machinecheck0/ignore_ce 0
virtual/workqueue/cpumask ff
virtual/workqueue/writeback/cpumask ff
`)
	b.link("bus/workqueue/devices/writeback", "devices/virtual/workqueue/writeback")
	b.file("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.1.0-fake root=/dev/nvme0n1p1 ro quiet\n")
}

func (b treeBuilder) memory() {
	b.file("proc/meminfo", "MemTotal:       65536000 kB\nMemFree:        60000000 kB\nMemAvailable:   61000000 kB\n"+
		"HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n")
	for node := range machineNodes {
		dir := fmt.Sprintf("devices/system/node/node%d", node)
		b.device(dir, "", "bus/node")
		b.link(fmt.Sprintf("bus/node/devices/node%d", node), dir)
		b.files("sys/"+dir, fmt.Sprintf("cpulist %d-%d\ncpumap %s\ndistance %s\nhugepages/hugepages-2048kB/nr_hugepages 0\n"+
			"hugepages/hugepages-2048kB/free_hugepages 0\n",
			node*4, node*4+3, []string{"0f", "f0"}[node], []string{"10 21", "21 10"}[node]))
		b.file("sys/"+dir+"/meminfo", fmt.Sprintf("Node %d MemTotal:       32768000 kB\n", node))
	}
	b.files("sys", `
devices/system/node/online 0-1
devices/system/node/possible 0-1
kernel/mm/transparent_hugepage/enabled [always] madvise never
kernel/mm/transparent_hugepage/defrag always defer defer+madvise [madvise] never
kernel/mm/transparent_hugepage/shmem_enabled always within_size advise [never] deny force
kernel/mm/transparent_hugepage/khugepaged/defrag 1
kernel/mm/hugepages/hugepages-2048kB/nr_hugepages 0
kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages 0
kernel/mm/ksm/run 0
kernel/mm/numa/demotion_enabled false
kernel/debug/sched/min_granularity_ns 3000000
kernel/debug/sched/wakeup_granularity_ns 4000000
kernel/debug/sched/latency_ns 24000000
kernel/debug/sched/migration_cost_ns 500000
kernel/debug/sched/nr_migrate 32
kernel/debug/sched/tunable_scaling 1
fs/selinux/enforce 1
fs/selinux/avc/cache_threshold 512
firmware/acpi/platform_profile balanced
firmware/acpi/platform_profile_choices low-power balanced performance
class/dmi/id/sys_vendor Invented
class/dmi/id/product_name Server 8
class/dmi/id/chassis_type 23
`)
}

// blockDevice creates a disk of 931 GiB.
func (b treeBuilder) blockDevice(path, name, schedulers string, rotational int) {
	b.device(path, "MAJOR=259\nMINOR=0\nDEVNAME="+name+"\nDEVTYPE=disk\n", "class/block")
	b.link("class/block/"+name, path)
	b.link("block/"+name, path)
	parent := filepath.Dir(path)
	if filepath.Base(parent) == "block" {
		parent = filepath.Dir(parent)
		b.device(parent, "DEVTYPE=scsi_device\nDRIVER=sd\n", "bus/scsi")
		b.link("bus/scsi/devices/"+filepath.Base(parent), parent)
		b.files("sys/"+parent, "vendor ATA\nmodel INVENTED-DISK\nqueue_depth 32\n")
		b.files("sys/"+parent+"/scsi_disk/"+filepath.Base(parent), "cache_type write back\n")
	} else {
		b.device(parent, "NVME_TRTYPE=pcie\n", "class/nvme")
		b.link("class/nvme/"+filepath.Base(parent), parent)
		b.files("sys/"+parent, "model INVENTED-NVME\ntransport pcie\n")
	}
	b.link(path+"/device", parent)
	b.files("sys/"+path, fmt.Sprintf(`
size 1953525168
removable 0
ro 0
stat 1000 10 80000 500 2000 20 160000 900 0 800 1400
queue/scheduler %s
queue/read_ahead_kb 128
queue/nr_requests 256
queue/rotational %d
queue/rq_affinity 1
queue/nomerges 0
queue/iostats 1
queue/add_random 0
queue/write_cache write back
queue/wbt_lat_usec 75000
queue/max_sectors_kb 1280
queue/max_hw_sectors_kb 2048
queue/logical_block_size 512
queue/iosched/quantum 8
`, schedulers, rotational))
}

func (b treeBuilder) scsiHost() {
	path := "devices/pci0000:00/0000:00:05.0/host0/scsi_host/host0"
	b.device(path, "", "class/scsi_host")
	b.link("class/scsi_host/host0", path)
	b.file("sys/"+path+"/link_power_management_policy", "max_performance\n")
	b.file("sys/"+path+"/proc_name", "ahci\n")
}

func (b treeBuilder) netDevice(path, name, address string) {
	b.device(path, "INTERFACE="+name+"\nIFINDEX=2\n", "class/net")
	b.link("class/net/"+name, path)
	b.files("sys/"+path, "address "+address+`
operstate up
mtu 1500
speed 10000
duplex full
tx_queue_len 1000
carrier 1
type 1
statistics/rx_bytes 1000
statistics/tx_bytes 1000
statistics/rx_packets 10
statistics/tx_packets 10
queues/rx-0/rps_cpus 00
queues/tx-0/xps_cpus 00
`)
	if !strings.Contains(path, "virtual") {
		parent := filepath.Dir(filepath.Dir(path))
		b.device(parent, "DRIVER=ice\nPCI_SLOT_NAME="+filepath.Base(parent)+"\n", "bus/pci")
		b.link("bus/pci/devices/"+filepath.Base(parent), parent)
		b.link(path+"/device", parent)
		b.files("sys/"+parent, "numa_node 0\nvendor 0x8086\ndevice 0x1592\n")
	}
}

func (b treeBuilder) modules() {
	b.files("sys/module", `
nf_conntrack/parameters/hashsize 65536
nvme_core/parameters/io_timeout 30
nvme_core/parameters/max_retries 5
snd_hda_intel/parameters/power_save 0
snd_hda_intel/parameters/power_save_controller N
kvm/parameters/halt_poll_ns 200000
`)
	b.file("sys/module/cpufreq_conservative/initstate", "live\n")
}

func (b treeBuilder) interrupts() {
	var table strings.Builder
	table.WriteString("     ")
	for n := range machineCPUs {
		fmt.Fprintf(&table, "       CPU%d", n)
	}
	table.WriteString("\n")
	b.file("proc/irq/default_smp_affinity", "ff\n")
	for irq, name := range map[int]string{24: "nvme0q0", 25: "nvme0q1", 26: "eth0-TxRx-0", 27: "eth0-TxRx-1"} {
		dir := fmt.Sprintf("proc/irq/%d/", irq)
		b.file(dir+"smp_affinity", "ff\n")
		b.file(dir+"smp_affinity_list", "0-7\n")
		b.file(dir+"effective_affinity_list", "0\n")
		if err := os.MkdirAll(filepath.Join(b.dir, dir, name), 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, line := range []string{"24 nvme0q0", "25 nvme0q1", "26 eth0-TxRx-0", "27 eth0-TxRx-1"} {
		irq, name, _ := strings.Cut(line, " ")
		fmt.Fprintf(&table, "%4s:%s  PCI-MSI  edge  %s\n", irq, strings.Repeat("          0", machineCPUs), name)
	}
	b.file("proc/interrupts", table.String())
}
