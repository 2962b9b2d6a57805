package node

import (
	"context"
	"errors"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/kube/cluster"
)

// planned counts the plans: each queries once whether the kubelet is healthy.
type planned struct {
	Kubelet
	plans int
}

func (p *planned) Well(ctx context.Context) error {
	p.plans++
	return p.Kubelet.Well(ctx)
}

// TestVisit tests that a visit queries the kubelet once, and once more after a drain, and that the
// node accepts pods again at its end.
func TestVisit(t *testing.T) {
	n, _ := newNode(t, nil)
	api := fake.NewClientset(&core.Node{ObjectMeta: meta.ObjectMeta{Name: "n"}})
	v := &Visit{Node: n, API: &cluster.Node{Client: api, Name: "n"}}
	for _, c := range []struct {
		text   string
		result string
		plans  int
	}{
		{"maxPods: 300", Done, 1},
		{"maxPods: 300", Unchanged, 1},
		{"{maxPods: 300, cpuManagerPolicy: static}", Done, 2},
	} {
		kubelet := n.Kubelet
		counted := &planned{Kubelet: kubelet}
		n.Kubelet = counted
		r, err := v.Run(t.Context(), wanted(t, c.text))
		n.Kubelet = kubelet
		if err != nil || r.Result != c.result || counted.plans != c.plans {
			t.Errorf("%s: %+v, %v after %d plans, want %s after %d", c.text, r, err, counted.plans, c.result, c.plans)
		}
		if node, err := api.CoreV1().Nodes().Get(t.Context(), "n", meta.GetOptions{}); err != nil || node.Spec.Unschedulable {
			t.Errorf("%s: the node takes no pods: %v", c.text, err)
		}
	}
	// A second agent is refused before it keeps any pod away.
	j, err := n.lock()
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	api.ClearActions()
	if r, err := v.Run(t.Context(), wanted(t, "maxPods: 301")); !errors.Is(err, journal.ErrBusy) || r != nil || len(api.Actions()) > 0 {
		t.Errorf("%+v, %v: %v, want %v", r, err, api.Actions(), journal.ErrBusy)
	}
}
