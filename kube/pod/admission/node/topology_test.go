package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/pod/admission"
)

func TestTopology(t *testing.T) {
	n, err := Topology(machine(t, treeWith(true)).Files)
	if err != nil {
		t.Fatal(err)
	}
	if len(n.CPUs) != 15 || len(n.NUMA) != 2 {
		t.Fatalf("%d CPUs, %d NUMA nodes", len(n.CPUs), len(n.NUMA))
	}
	for _, c := range n.CPUs {
		want := admission.Processor{ID: c.ID, Core: c.ID % 4, Socket: c.ID % 8 / 4, NUMA: c.ID % 8 / 4, Uncore: c.ID % 8 / 2}
		if c.ID == 7 {
			// Its sibling is off: the original takes all cores of the node to have as many
			// threads, one, and a cache of four CPUs to be the node's.
			want.Uncore = -1
		}
		if c != want {
			t.Errorf("%+v, want %+v", c, want)
		}
	}
	want := admission.NUMANode{
		ID: 1, MemoryBytes: 16 << 30, Distances: []uint64{21, 10},
		HugePages: []admission.HugePages{{SizeBytes: 1 << 30}, {SizeBytes: 2 << 20, Pages: 64}},
	}
	if diff := cmp.Diff(want, n.NUMA[1]); diff != "" {
		t.Error(diff)
	}
	if err := n.Check(); err != nil {
		t.Error(err)
	}
}

// TestTopologyCaches tests that a cache that all CPUs of the NUMA node share does not belong to its
// cores, and that a guest without caches has none.
func TestTopologyCaches(t *testing.T) {
	for name, edit := range map[string]func(map[string]string){
		"the node's": func(files map[string]string) {
			for cpu := range 16 {
				mask := "0f0f\n"
				if cpu%8 > 3 {
					mask = "f0f0\n"
				}
				files[fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache/index3/shared_cpu_map", cpu)] = mask
			}
		},
		"none": func(files map[string]string) {
			for name := range files {
				if strings.Contains(name, "/cache/") {
					delete(files, name)
				}
			}
		},
		"without a number": func(files map[string]string) {
			for name := range files {
				if strings.HasSuffix(name, "index3/id") {
					delete(files, name)
				}
			}
		},
	} {
		files := tree()
		edit(files)
		n, err := Topology(machine(t, files).Files)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range n.CPUs {
			if c.NUMA == 0 && c.Uncore != -1 {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}

// TestTopologyWithoutNodes tests a kernel without NUMA, which has one node per socket. A record
// without its nodes is not such a machine.
func TestTopologyWithoutNodes(t *testing.T) {
	files := tree()
	for name := range files {
		if strings.HasPrefix(name, nodeDir) {
			delete(files, name)
		}
	}
	h := machine(t, files)
	n, err := Topology(h.Files)
	if err != nil || len(n.NUMA) != 2 || len(n.CPUs) != 16 || n.CPUs[0].NUMA != n.CPUs[0].Socket {
		t.Errorf("%+v: %v", n, err)
	}
	c, err := host.Copy(h.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Topology(c.Files); !host.Unknown(err) {
		t.Errorf("a copy without nodes: %v", err)
	}
}

func TestTopologyRefuses(t *testing.T) {
	for file, text := range map[string]string{
		"/sys/devices/system/cpu/online":                                         "0-x",
		"/sys/devices/system/node/node0/cpulist":                                 "7-0",
		"/sys/devices/system/node/node0/meminfo":                                 "MemFree: 1 kB",
		"/sys/devices/system/node/node0/distance":                                "10 near",
		"/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "many",
		"/sys/devices/system/cpu/cpu0/topology/core_id":                          "first",
	} {
		files := tree()
		files[file] = text
		if n, err := Topology(machine(t, files).Files); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s with %q: %d CPUs, %v", file, text, len(n.CPUs), err)
		}
	}
}
