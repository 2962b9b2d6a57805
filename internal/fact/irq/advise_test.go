package irq

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/unit"
)

// advised returns the advice for a machine, one line for each move and each device that is left.
func advised(h *host.Host, devices ...string) string {
	a, unknown := Read(h).Advise(devices)
	var out []string
	for _, m := range a.Moves {
		out = append(out, fmt.Sprintf("%s|%s|%s|%s|%s", m.Device, m.What, m.Change.Setting, m.words(m.Change.Want), m.Change.Reason.Text))
	}
	for _, l := range a.Left {
		out = append(out, l.Device+": "+l.Why)
	}
	for _, name := range unknown {
		out = append(out, "unknown "+name)
	}
	return strings.Join(out, "\n") + "\n"
}

// Advice for parts of the machine of server.
const (
	rare    = "0000:83:00.0: its interrupts elsewhere are rarely used\n"
	fine    = "nvme0: served on its node\n"
	flows   = "|RFS|sysctl:net.core.rps_sock_flow_entries|4096|eth0 has entries, but RFS is off\n"
	rps     = "eth0|rx-0 RPS|sysfs:/sys/class/net/eth0/queues/rx-0/rps_cpus|4-6|CPUs 0-1 are not on node 1\n"
	card    = "eth0|irq 41|irq:41/affinity|6|CPU 1 is not on node 1\n"
	queues  = "/sys/devices/pci0000:00/0000:81:00.0/net/eth0/queues/"
	senders = "eth0|tx-0 XPS|sysfs:/sys/class/net/eth0/queues/tx-0/xps_cpus|0,2|CPUs of all nodes share a queue\n" +
		"eth0|tx-1 XPS|sysfs:/sys/class/net/eth0/queues/tx-1/xps_cpus|4-7|CPUs of all nodes share a queue\n" +
		"eth0|tx-2 XPS|sysfs:/sys/class/net/eth0/queues/tx-2/xps_cpus|1,3|CPUs of all nodes share a queue\n"
	disk = "vda|irq 61|irq:61/affinity|%s|CPU 5 serves 2 busy interrupts\n"
)

const file = "/etc/default/irqbalance"

// TestAdvise: what is moved, what is left, and what irqbalance is told.
func TestAdvise(t *testing.T) {
	running := "/proc/900/comm"
	for _, x := range []struct {
		name    string
		change  map[string]string // files; "" removes one; in /proc/interrupts OLD=NEW
		devices []string
		want    string
	}{
		{"without irqbalance", map[string]string{running: "", "/proc/interrupts": "virtio1-req=virtio1-input"}, nil,
			card + rps + fmt.Sprintf(disk, "4") + flows + rare + fine},
		{"named devices", map[string]string{running: ""}, []string{"nvme0", "eth9"}, fine + "unknown eth9\n"},
		{"irqbalance without a file", map[string]string{file: ""}, nil,
			rps + flows + rare + "vda: the kernel manages its interrupts: no program can move them\n" + fine},
		{"several on one CPU, irqbalance runs", map[string]string{"/proc/interrupts": "virtio1-req=virtio1-input"}, []string{"vda"}, "vda: irqbalance spreads them when they are busy\n"},
		{"irqbalance is told to leave it", nil, []string{"eth0"},
			"|irqbalance|irqbalance:" + file + "/IRQBALANCE_ARGS|\"--deepestcache=2 --banirq=41\"|it would move them back\n" + card + rps + flows},
		{"irqbalance leaves it already", map[string]string{file: "IRQBALANCE_ARGS=--banirq=41\n"}, []string{"eth0"}, card + rps + flows},
		{"irqbalance leaves its module", map[string]string{file: "IRQBALANCE_ARGS=--banmod=ixgbe\n", "/sys/devices/pci0000:00/0000:81:00.0/driver": "-> ../../../bus/pci/drivers/ixgbe"}, []string{"eth0"}, card + rps + flows},
		{"a policy script decides", map[string]string{file: "IRQBALANCE_ARGS=--policyscript=/etc/p\n"}, []string{"eth0"}, rps + flows},
		{"irqbalance uses isolated CPUs", map[string]string{file: "IRQBALANCE_BANNED_CPULIST=0\n", "/proc/interrupts": "  10 =9999 "}, []string{"0000:83:00.0"},
			"|irqbalance|irqbalance:" + file + "|0,3,7|its list lets it use isolated CPUs\n0000:83:00.0: irqbalance will move them off the isolated CPUs\n"},
		{"irqbalance uses isolated CPUs by a mask", map[string]string{file: "IRQBALANCE_BANNED_CPUS=1\n", "/proc/interrupts": "  10 =9999 "}, []string{"0000:83:00.0"},
			"0000:83:00.0: IRQBALANCE_BANNED_CPUS in " + file + " lets irqbalance use isolated CPUs: remove it by hand\n"},
		{"irqbalance may not use the node", map[string]string{file: "IRQBALANCE_BANNED_CPULIST=3-7\n"}, []string{"eth0"}, rps + flows},
		{"isolated CPUs, busy", map[string]string{running: "", "/proc/interrupts": "  10 =9999 "}, []string{"0000:83:00.0"},
			"0000:83:00.0|irq 70|irq:70/affinity|0-2|CPU 3 is isolated\n"},
		{"one node", map[string]string{running: "", "/sys/devices/system/node/node1/": "", "/sys/devices/system/node/node1/cpulist": "", "/sys/devices/system/node/node0/cpulist": "0-7\n"}, []string{"nvme0", "eth0"},
			flows + "eth0: one NUMA node\nnvme0: one NUMA node\n"},
		{"transmit queues shared by nodes", map[string]string{running: "", "/proc/sys/net/core/rps_sock_flow_entries": "8192\n", queues + "tx-0/xps_cpus": "00\n", queues + "tx-1/xps_cpus": "00\n", queues + "tx-2/xps_cpus": "00\n"}, []string{"eth0"},
			card + rps + senders},
		{"a node without CPUs", map[string]string{running: "", "/proc/sys/net/core/rps_sock_flow_entries": "1\n", "/sys/devices/system/node/node0/cpulist": "0-7\n", "/sys/devices/system/node/node1/cpulist": "\n", queues + "rx-0/rps_cpus": "00\n", queues + "tx-0/xps_cpus": "00\n", queues + "tx-1/xps_cpus": "00\n"}, []string{"eth0"},
			"eth0: one NUMA node\n"},
		{"managed by the kernel", map[string]string{running: "", "/proc/interrupts": "nvme0q0=nvme0q1", "/proc/irq/50/smp_affinity_list": "6\n", "/proc/irq/50/effective_affinity_list": "6\n"}, []string{"nvme0"},
			"nvme0: the kernel manages its interrupts: no program can move them\n"},
		{"one CPU for several", map[string]string{running: "", "/sys/devices/system/cpu/isolated": "3-6\n", "/sys/devices/system/cpu/nohz_full": "\n", "/sys/devices/system/node/node1/cpulist": "4-7\n", "/proc/irq/40/effective_affinity_list": "7\n"}, []string{"eth0"},
			"eth0|rx-0 RPS|sysfs:/sys/class/net/eth0/queues/rx-0/rps_cpus|7|CPUs 0-1 are not on node 1\n" + flows},
		{"an interrupt on each CPU", map[string]string{running: "", "/sys/devices/system/node/node0/cpulist": "1-3\n", "/sys/devices/system/node/node1/cpulist": "0,4-7\n", "/sys/devices/system/cpu/isolated": "2-6\n", "/proc/irq/40/effective_affinity_list": "0\n", queues + "rx-0/rps_cpus": "00\n", "/proc/sys/net/core/rps_sock_flow_entries": "1\n"}, []string{"eth0"}, "eth0: each CPU has an interrupt of its own\n"},
		{"all CPUs of the node isolated", map[string]string{running: "", "/sys/devices/system/cpu/isolated": "4-7\n", "/proc/interrupts": "virtio1-req=virtio1-input"}, []string{"vda"}, "vda: node 1 has no CPU that is not isolated\n"},
		{"no node, an offline CPU", map[string]string{running: "", "/sys/devices/pci0000:00/0000:82:00.0/numa_node": "-1\n", "/proc/irq/60/smp_affinity_list": "5,8\n", "/proc/irq/60/effective_affinity_list": ""}, []string{"vda"}, "vda: of no NUMA node\n"},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := server(t)
			change := maps.Clone(x.change)
			if old, text, ok := strings.Cut(change["/proc/interrupts"], "="); ok {
				change["/proc/interrupts"] = strings.ReplaceAll(f["/proc/interrupts"], old, text)
			}
			for name, text := range change {
				if f[name] = text; text == "" {
					delete(f, name)
				}
			}
			if got := advised(machine.Mounted(t, f), x.devices...); got != x.want {
				t.Errorf("got\n%swant\n%s", got, x.want)
			}
		})
	}
}

// TestSenders: each node has transmit queues in proportion to its CPUs, and no queue is without one.
func TestSenders(t *testing.T) {
	for _, x := range []struct {
		nodes  string
		queues int
		want   string
	}{
		{"0-3 4-7", 2, "0-3 4-7"},
		{"0-3 4-7", 3, "0,2 4-7 1,3"},
		{"0-3 4-7", 8, "0 4 1 5 2 6 3 7"},
		{"0-3 4-7", 12, "0 4 1 5 2 6 3 7"}, // more queues than CPUs: four are not used
		{"0 1-7", 4, "0 1,4,7 2,5 3,6"},    // not two queues for one CPU
		{"0 1-7", 2, "0 1-7"},
		{"0-1 2-3 4-7", 4, "0-1 2-3 4,6 5,7"},
	} {
		c := adviser{}
		for _, list := range strings.Fields(x.nodes) {
			cpus, err := unit.ParseCPUList(list)
			if err != nil {
				t.Fatal(err)
			}
			c.nodes = append(c.nodes, cpus)
		}
		var got []string
		for _, cpus := range c.senders(x.queues) {
			got = append(got, cpus.String())
		}
		if words := strings.Join(got, " "); words != x.want {
			t.Errorf("nodes %s, %d queues: %s, want %s", x.nodes, x.queues, words, x.want)
		}
	}
}

// TestSpread: interrupts of a device on one CPU are spread until they are even, counting those that
// leave a CPU, and those of other devices.
func TestSpread(t *testing.T) {
	for _, x := range []struct {
		name   string
		target string
		others map[int]int // busy interrupts of other devices, by CPU
		count  int         // interrupts of the device, all on CPU 5
		want   string      // the CPU of each
	}{
		{"two CPUs", "4-5", nil, 4, "5 4 4 5"},
		{"an odd number", "4-5", nil, 3, "5 4 5"},
		{"three CPUs", "4-6", nil, 6, "5 4 6 4 6 5"},
		{"even with another device", "4-5", map[int]int{4: 1}, 2, "5 4"},
		{"the other CPU is busier", "4-5", map[int]int{4: 3}, 2, "5 5"},
	} {
		target, err := unit.ParseCPUList(x.target)
		if err != nil {
			t.Fatal(err)
		}
		d := Device{Name: "vda", Verdict: OneCPU, busy: x.count}
		for i := range x.count {
			d.lines = append(d.lines, interrupt{number: i, cpus: unit.CPUs(5), count: 9999})
		}
		c := adviser{Report: &Report{online: unit.CPUs(4, 5, 6, 7)}, house: target, load: maps.Clone(x.others)}
		if c.load == nil {
			c.load = map[int]int{}
		}
		c.load[5] += x.count
		left := c.interrupts(&d)
		got := slices.Repeat([]string{"5"}, x.count)
		for _, m := range c.Moves {
			n, err := strconv.Atoi(strings.TrimPrefix(m.What, "irq "))
			if err != nil {
				t.Fatal(err)
			}
			got[n] = m.Change.Want.Text
		}
		if words := strings.Join(got, " "); words != x.want || len(c.Moves) == 0 && left == "" {
			t.Errorf("%s: %s, want %s (%s)", x.name, words, x.want, left)
		}
	}
}
