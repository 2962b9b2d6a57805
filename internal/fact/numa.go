package fact

import (
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// NUMA describes NUMA nodes (Documentation/ABI/stable/sysfs-devices-node).
type NUMA struct {
	Count Fact[int64] `json:"count"`
	Node  Set[Node]   `json:"node"`
	// Balancing is kernel.numa_balancing: 0 off, 1 on, 2 memory tiering.
	Balancing       Fact[int64] `json:"balancing"`
	ZoneReclaimMode Fact[int64] `json:"zone_reclaim_mode"`
}

// Node is one NUMA node.
type Node struct {
	CPUList    Fact[string] `json:"cpu_list"`
	TotalBytes Fact[int64]  `json:"total_bytes"`
	FreeBytes  Fact[int64]  `json:"free_bytes"`
	// Distance lists the distances to all nodes in order; 10 is local (ACPI SLIT).
	Distance Fact[[]int64] `json:"distance"`
}

const nodeDir = "/sys/devices/system/node"

func collectNUMA(r *reader, f *Facts) {
	names, n := r.dir(nodeDir)
	set := &f.NUMA.Node
	set.note = n
	for _, name := range numbered(names, "node") {
		dir := nodeDir + "/" + name + "/"
		node := set.add(name)
		node.CPUList = r.cpus(dir+"cpulist", true)
		info := r.nodeMeminfo(name)
		node.TotalBytes, node.FreeBytes = info.get("MemTotal"), info.get("MemFree")
		node.Distance = parsed(r, dir+"distance", func(s string) ([]int64, error) {
			all := []int64{}
			for w := range strings.FieldsSeq(s) {
				d, err := decimal(w, 0, 1)
				if err != nil {
					return nil, err
				}
				all = append(all, d)
			}
			if len(all) == 0 {
				return nil, errEmpty
			}
			return slices.Clip(all), nil
		})
	}
	f.NUMA.Count = withNote(n, int64(len(set.items)))
	f.NUMA.Balancing = r.int("/proc/sys/kernel/numa_balancing")
	f.NUMA.ZoneReclaimMode = r.int("/proc/sys/vm/zone_reclaim_mode")
}

// nodeMeminfo reads the meminfo of one node.
func (r *reader) nodeMeminfo(name string) table {
	return r.meminfo(nodeDir+"/"+name+"/meminfo", "Node "+strings.TrimPrefix(name, "node")+" ", "MemTotal", "MemFree")
}

// NodeTable holds the tables of one NUMA node as the kernel prints them.
type NodeTable struct {
	Number             int
	meminfo, allocated table
}

// Memory returns a line of the node's meminfo, in bytes; HugePages_Total and its neighbors are
// in pages.
func (t *NodeTable) Memory(key string) Fact[int64] { return t.meminfo.get(key) }

// Allocated returns a counter of the node's numastat (Documentation/admin-guide/numastat.rst),
// in pages since boot.
func (t *NodeTable) Allocated(key string) Fact[int64] { return t.allocated.get(key) }

// MemoryKeys returns the names of the lines of the node's meminfo, in the kernel's order.
func (t *NodeTable) MemoryKeys() []string { return t.meminfo.keys }

// AllocatedKeys returns the names of the counters of the node's numastat, in the kernel's order.
func (t *NodeTable) AllocatedKeys() []string { return t.allocated.keys }

// CollectNodes reads the facts about memory and NUMA nodes, those of further collectors, and the
// tables of each node. It reads each file once.
func CollectNodes(h *host.Host, further ...string) (*Facts, []NodeTable) {
	r := newReader(h)
	f := collect(h, r, append(further, "numa", "memory")...)
	var tables []NodeTable
	for _, name := range f.NUMA.Node.Names() {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
		if err != nil {
			continue // more digits than a node can have
		}
		tables = append(tables, NodeTable{n, r.nodeMeminfo(name), r.numastat(nodeDir + "/" + name + "/numastat")})
	}
	return f, tables
}

// numastat parses the numastat file of a node: lines of a name and a number of pages.
func (r *reader) numastat(p string) table {
	text, n := r.text(p)
	t := table{note: n, values: map[string]int64{}, bad: map[string]string{}}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		t.keys = append(t.keys, key)
		if v, err := decimal(value, 0, 1); err == nil {
			t.values[key] = v
		} else {
			t.bad[key] = p + ": cannot read the line of " + key
		}
	}
	if _, ok := t.values["numa_hit"]; n.known() && !ok {
		t.bad[""] = p + " is incomplete: numa_hit is missing"
	}
	return t
}
