package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// byCombinations merges as the rules state: every combination of hints, one after the other.
func byCombinations(t *topologyManager, lists [][]Hint) (Mask, bool) {
	most := 0
	for _, list := range lists {
		least := 0
		for _, h := range list {
			if h.Nodes != 0 && (least == 0 || h.Nodes.Count() < least) {
				least = h.Nodes.Count()
			}
		}
		most = max(most, least)
	}
	var best *Hint
	closer := func(a, b Mask) bool { // a is better than b
		if a.Count() != b.Count() {
			return a.Count() < b.Count()
		}
		if t.options.closest && t.policy != PolicySingleNUMANode && t.distance(a) != t.distance(b) {
			return t.distance(a) < t.distance(b)
		}
		return a < b
	}
	consider := func(c Hint) {
		switch {
		case c.Nodes == 0:
			return
		case best == nil, c.Preferred && !best.Preferred:
		case best.Preferred && !c.Preferred:
			return
		case best.Preferred:
			if !closer(c.Nodes, best.Nodes) {
				return
			}
		default:
			b, n := best.Nodes.Count(), c.Nodes.Count()
			switch {
			case b > most || b == most && n == most || b < most && n == b:
				if !closer(c.Nodes, best.Nodes) {
					return
				}
			case b == most, n > most, n < b:
				return
			}
		}
		best = &c
	}
	var walk func(i int, and Mask, first Mask, preferred bool)
	walk = func(i int, and, first Mask, preferred bool) {
		if i == len(lists) {
			consider(Hint{and, preferred})
			return
		}
		for _, h := range lists[i] {
			if h.Nodes == 0 { // anywhere
				walk(i+1, and, first, preferred && h.Preferred)
				continue
			}
			begin := first
			if begin == 0 {
				begin = h.Nodes
			}
			walk(i+1, and&h.Nodes, begin, preferred && h.Preferred && h.Nodes == begin)
		}
	}
	walk(0, t.all, 0, true)
	if best == nil {
		return t.all, false
	}
	return best.Nodes, best.Preferred
}

// TestAlignAsByCombinations compares the fast merge with the one over all combinations.
func TestAlignAsByCombinations(t *testing.T) {
	d := rand.New(rand.NewPCG(1, 2))
	preferred, admitted := 0, 0
	for round := range 20000 {
		nodes := []int{0, 1, 2, 3, 5}[:1+d.IntN(5)]
		m := &topologyManager{policy: []string{PolicyBestEffort, PolicyRestricted, PolicySingleNUMANode}[d.IntN(3)], nodes: nodes, all: maskOf(nodes...), distances: map[int][]uint64{}}
		m.options.closest = d.IntN(2) == 0
		for _, n := range nodes {
			for range 6 {
				m.distances[n] = append(m.distances[n], uint64(10+d.IntN(3)*5))
			}
		}
		var answers []Answer
		var lists [][]Hint
		for range 1 + d.IntN(3) {
			switch d.IntN(8) {
			case 0:
				answers = append(answers, Answer{Any: true})
				lists = append(lists, []Hint{{0, true}})
			case 1:
				answers = append(answers, Answer{None: true})
				lists = append(lists, []Hint{{0, false}})
			default:
				var hints []Hint
				share := d.IntN(4)
				subsets(nodes, func(set Mask) {
					if d.IntN(4) >= share {
						hints = append(hints, Hint{set, d.IntN(3) == 0})
					}
				})
				if len(hints) == 0 {
					hints = []Hint{{m.all, false}}
				}
				answers = append(answers, Answer{Hints: hints})
				lists = append(lists, hints)
			}
		}
		if m.policy == PolicySingleNUMANode {
			for i, list := range lists {
				var kept []Hint
				for _, h := range list {
					if h.Preferred && h.Nodes.Count() < 2 {
						kept = append(kept, h)
					}
				}
				lists[i] = kept
			}
		}
		want, wantPreferred := byCombinations(m, lists)
		got := m.align(answers)
		wantAny := m.policy == PolicySingleNUMANode && want == m.all
		if got.Nodes != want || got.Preferred != wantPreferred || got.Any != wantAny {
			t.Fatalf("round %d, %s, closest %v, nodes %v:\n%v\nmerged to %s, any %v, preferred %v; by combinations %s, %v, %v", round, m.policy, m.options.closest, nodes, fmt.Sprint(lists), got.Nodes, got.Any, got.Preferred, want, wantAny, wantPreferred)
		}
		if got.Preferred {
			preferred++
		}
		if got.Admit {
			admitted++
		}
	}
	if preferred < 1000 || admitted < 1000 || admitted > 19000 {
		t.Errorf("%d preferred, %d admitted: too one-sided", preferred, admitted)
	}
}

// TestAlignManyNodes tests sixteen nodes, the maximum; the kubelet would try 65535^3 combinations.
func TestAlignManyNodes(t *testing.T) {
	m := &topologyManager{policy: PolicyRestricted}
	for n := range 16 {
		m.nodes = append(m.nodes, n)
	}
	m.all = maskOf(m.nodes...)
	var hints []Hint
	subsets(m.nodes, func(set Mask) { hints = append(hints, Hint{set, set.Count() == 1 && set.Has(5)}) })
	got := m.align([]Answer{{Hints: hints}, {Hints: hints}, {Hints: hints}})
	if got.Nodes != maskOf(5) || !got.Preferred || got.Combinations != 65535*65535*65535 {
		t.Errorf("%s, %v, %g", got.Nodes, got.Preferred, got.Combinations)
	}
}
