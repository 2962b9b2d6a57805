package operator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/kube/kubelet"
)

// TestRandom simulates rollouts with nodes that fail, disappear, appear, are cordoned and change
// their pool. At each moment an independent rule counts the unavailable nodes of each pool when
// others start. It also checks that no node starts with settings that have failed.
func TestRandom(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	finished, stopped := 0, 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 7))
		most := 1 + r.IntN(5)
		w := newWorld(t, 3+r.IntN(30), intstr.FromInt32(int32(most)), config("a", `{"maxPods": 50}`)).started()
		failing := r.IntN(3) == 0
		value := 50
		for step := range 400 {
			began := w.step()
			away := map[string]bool{}
			for _, n := range w.Nodes {
				if n.Spec.Unschedulable || n.Status.Conditions[0].Status != core.ConditionTrue {
					away[n.Name] = true
				}
			}
			for i := range w.Kubelets {
				k := &w.Kubelets[i]
				if k.Spec.Turn != k.Status.Turn || k.Status.Phase == kubelet.ConditionBroken || k.Status.Phase == kubelet.ConditionFailed && k.Status.Tried == w.Pools[0].Status.Digest {
					away[k.Name] = true
				}
			}
			if len(began) > 0 && len(away) > most {
				t.Fatalf("seed %d, step %d: %v begin, and then %d of at most %d are unavailable: %v", seed, step, began, len(away), most, away)
			}
			for _, name := range began {
				k := w.kubelet(name)
				for i := range w.Kubelets {
					if f := &w.Kubelets[i]; f.Status.Phase == kubelet.ConditionFailed && f.Status.Tried == k.Spec.Digest && !f.Changing() {
						t.Fatalf("seed %d, step %d: %s begins with what has failed on %s", seed, step, name, f.Name)
					}
				}
				if slices.IndexFunc(w.Nodes, func(n core.Node) bool { return n.Name == name }) < 0 {
					t.Fatalf("seed %d, step %d: %s begins, and is gone", seed, step, name)
				}
			}
			w.happen(r, failing, &value)
		}
		// In the end all nodes are there, and nothing fails any more.
		for i := range w.Nodes {
			w.Nodes[i].Spec.Unschedulable, w.Nodes[i].Status.Conditions[0].Status = false, core.ConditionTrue
		}
		if failing {
			stopped++
		}
		w.Configs[0], w.Pools[0].Spec.Paused = config("a", `{"maxPods": 1000}`), false
		w.Kubelets = slices.DeleteFunc(w.Kubelets, func(k kubelet.NodeKubelet) bool { return w.node(k.Name) == nil }) // by hand
		for range 100 {
			w.step()
			for i := range w.Kubelets {
				if k := &w.Kubelets[i]; k.Changing() {
					w.done(k.Name)
				} else if k.Status.Phase == kubelet.ConditionBroken || k.Status.Phase == "" {
					k.Status.Phase = kubelet.Settled
				}
			}
		}
		if s := w.Pools[0].Status; int(s.Updated) != len(w.Nodes) || int(s.Nodes) != len(w.Nodes) {
			t.Fatalf("seed %d: in the end %+v of %d nodes", seed, s, len(w.Nodes))
		}
		finished++
	}
	t.Logf("%d roll-outs, %d of them with nodes that fail", finished, stopped)
}

// happen changes something in the simulated cluster.
func (w *world) happen(r *rand.Rand, failing bool, value *int) {
	if len(w.Nodes) == 0 {
		return
	}
	n := &w.Nodes[r.IntN(len(w.Nodes))]
	k := w.kubelet(n.Name)
	switch what := r.IntN(40); {
	case what < 25 && k != nil && k.Changing():
		switch {
		case failing && r.IntN(6) == 0:
			w.ended(n.Name, kubelet.ConditionFailed, "it fails")
		case failing && r.IntN(20) == 0:
			w.ended(n.Name, kubelet.ConditionBroken, "it is broken")
		case r.IntN(12) == 0:
			w.ended(n.Name, kubelet.ConditionBlocked, "something is in the way")
		default:
			w.done(n.Name)
		}
	case what < 26 && k != nil && !k.Changing():
		k.Status.Phase = kubelet.Settled
	case what < 28:
		n.Spec.Unschedulable = !n.Spec.Unschedulable
	case what < 30:
		n.Status.Conditions[0].Status = map[core.ConditionStatus]core.ConditionStatus{core.ConditionTrue: core.ConditionUnknown, core.ConditionUnknown: core.ConditionTrue}[n.Status.Conditions[0].Status]
	case what == 30 && len(w.Nodes) > 3:
		i := slices.IndexFunc(w.Nodes, func(o core.Node) bool { return o.Name == n.Name })
		w.Nodes = slices.Delete(slices.Clone(w.Nodes), i, i+1)
	case what == 31:
		w.uids++
		w.Nodes = append(w.Nodes, kubeletNode(fmt.Sprintf("new%d", w.uids), "worker"))
	case what == 32:
		*value++
		w.Configs[0] = config("a", fmt.Sprintf(`{"maxPods": %d}`, *value))
	case what == 33:
		w.Pools[0].Spec.Paused = !w.Pools[0].Spec.Paused
	}
}
