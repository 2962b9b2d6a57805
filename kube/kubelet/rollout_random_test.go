package kubelet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// away is an independent test whether a node is unavailable for pods.
func away(n Node, digest string) bool {
	if n.Absent || !n.Ready || n.DiskPressure || n.NetworkUnavailable || n.Unschedulable {
		return true
	}
	switch n.Phase {
	case Changing, Broken:
		return true
	case Failed:
		return n.Tried == digest && n.Has != digest
	}
	return false
}

// TestRandom simulates rollouts while nodes fail, are cordoned and return, and checks each decision
// against rules that must always be true.
func TestRandom(t *testing.T) {
	runs := 2000
	if testing.Short() {
		runs = 200
	}
	finished := 0
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		nodes := make([]Node, 1+r.IntN(30))
		for i := range nodes {
			nodes[i] = Node{Name: fmt.Sprint("n", i), Ready: true}
		}
		p := Pool{Digest: "d1"}
		most := 1
		switch r.IntN(3) {
		case 0:
			n := r.IntN(5)
			v := intstr.FromInt32(int32(n))
			p.MaxUnavailable, most = &v, max(n, 1)
		case 1:
			n := r.IntN(101)
			v := intstr.FromString(fmt.Sprint(n, "%"))
			p.MaxUnavailable, most = &v, max(n*len(nodes)/100, 1)
		}
		trouble, failing := r.IntN(2) == 0, r.IntN(4) == 0
		for step := 0; ; step++ {
			if step > 40*len(nodes)+200 {
				t.Fatalf("seed %d: not done after %d steps: %+v", seed, step, nodes)
			}
			quiet := step > 20*len(nodes) // trouble ends some time
			if trouble && !quiet && r.IntN(3) == 0 {
				n := &nodes[r.IntN(len(nodes))]
				for _, flag := range []*bool{&n.Ready, &n.DiskPressure, &n.NetworkUnavailable, &n.Unschedulable} {
					if r.IntN(4) == 0 {
						*flag = !*flag
					}
				}
			}
			if quiet {
				for i := range nodes {
					nodes[i].Ready, nodes[i].DiskPressure, nodes[i].NetworkUnavailable, nodes[i].Unschedulable = true, false, false, false
				}
			}
			if r.IntN(50) == 0 && !quiet {
				p.Digest = fmt.Sprint("d", 1+r.IntN(3))
			}
			p.Paused = !quiet && r.IntN(20) == 0

			before := slices.Clone(nodes)
			d := Decide(p, nodes)
			if !slices.Equal(before, nodes) {
				t.Fatalf("seed %d: a decision changes what it sees", seed)
			}
			gone, failed := 0, false
			for _, n := range nodes {
				if away(n, p.Digest) {
					gone++
				}
				failed = failed || n.Phase == Broken || n.Phase == Failed && n.Tried == p.Digest && n.Has != p.Digest
			}
			if len(d.Begin) > 0 && gone+len(d.Begin) > most {
				t.Fatalf("seed %d: %d unavailable, %d begin, and at most %d may be: %+v", seed, gone, len(d.Begin), most, d)
			}
			if len(d.Begin) > 0 && (p.Paused || failed) {
				t.Fatalf("seed %d: %v begin, paused %v, failed %v", seed, d.Begin, p.Paused, failed)
			}
			if len(d.Unavailable) != gone {
				t.Fatalf("seed %d: unavailable %v, and %d are", seed, d.Unavailable, gone)
			}
			for _, name := range d.Begin {
				i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == name })
				if away(nodes[i], p.Digest) || nodes[i].Has == p.Digest || slices.Index(d.Begin, name) != slices.Index(d.Begin, nodes[i].Name) {
					t.Fatalf("seed %d: %s begins: %+v", seed, name, nodes[i])
				}
				nodes[i].Phase, nodes[i].Tried = Changing, p.Digest
			}
			// A slot that is free is used.
			if d.Stopped == "" && len(d.Waiting) > 0 && gone+len(d.Begin) < most {
				t.Fatalf("seed %d: %v wait, %d of %d slots are used", seed, d.Waiting, gone+len(d.Begin), most)
			}
			for i := range nodes {
				n := &nodes[i]
				if n.Phase == Changing && r.IntN(3) == 0 {
					if failing && r.IntN(10) == 0 {
						n.Phase = Failed
					} else {
						n.Phase, n.Has = Idle, n.Tried
					}
				}
			}
			if d.Done == len(nodes) {
				finished++
				break
			}
			if failed {
				break // stopped for good, unless an administrator acts
			}
		}
	}
	if finished < runs/2 {
		t.Errorf("only %d of %d roll-outs came to their end", finished, runs)
	}
}
