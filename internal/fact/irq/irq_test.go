package irq

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// server has two nodes of four CPUs, of which 3 and 7 are isolated: a network card on node 1 whose
// interrupts node 0 serves in part, an NVMe disk on node 0, a virtio disk with two queues on one
// CPU, and a card that an isolated CPU serves.
func server() map[string]string {
	f := map[string]string{
		"/sys/devices/system/node/node0/cpulist": "0-3\n", "/sys/devices/system/node/node1/cpulist": "4-7\n",
		"/sys/devices/system/cpu/online": "0-7\n", "/sys/devices/system/cpu/isolated": "3\n", "/sys/devices/system/cpu/nohz_full": "7\n",
		"/proc/sys/net/core/rps_sock_flow_entries": "0\n", "/proc/1/comm": "systemd\n", "/proc/900/comm": "irqbalance\n",
	}
	lines := []string{"           CPU0       CPU1       CPU2       CPU3       CPU4       CPU5       CPU6       CPU7"}
	irq := func(number int, counts [8]int, text, served, effective, hint string) {
		line := fmt.Sprintf("%4d:", number)
		for _, n := range counts {
			line += fmt.Sprintf(" %10d", n)
		}
		lines = append(lines, line+"  "+text)
		dir := fmt.Sprintf("/proc/irq/%d/", number)
		f[dir+"smp_affinity_list"], f[dir+"effective_affinity_list"], f[dir+"affinity_hint"], f[dir+"node"] = served+"\n", effective+"\n", hint+"\n", "-1\n"
	}
	irq(40, [8]int{3000, 0, 0, 0, 9000}, "IR-PCI-MSIX-0000:81:00.0 0-edge eth0-TxRx-0", "0-7", "4", "00000010")
	irq(41, [8]int{0, 4000}, "IR-PCI-MSIX-0000:81:00.0 1-edge eth0-TxRx-1", "0-7", "1", "00000020")
	irq(50, [8]int{0, 0, 5000}, "IR-PCI-MSIX-0000:01:00.0 0-edge nvme0q0", "2", "2", "00000000")
	irq(60, [8]int{0, 0, 0, 0, 0, 2000}, "PCI-MSIX-0000:82:00.0 0-edge virtio1-req.0", "5", "5", "00000000")
	irq(61, [8]int{0, 0, 0, 0, 0, 2000}, "PCI-MSIX-0000:82:00.0 1-edge virtio1-req.1", "5", "5", "00000000")
	irq(70, [8]int{0, 0, 0, 10}, "IR-PCI-MSIX-0000:83:00.0 0-edge mlx5_comp0@pci:0000:83:00.0", "3", "", "00000000")
	lines = append(lines, " LOC:          1          1          1          1          1          1          1          1  Local timer interrupts", " ERR:          0")
	f["/proc/interrupts"] = strings.Join(lines, "\n") + "\n"
	pci := func(address, node string, irqs ...string) string {
		real := "/sys/devices/pci0000:00/" + address
		f["/sys/bus/pci/devices/"+address] = "-> ../../../devices/pci0000:00/" + address
		f[real+"/numa_node"] = node + "\n"
		for _, n := range irqs {
			f[real+"/msi_irqs/"+n] = "msix\n"
		}
		return real
	}
	card := pci("0000:81:00.0", "1", "40", "41")
	f[card+"/net/eth0/queues/rx-0/rps_cpus"], f[card+"/net/eth0/queues/rx-0/rps_flow_cnt"] = "03\n", "2048\n"
	f[card+"/net/eth0/queues/rx-1/rps_cpus"], f[card+"/net/eth0/queues/rx-1/rps_flow_cnt"] = "00\n", "2048\n"
	f[card+"/net/eth0/queues/tx-0/xps_cpus"] = "f0\n"
	f[card+"/net/eth0/device"] = "-> ../.."
	f["/sys/class/net/eth0"] = "-> ../../devices/pci0000:00/0000:81:00.0/net/eth0"
	f[pci("0000:01:00.0", "0", "50")+"/nvme/nvme0/state"] = "live\n"
	f[pci("0000:82:00.0", "1", "60", "61")+"/virtio1/block/vda/size"] = "8\n"
	pci("0000:83:00.0", "0", "70")
	return f
}

// TestDevices: each verdict, the part that the device's node served, and ignored hints.
func TestDevices(t *testing.T) {
	r := Read(machine.Mounted(t, server()))
	var got []string
	for _, d := range r.Devices {
		local := "-"
		if d.LocalPercent != nil {
			local = unit.Digits(*d.LocalPercent)
		}
		got = append(got, fmt.Sprintf("%s node %s irqs %v count %v local %s cpus %s off %q isolated %q hints %d: %s", d.Name, number(d.Node), d.Interrupts, d.Count, local, d.CPUList, d.OffNodeList, d.IsolatedList, d.HintsIgnored, d.Verdict))
	}
	want := []string{
		`0000:83:00.0 node 0 irqs [70] count 10 local 100 cpus 3 off "" isolated "3" hints 0: on isolated CPUs`,
		`eth0 node 1 irqs [40 41] count 16000 local 56.2 cpus 1,4 off "1" isolated "" hints 1: off node`,
		`vda node 1 irqs [60 61] count 4000 local 100 cpus 5 off "" isolated "" hints 0: on one CPU`,
		`nvme0 node 0 irqs [50] count 5000 local 100 cpus 2 off "" isolated "" hints 0: ok`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if want := "6 interrupts of 4 devices: 1 device on isolated CPUs, 1 device off node, 1 device on one CPU"; r.Headline.Lines[0] != want {
		t.Error(r.Headline.Lines[0])
	}
	if len(r.Queues) != 1 {
		t.Fatal(r.Queues)
	}
	if q := r.Queues[0]; number(q.Node) != "1" || q.RxQueues != 2 || q.RPSQueues != 1 || q.RPSList != "0-1" || q.OffNodeList != "0-1" || q.RFSEntries != 4096 || q.TxQueues != 1 || q.XPSList != "4-7" {
		t.Errorf("%+v", q)
	}
	var b strings.Builder
	Print(&ui.Screen{Out: &b, Format: ui.Table, Width: 80}, r, false)
	for line := range strings.Lines(b.String()) {
		if len([]rune(line)) > 81 {
			t.Error(line)
		}
	}
	page, err := os.ReadFile("../../../docs/irq.md")
	if err != nil || !strings.Contains(string(page), "```\n"+b.String()+"```\n") {
		t.Errorf("docs/irq.md does not have\n%s%v", b.String(), err)
	}
	if !strings.Contains(b.String(), "\nRFS is off: net.core.rps_sock_flow_entries is 0\n") {
		t.Error(b.String())
	}
}

// TestDriverNames: without /sys, interrupts are grouped by the names that drivers give them.
func TestDriverNames(t *testing.T) {
	for text, want := range map[string]string{
		"IR-PCI-MSI 524288-edge eth0-TxRx-0": "eth0", "PCI-MSI 1-edge nvme0q13": "nvme0", "PCI-MSIX-0000:00:01.0 1-edge virtio2-input.0": "virtio2",
		"IR-PCI-MSIX 0-edge mlx5_comp0@pci:0000:3b:00.0": "0000:3b:00.0", "IO-APIC 2-edge timer": "timer", "": "?", "PCI-MSI i40e-eno1-TxRx-0": "i40e-eno1",
	} {
		if got := driverName(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestBalance: the CPUs that irqbalance leaves out. For no variables, a list, a mask, both and an
// empty mask irqbalance 1.9.2 of Debian prints the same (irqbalance --debug --oneshot); the
// other cases, and isolated CPUs, follow its manual page.
func TestBalance(t *testing.T) {
	for name, x := range map[string]struct{ file, banned, by string }{
		"nothing":              {"", "3,7", "isolated and nohz_full CPUs"},
		"a list":               {"IRQBALANCE_BANNED_CPULIST=1-2\n", "1-2", "IRQBALANCE_BANNED_CPULIST"},
		"a mask":               {"IRQBALANCE_BANNED_CPUS=\"2\"\n", "1", "IRQBALANCE_BANNED_CPUS"},
		"both: the mask wins":  {"IRQBALANCE_BANNED_CPUS=1\nIRQBALANCE_BANNED_CPULIST=1\n", "0", "IRQBALANCE_BANNED_CPUS"},
		"an empty variable":    {"IRQBALANCE_BANNED_CPUS=\n", "3,7", "isolated and nohz_full CPUs"},
		"a comment":            {"#IRQBALANCE_BANNED_CPULIST=1\n", "3,7", "isolated and nohz_full CPUs"},
		"the last of two":      {"IRQBALANCE_BANNED_CPULIST=1\nIRQBALANCE_BANNED_CPULIST=2\n", "2", "IRQBALANCE_BANNED_CPULIST"},
		"what it cannot parse": {"IRQBALANCE_BANNED_CPULIST=all\n", "", "IRQBALANCE_BANNED_CPULIST"},
	} {
		f := server()
		f["/etc/default/irqbalance"] = x.file
		b := readBalance(machine.Mounted(t, f))
		if b.BannedList != x.banned || b.BannedBy != x.by || (b.Invalid != "") != strings.HasPrefix(name, "what") {
			t.Errorf("%s: %+v", name, b)
		}
	}
	f := server()
	f["/etc/sysconfig/irqbalance"] = "IRQBALANCE_ONESHOT=yes\nIRQBALANCE_ARGS=\"--banirq=43 -i 44 --banmod=ixgbe --policyscript=/etc/p\"\n"
	if got, want := new(readBalance(machine.Mounted(t, f))).words(), "irqbalance runs; leaves out CPUs 3,7 (isolated and nohz_full CPUs); leaves alone interrupts 43, 44; leaves alone modules ixgbe; policy script /etc/p; runs once at boot"; got != want {
		t.Error(got)
	}
}

// TestUnknown: what a copy does not have is unknown, and no verdict.
func TestUnknown(t *testing.T) {
	f := server()
	delete(f, "/proc/irq/50/effective_affinity_list")
	delete(f, "/proc/irq/50/smp_affinity_list")
	r := Read(machine.Copy(t, f))
	for _, d := range r.Devices {
		if (d.Verdict == Unknown) != (d.Name == "nvme0") {
			t.Errorf("%+v", d)
		}
	}
	r = Read(machine.Copy(t, nil))
	if len(r.Devices) != 0 || len(r.Unknown) == 0 || r.Headline.Lines[0] != "interrupts unknown: "+r.Unknown[0] {
		t.Errorf("%+v", r)
	}
}

// TestThisMachine: the interrupts of this machine are served by CPUs that it has.
func TestThisMachine(t *testing.T) {
	r := Read(host.Live())
	if len(r.Unknown) > 0 || len(r.Headline.Lines) != 2 {
		t.Errorf("%+v", r)
	}
}
