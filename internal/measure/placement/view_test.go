package placement

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// fourNodes is a guest with four nodes, recorded by fettle facts --archive with CPU 3 offline,
// 8 huge pages on node 1, net1 on node 1 and nvme0n1 on node 2.
const fourNodes = "../../../examples/numa/four-nodes.txt"

func TestFourNodes(t *testing.T) {
	h, err := host.OpenRoot(fourNodes)
	if err != nil {
		t.Fatal(err)
	}
	v := Read(h)
	if len(v.Nodes) != 4 || len(v.Unknown) != 0 {
		t.Fatalf("%d nodes, unknown: %q", len(v.Nodes), v.Unknown)
	}
	for i, n := range v.Nodes {
		kind := map[int]string{3: "memory only"}[i]
		pages := map[int]int64{1: 8}[i]
		if n.Number != i || n.Kind != kind || !fact.Is(n.HugePages[0].Total, pages) || len(n.Distances.Or(nil)) != 4 || n.Distances.Or(nil)[i] != 10 {
			t.Errorf("node %d: %+v", i, n)
		}
	}
	// Node 0 has MemTotal 469364 kB, numa_miss 0, local_node 54799 and other_node 51994.
	if n := v.Nodes[0]; !fact.Is(n.MemoryBytes, 469364<<10) || !fact.Is(n.MissPercent, 0) || !fact.Is(n.RemotePercent, 100*51994/float64(54799+51994)) {
		t.Errorf("node 0: %+v", n)
	}
	off := map[string][]int64{}
	for _, d := range v.Devices {
		if irqs := d.OffNode.Or(nil); len(irqs) > 0 {
			off[d.Name] = irqs
		}
	}
	if !maps.EqualFunc(off, map[string][]int64{"net1": {40, 41}}, slices.Equal) {
		t.Errorf("interrupts off their node: %v", off)
	}
}

// node returns the files of a node with so many kB, half of them free.
func node(number, cpus, meminfo, distance string) map[string]string {
	dir := "/sys/devices/system/node/node" + number + "/"
	return map[string]string{
		dir + "cpulist": cpus + "\n", dir + "distance": distance + "\n",
		dir + "meminfo":  "Node " + number + " MemTotal: " + meminfo + " kB\nNode " + number + " MemFree: " + meminfo + " kB\n",
		dir + "numastat": "numa_hit 75\nnuma_miss 25\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 90\nother_node 10\n",
	}
}

func TestKindsOfNodes(t *testing.T) {
	files := map[string]string{
		"/proc/vmstat": "numa_hint_faults 400\nnuma_hint_faults_local 100\n", "/proc/uptime": "200.00 1.00\n",
		"/sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0/target_node": "2\n",
		"/sys/bus/dax/devices/dax0.0": "-> ../../../devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0",
	}
	for _, n := range []map[string]string{
		node("0", "0-1", "1000", "10 20 30 40"), node("1", "2-3", "0", "20 10 30 40"), node("2", "", "500", "30 30 10 40"), node("10", "", "500", "40 40 40 10"),
	} {
		maps.Copy(files, n)
	}
	v := Read(machine.Mounted(t, files))
	var kinds []string
	for _, n := range v.Nodes {
		kinds = append(kinds, n.Kind)
	}
	if want := []string{"", "CPUs only", "CXL memory", "memory only"}; !slices.Equal(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
	if !fact.Is(v.Nodes[0].MissPercent, 25) || !fact.Is(v.Nodes[0].RemotePercent, 10) || !fact.Is(v.HintFaultsPerS, 2) || !fact.Is(v.HintFaultsLocalPercent, 25) {
		t.Errorf("%+v", v)
	}
}

// What a copy does not have is unknown, with the file's name; it is not 0.
func TestUnknownNodes(t *testing.T) {
	files := node("0", "0-1", "1000", "10 20")
	maps.Copy(files, node("1", "2-3", "1000", "20 10"))
	delete(files, "/sys/devices/system/node/node1/numastat")
	files["/sys/devices/system/node/node1/meminfo"] = "Node 1 MemTotal: x kB\nNode 1 MemFree: 5 kB\n"
	v := Read(machine.Copy(t, files))
	n := v.Nodes[1]
	if n.MissPercent.Unknown() == "" || n.MemoryBytes.Unknown() == "" || !strings.Contains(v.Headline.Lines[0], "memory unknown") {
		t.Errorf("%+v\n%q", n, v.Headline.Lines)
	}
	for _, file := range []string{"node1/numastat", "node1/meminfo", "/proc/vmstat"} {
		if !slices.ContainsFunc(v.Unknown, func(why string) bool { return strings.Contains(why, file) }) {
			t.Errorf("%s is not named: %q", file, v.Unknown)
		}
	}
	if v := Read(machine.Copy(t, map[string]string{"/etc/hostname": "x"})); len(v.Unknown) == 0 || len(v.Nodes) != 0 {
		t.Errorf("a copy without nodes: %+v", v)
	}
}

// A disk has an interrupt for each CPU; a network device should have all on its node.
func TestInterrupts(t *testing.T) {
	files := map[string]string{
		"/sys/class/net/eth0": "-> ../../devices/pci0000:00/0000:00:01.0/net/eth0",
		"/sys/devices/pci0000:00/0000:00:01.0/net/eth0/device": "-> ../../../0000:00:01.0",
		"/sys/devices/pci0000:00/0000:00:01.0/numa_node":       "1\n",
		"/sys/block/nvme0n1": "-> ../devices/pci0000:00/0000:00:02.0/nvme/nvme0/nvme0n1",
		"/sys/devices/pci0000:00/0000:00:02.0/nvme/nvme0/nvme0n1/device": "-> ../../nvme0",
		"/sys/devices/pci0000:00/0000:00:02.0/nvme/nvme0/device":         "-> ../../../0000:00:02.0",
		"/sys/devices/pci0000:00/0000:00:02.0/numa_node":                 "1\n",
	}
	for irq, cpus := range map[string]string{"30": "0", "31": "2", "32": ""} {
		files["/sys/devices/pci0000:00/0000:00:01.0/msi_irqs/"+irq] = "msix\n"
		files["/sys/devices/pci0000:00/0000:00:02.0/msi_irqs/"+irq] = "msix\n"
		files["/proc/irq/"+irq+"/effective_affinity_list"] = cpus + "\n"
	}
	maps.Copy(files, node("0", "0-1", "1000", "10 20"))
	maps.Copy(files, node("1", "2-3", "1000", "20 10"))
	for _, d := range Read(machine.Mounted(t, files)).Devices {
		want := map[string][]int64{"eth0": {30}, "nvme0n1": {}}[d.Name]
		if off, ok := d.OffNode.Get(); !ok || !slices.Equal(off, want) || !fact.Is(d.Node, 1) {
			t.Errorf("%+v, want %v", d, want)
		}
	}
}
