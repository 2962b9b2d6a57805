package admission

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/unit"
)

// errCPUs means that there are fewer free CPUs than requested.
var errCPUs = errors.New("not enough free CPUs")

// taking collects free CPUs for one container like the static policy: whole NUMA nodes or sockets
// (the larger first), then whole caches if the option is set, whole cores, and single CPUs. Among
// equal candidates, it takes the one with the fewest free CPUs, then the lowest number. Source:
// k8s.io/kubernetes v1.34.4, pkg/kubelet/cm/cpumanager/cpu_assignment.go.
type taking struct {
	t       *topology
	free    unit.CPUSet
	needed  int
	got     unit.CPUSet
	options cpuOptions
}

// take returns a number of CPUs out of the free ones.
func (t *topology) take(free unit.CPUSet, number int, o cpuOptions) (unit.CPUSet, error) {
	if o.acrossNUMA {
		return t.distribute(free, number, o)
	}
	return t.pack(free, number, o)
}

// pack returns CPUs that are as close together as possible.
func (t *topology) pack(free unit.CPUSet, number int, o cpuOptions) (unit.CPUSet, error) {
	a := &taking{t: t, free: free.Intersect(t.all), needed: number, options: o}
	if a.done() {
		return a.got, nil
	}
	if a.needed > a.free.Len() {
		return unit.CPUSet{}, errCPUs
	}
	steps := []func(){a.wholeSockets, a.wholeNodes}
	if a.nodesAbove() {
		steps = []func(){a.wholeNodes, a.wholeSockets}
	}
	if o.byUncoreCache {
		steps = append(steps, a.caches)
	}
	if !o.acrossCores {
		steps = append(steps, a.wholeCores)
	}
	for _, step := range append(steps, a.singly) {
		if step(); a.done() {
			return a.got, nil
		}
	}
	return unit.CPUSet{}, errCPUs
}

func (a *taking) done() bool { return a.needed < 1 }

func (a *taking) add(cpus unit.CPUSet) {
	a.got = a.got.Union(cpus)
	a.free = a.free.Minus(a.got)
	a.needed -= cpus.Len()
}

// nodesAbove reports whether NUMA nodes contain sockets, or equal them, rather than the reverse.
func (a *taking) nodesAbove() bool { return len(a.t.sockets) >= len(a.t.nodes) }

// inOrder returns the units of a division (nodes, sockets or cores) that have free CPUs, the units
// with the fewest first. If part is set, only free CPUs in part count.
func (a *taking) inOrder(division map[int]unit.CPUSet, part *unit.CPUSet) []int {
	free := map[int]int{}
	for id, cpus := range division {
		here := cpus.Intersect(a.free)
		if part != nil && here.Intersect(*part).IsEmpty() || here.IsEmpty() {
			continue
		}
		free[id] = here.Len()
	}
	ids := slices.Collect(maps.Keys(free))
	slices.SortFunc(ids, func(x, y int) int { return cmp.Or(cmp.Compare(free[x], free[y]), cmp.Compare(x, y)) })
	return ids
}

// below returns the inner parts of each outer part, in order. As in the kubelet, an inner part that
// lies in several outer ones is repeated.
func (a *taking) below(outer []int, of, inner map[int]unit.CPUSet) []int {
	var out []int
	for _, id := range outer {
		part := of[id]
		out = append(out, a.inOrder(inner, &part)...)
	}
	return out
}

func (a *taking) nodes() []int {
	if a.nodesAbove() {
		return a.inOrder(a.t.nodes, nil)
	}
	return a.below(a.sockets(), a.t.sockets, a.t.nodes)
}

func (a *taking) sockets() []int {
	if a.nodesAbove() {
		return a.below(a.nodes(), a.t.nodes, a.t.sockets)
	}
	return a.inOrder(a.t.sockets, nil)
}

func (a *taking) cores() []int {
	if a.nodesAbove() {
		return a.below(a.sockets(), a.t.sockets, a.t.cores)
	}
	return a.below(a.nodes(), a.t.nodes, a.t.cores)
}

func (a *taking) uncoreCaches() []int { return a.below(a.nodes(), a.t.nodes, a.t.uncore) }

// whole takes completely free parts of a division that are not larger than the remaining need.
// Which parts are free is determined once.
func (a *taking) whole(ids []int, division map[int]unit.CPUSet, size func(id int) int) {
	ids = slices.DeleteFunc(ids, func(id int) bool { return division[id].Intersect(a.free).Len() != size(id) })
	for _, id := range ids {
		if a.needed >= division[id].Len() {
			a.add(division[id])
		}
	}
}

func (a *taking) wholeNodes() {
	a.whole(a.nodes(), a.t.nodes, func(id int) int { return a.t.nodes[id].Len() })
}

func (a *taking) wholeSockets() {
	a.whole(a.sockets(), a.t.sockets, func(int) int { return a.t.perSocket() })
}

func (a *taking) wholeCores() {
	a.whole(a.cores(), a.t.cores, func(int) int { return a.t.perCore() })
}

// caches takes whole caches, and then the rest from one cache.
func (a *taking) caches() {
	for _, id := range a.uncoreCaches() {
		if a.needed >= a.t.perUncore() {
			a.whole(a.uncoreCaches(), a.t.uncore, func(id int) int { return a.t.uncore[id].Len() })
		}
		if a.done() {
			return
		}
		if a.partOf(id); a.done() {
			return
		}
	}
}

// partOf takes the rest from the cores of one cache, or nothing.
func (a *taking) partOf(cache int) {
	perCore := a.t.perCore()
	want := (a.needed + perCore - 1) / perCore
	if a.options.release < oddCores {
		want = a.needed / perCore
	}
	var cores []int
	for _, cpu := range a.free.Intersect(a.t.uncore[cache]).Numbers() {
		cores = append(cores, a.t.place[cpu].core)
	}
	slices.Sort(cores)
	cores = slices.Compact(cores)
	var cpus unit.CPUSet
	for _, core := range cores[:min(want, len(cores))] {
		cpus = cpus.Union(a.t.cores[core].Intersect(a.free))
	}
	// An odd number leaves a thread of the last core free.
	if list := cpus.Numbers(); a.options.release >= oddCores && a.needed%2 != 0 && perCore > 1 && len(list) > a.needed {
		cpus = unit.CPUs(list[:len(list)-1]...)
	}
	if cpus.Len() == a.needed {
		a.add(cpus)
	}
}

// singly takes single CPUs: first those on partly used cores, or, if cores are to be spread, those
// with the lowest numbers of each socket.
func (a *taking) singly() {
	order := a.cores()
	division := a.t.cores
	if a.options.acrossCores {
		order, division = a.sockets(), a.t.sockets
	}
	var list []int
	for _, id := range order {
		list = append(list, division[id].Intersect(a.free).Numbers()...)
	}
	for _, cpu := range list {
		if a.add(unit.CPUs(cpu)); a.done() {
			return
		}
	}
}
