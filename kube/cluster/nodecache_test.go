package cluster

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// kubelets returns a node as a kubelet reports it, with 50 images.
func kubelets(i int) *core.Node {
	at := meta.NewTime(time.Date(2026, 3, 1, 12, i%60, 0, 0, time.UTC))
	n := &core.Node{ObjectMeta: meta.ObjectMeta{
		Name: fmt.Sprintf("node-%04d", i), UID: "uid", ResourceVersion: fmt.Sprint(i), CreationTimestamp: at,
		Labels:        map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/hostname": fmt.Sprintf("node-%04d", i)},
		Annotations:   map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		ManagedFields: []meta.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: meta.NewFieldsV1(`{"f:` + strings.Repeat("x", 2000) + `":{}}`)}},
	}}
	n.Spec = core.NodeSpec{ProviderID: fmt.Sprintf("aws:///eu-west-1a/i-%017d", i), Unschedulable: i%2 == 1, PodCIDR: "10.0.0.0/24", Taints: []core.Taint{{Key: "a"}}}
	for _, kind := range []core.NodeConditionType{core.NodeMemoryPressure, core.NodeDiskPressure, core.NodePIDPressure, core.NodeReady, "KernelDeadlock"} {
		n.Status.Conditions = append(n.Status.Conditions, core.NodeCondition{
			Type: kind, Status: core.ConditionTrue, LastHeartbeatTime: at, LastTransitionTime: at, Reason: "KubeletSays", Message: strings.Repeat("said ", 20) + fmt.Sprint(i),
		})
	}
	n.Status.NodeInfo = core.NodeSystemInfo{KubeletVersion: "v1.37.2", ContainerRuntimeVersion: "containerd://2.1.0", MachineID: fmt.Sprintf("%032d", i)}
	for j := range 50 {
		n.Status.Images = append(n.Status.Images, core.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/team/image-%d-%d@sha256:%064d", i, j, j)}})
	}
	return n
}

// TestKeep tests that the fields that a controller reads are kept, and all others dropped.
func TestKeep(t *testing.T) {
	at := meta.NewTime(time.Date(2026, 3, 1, 12, 3, 0, 0, time.UTC))
	want := &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: "node-0003", UID: "uid", ResourceVersion: "3", Labels: map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/hostname": "node-0003"}},
		Spec:       core.NodeSpec{ProviderID: "aws://", Unschedulable: true},
		Status:     core.NodeStatus{NodeInfo: core.NodeSystemInfo{KubeletVersion: "v1.37.2"}},
	}
	for _, kind := range []core.NodeConditionType{core.NodeMemoryPressure, core.NodeDiskPressure, core.NodePIDPressure, core.NodeReady, "KernelDeadlock"} {
		want.Status.Conditions = append(want.Status.Conditions, core.NodeCondition{Type: kind, Status: core.ConditionTrue, LastTransitionTime: at})
	}
	in := kubelets(3)
	out, err := ByObject().Transform(in)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, out); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, Keep(out.(*core.Node))); d != "" {
		t.Error("what is kept once more is another:", d)
	}
	for id, want := range map[string]string{"": "", "odd": "", "://x": "", "gce://p/z/n": "gce://"} {
		in.Spec.ProviderID = id
		if got := Keep(in).Spec.ProviderID; got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	in.Annotations["fettle.dev/wanted"] = "abc"
	if out, err := ByObject("fettle.dev/wanted", "fettle.dev/absent").Transform(in); err != nil {
		t.Error(err)
	} else if d := cmp.Diff(map[string]string{"fettle.dev/wanted": "abc"}, out.(*core.Node).Annotations); d != "" {
		t.Error(d)
	}
	if _, err := ByObject().Transform(&core.Pod{}); err == nil {
		t.Error("a pod is no node")
	}
}

// TestSize tests that kept nodes are small, and do not keep the whole node in memory.
func TestSize(t *testing.T) {
	const nodes, most = 500, 2 << 10
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	var kept []*core.Node
	for i := range nodes {
		kept = append(kept, Keep(kubelets(i)))
	}
	after := inUse()
	each := (int64(after) - int64(before)) / nodes
	t.Logf("%d bytes for each of %d nodes", each, nodes)
	if each > most {
		t.Errorf("%d bytes are kept of a node, more than %d", each, most)
	}
	runtime.KeepAlive(kept)
}

// TestLive tests that nodes read from the API server equal those in the cache.
func TestLive(t *testing.T) {
	one, two := kubelets(1), kubelets(2)
	one.ManagedFields, two.ManagedFields = nil, nil // those of the imitation are its own
	api := fake.NewClientBuilder().WithObjects(one, two).Build()
	live, err := Live(t.Context(), api)
	if err != nil || len(live) != 2 {
		t.Fatalf("%d nodes: %v", len(live), err)
	}
	all, err := All(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if d := cmp.Diff(*Keep(&all[i]), live[i]); d != "" {
			t.Error(d)
		}
	}
}
