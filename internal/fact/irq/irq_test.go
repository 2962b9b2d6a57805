package irq

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// server returns the files of a machine with two nodes of four CPUs, of which 3 and 7 are isolated:
// a network card on node 1 whose interrupts node 0 serves in part, an NVMe disk on node 0, a virtio
// disk with two queues on one CPU, and a card that an isolated CPU serves.
func server(t *testing.T) map[string]string {
	text, err := os.ReadFile("../../../examples/irq/two-nodes.txt")
	if err != nil {
		t.Fatal(err)
	}
	f := map[string]string{}
	for entry := range strings.SplitSeq(string(text), "\n-- ") {
		head, content, _ := strings.Cut(entry, " --")
		switch words := strings.Fields(head); {
		case words[0] == "link":
			f[words[1]] = "-> " + words[3]
		case words[0] == "dir":
			f[strings.TrimSuffix(words[len(words)-1], "/")+"/"] = ""
		case words[0] == "file":
			f[words[len(words)-1]] = strings.TrimPrefix(content, "\n") + "\n"
		}
	}
	return f
}

// TestDevices: each verdict, the part that the device's node served, and ignored hints.
func TestDevices(t *testing.T) {
	r := Read(machine.Mounted(t, server(t)))
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
		f := server(t)
		f["/etc/default/irqbalance"] = x.file
		b := readBalance(machine.Mounted(t, f))
		if b.BannedList != x.banned || b.BannedBy != x.by || (b.Invalid != "") != strings.HasPrefix(name, "what") {
			t.Errorf("%s: %+v", name, b)
		}
	}
	f := server(t)
	f["/etc/sysconfig/irqbalance"] = "IRQBALANCE_ONESHOT=yes\nIRQBALANCE_ARGS=\"--banirq=43 -i 44 -i45 --banmod=ixgbe -l/etc/p\"\n"
	if got, want := new(readBalance(machine.Mounted(t, f))).words(), "irqbalance runs; leaves out CPUs 3,7 (isolated and nohz_full CPUs); leaves alone interrupts 43, 44, 45; leaves alone modules ixgbe; policy script /etc/p; runs once at boot"; got != want {
		t.Error(got)
	}
}

// TestOffNode: neither a CPU that is offline nor a node without CPUs puts something off its node.
func TestOffNode(t *testing.T) {
	for name, change := range map[string]map[string]string{
		"offline":      {"/proc/irq/41/smp_affinity_list": "5,8\n", "/proc/irq/41/effective_affinity_list": ""},
		"without CPUs": {"/sys/devices/system/node/node0/cpulist": "0-7\n", "/sys/devices/system/node/node1/cpulist": "\n"},
	} {
		f := server(t)
		for file, text := range change {
			if f[file] = text; text == "" {
				delete(f, file)
			}
		}
		r := Read(machine.Mounted(t, f))
		for _, d := range r.Devices {
			if d.OffNodeList != "" {
				t.Errorf("%s: %s: CPUs %s", name, d.Name, d.OffNodeList)
			}
		}
		if off := r.Queues[0].OffNodeList; name == "without CPUs" && off != "" {
			t.Errorf("%s: RPS of CPUs %s", name, off)
		}
	}
}

// TestUnknown: what a copy does not have is unknown, and no verdict.
func TestUnknown(t *testing.T) {
	f := server(t)
	delete(f, "/proc/irq/50/effective_affinity_list")
	delete(f, "/proc/irq/50/smp_affinity_list")
	r := Read(machine.Copy(t, f))
	for _, d := range r.Devices {
		if (d.Verdict == Unknown) != (d.Name == "nvme0") {
			t.Errorf("%+v", d)
		}
	}
	r = Read(machine.Copy(t, nil))
	if why := interruptsFile + " is not in this copy"; len(r.Devices) != 0 || r.Err() == nil || !slices.Contains(r.Unknown, why) || r.Headline.Lines[0] != "interrupts unknown: "+why {
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

// TestQueueOrder: queues are in the order of their numbers.
func TestQueueOrder(t *testing.T) {
	f := server(t)
	for i := range 12 {
		f[fmt.Sprintf("%stx-%d/xps_cpus", queues, i)] = "00\n"
	}
	r := Read(machine.Mounted(t, f))
	if got, want := strings.Join(r.Queues[0].tx, " "), "tx-0 tx-1 tx-2 tx-3 tx-4 tx-5 tx-6 tx-7 tx-8 tx-9 tx-10 tx-11"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
