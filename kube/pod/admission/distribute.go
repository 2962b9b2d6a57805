package admission

import (
	"errors"
	"maps"
	"math"
	"slices"

	"fettle.dev/fettle/internal/unit"
)

var (
	// errLoop means that the kubelet would loop forever.
	errLoop = errors.New("this kubelet version would loop forever while it distributes CPUs over NUMA nodes")
	// errAccount means that the kubelet would get a wrong number of CPUs.
	errAccount = errors.New("this kubelet version miscounts CPUs when it distributes them over NUMA nodes")
)

// distribute takes CPUs evenly from the fewest possible NUMA nodes (KEP-2902,
// distribute-cpus-across-numa), in groups of single CPUs or whole cores. It chooses the set of
// nodes that leaves the most balanced numbers of free CPUs. With align-by-socket from Kubernetes
// 1.37 on, sets within one socket take precedence.
func (t *topology) distribute(free unit.CPUSet, number int, o cpuOptions) (unit.CPUSet, error) {
	group := 1
	if o.fullCores {
		group = t.perCore()
	}
	if number%group != 0 {
		return t.pack(free, number, o)
	}
	a := &taking{t: t, free: free.Intersect(t.all), needed: number, options: o}
	if a.done() {
		return a.got, nil
	}
	if a.needed > a.free.Len() {
		return unit.CPUSet{}, errCPUs
	}
	nodes := a.nodes()
	for size, most := a.fewestNodes(group), min(groups(number, group), len(slices.Compact(slices.Sorted(slices.Values(nodes))))); size <= most; size++ {
		s := &spreading{a: a, nodes: nodes, number: number, group: group, balance: math.MaxFloat64}
		combinations(nodes, size, s.consider)
		switch {
		case s.err != nil:
			return unit.CPUSet{}, s.err
		case s.chosen != nil:
			return s.fill()
		}
	}
	return t.pack(free, number, o)
}

// groups returns the number of groups for a number of CPUs.
func groups(number, size int) int { return (number-1)/size + 1 }

// fewestNodes returns the number of NUMA nodes that the request would need on an empty machine.
func (a *taking) fewestNodes(group int) int {
	perNode := (groups(a.t.all.Len(), group)-1)/len(a.t.nodes) + 1
	return (groups(a.needed, group)-1)/perNode + 1
}

// spreading is the search for a set of a given number of nodes.
type spreading struct {
	a             *taking
	nodes         []int
	number, group int

	balance   float64 // deviation of the best set so far; lower is better
	chosen    []int
	remainder []int // chosen nodes that give one group more
	oneSocket bool  // the chosen nodes share one socket; used with oneSocketFirst
	err       error
}

func (s *spreading) freeOn(node int) int { return s.a.free.Intersect(s.a.t.nodes[node]).Len() }

// oneSocketFirst reports whether nodes of one socket take precedence.
func (s *spreading) oneSocketFirst() bool {
	return s.a.options.bySocket && s.a.options.release >= socketFirst
}

// share returns the number of CPUs to take from each node of a set; if capped, at most as many as
// each has.
func (s *spreading) share(set []int, capped bool) int {
	share := s.number / len(set) / s.group * s.group
	if capped {
		for _, n := range set {
			share = min(share, s.freeOn(n)/s.group*s.group)
		}
	}
	return share
}

// consider evaluates a set of nodes; false ends the search.
//
// It reproduces a defect of the kubelet, which keeps sets without copying them while combinations
// overwrites them: with four or more nodes, the last kept node may differ from the evaluated one.
func (s *spreading) consider(set []int) bool {
	if s.balance == 0 && (s.oneSocket || !s.oneSocketFirst()) || s.err != nil {
		return false
	}
	share := s.share(set, s.oneSocketFirst())
	whole, sum := 0, 0
	for _, n := range set {
		free := s.freeOn(n)
		sum += free
		whole += free / s.group * s.group
		if free < share {
			return true
		}
	}
	if sum < s.number || whole < s.number {
		return true
	}
	after := make(map[int]int, len(s.nodes))
	for _, n := range s.nodes {
		after[n] = s.freeOn(n)
	}
	for _, n := range set {
		after[n] -= share
	}
	left := s.number - share*len(set)
	if left == 0 {
		s.keep(deviation(after), set, nil)
		return true
	}
	var able []int
	for _, n := range set {
		if after[n] >= s.group {
			able = append(able, n)
		}
	}
	best, from := math.MaxFloat64, []int(nil)
	for size := len(able); size >= 1; size-- {
		combinations(able, size, func(some []int) bool {
			rest, err := s.handOut(maps.Clone(after), some, left)
			if err != nil {
				s.err = err
				return false
			}
			if rest == nil {
				return true
			}
			if d := deviation(rest); d < best {
				best, from = d, some
			}
			return true
		})
		if s.err != nil {
			return false
		}
	}
	s.keep(best, set, from)
	return true
}

func (s *spreading) keep(balance float64, set, remainder []int) {
	better, oneSocket := balance < s.balance, false
	if s.oneSocketFirst() {
		if oneSocket = len(s.a.t.socketsOf(maskOf(set...))) <= 1; oneSocket != s.oneSocket {
			better = oneSocket
		}
	}
	if better {
		s.balance, s.chosen, s.remainder, s.oneSocket = balance, set, remainder, oneSocket
	}
}

// handOut takes the remaining groups from some nodes in turn; nil if they have too few CPUs.
func (s *spreading) handOut(after map[int]int, some []int, left int) (map[int]int, error) {
	sum := 0
	for _, n := range some {
		sum += after[n]
	}
	if sum < left {
		return nil, nil
	}
	for left > 0 {
		before := left
		for _, n := range some {
			if left == 0 {
				break
			}
			if after[n] >= s.group {
				after[n] -= s.group
				left -= s.group
			}
		}
		if left == before {
			return nil, errLoop
		}
	}
	return after, nil
}

// fill takes the CPUs from the chosen nodes.
func (s *spreading) fill() (unit.CPUSet, error) {
	a := s.a
	from := func(node, number int) {
		// The kubelet ignores the error for too few CPUs.
		cpus, _ := a.t.pack(a.free.Intersect(a.t.nodes[node]), number, a.options)
		a.add(cpus)
	}
	share := s.share(s.chosen, a.options.release >= socketFirst)
	for _, n := range s.chosen {
		from(n, share)
	}
	for left := s.number - share*len(s.chosen); left > 0; {
		before := left
		for _, n := range s.remainder {
			if left == 0 {
				break
			}
			if s.freeOn(n) >= s.group {
				from(n, s.group)
				left -= s.group
			}
		}
		if left == before {
			return unit.CPUSet{}, errLoop
		}
	}
	if a.needed != 0 {
		return unit.CPUSet{}, errAccount
	}
	return a.got, nil
}

// deviation returns the standard deviation of values; both it and its mean are rounded to three
// digits.
func deviation(values map[int]int) float64 {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	n := float64(len(values))
	var sum float64
	for _, v := range values {
		sum += float64(v)
	}
	mean := round(sum / n)
	var squares float64
	for _, k := range slices.Sorted(maps.Keys(values)) {
		squares += (float64(values[k]) - mean) * (float64(values[k]) - mean)
	}
	return round(math.Sqrt(squares / n))
}

// combinations calls f with every choice of size members of a list, in order, until f returns
// false. All choices share one slice, see consider.
func combinations(list []int, size int, f func([]int) bool) {
	if size < 1 {
		return
	}
	var fill func(missing, start int, chosen []int) bool
	fill = func(missing, start int, chosen []int) bool {
		if missing == 0 {
			return f(chosen)
		}
		for i := start; i <= len(list)-missing; i++ {
			if !fill(missing-1, i+1, append(chosen, list[i])) {
				return false
			}
		}
		return true
	}
	fill(size, 0, []int{})
}
