//go:build !kubernetes_1_29 && !kubernetes_1_31 && !kubernetes_1_37

package admission

import (
	"reflect"
	"testing"

	"github.com/google/cadvisor/utils/sysfs"
	"github.com/google/cadvisor/utils/sysinfo"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/kube/pod/admission"
	"fettle.dev/fettle/kube/pod/admission/node"
)

// TestThisMachine: the topology of this machine is what cAdvisor tells a kubelet.
func TestThisMachine(t *testing.T) {
	got, err := node.Topology(host.Live().Files)
	if err != nil {
		t.Fatal(err)
	}
	nodes, count, err := sysinfo.GetNodesInfo(sysfs.NewRealSysFs())
	if err != nil {
		t.Fatal(err)
	}
	var want admission.Node
	for _, n := range nodes {
		m := admission.NUMANode{ID: n.Id, MemoryBytes: n.Memory, Distances: n.Distances}
		for _, h := range n.HugePages {
			m.HugePages = append(m.HugePages, admission.HugePages{SizeBytes: h.PageSize << 10, Pages: h.NumPages})
		}
		want.NUMA = append(want.NUMA, m)
		for _, c := range n.Cores {
			uncore := -1
			if len(c.UncoreCaches) > 0 {
				uncore = c.UncoreCaches[0].Id
			}
			for _, cpu := range c.Threads {
				want.CPUs = append(want.CPUs, admission.Processor{ID: cpu, Core: c.Id, Socket: c.SocketID, NUMA: n.Id, Uncore: uncore})
			}
		}
	}
	if !reflect.DeepEqual(want, got) || len(got.CPUs) != count {
		t.Errorf("cAdvisor has %d CPUs, %+v, and here is %+v", count, want, got)
	}
}
