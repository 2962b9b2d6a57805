package kuberelease

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Formula is how CPU shares (2 to 262144, 1024 a CPU) become a cpu.weight of control groups
// of version 2 (1 to 10000).
type Formula string

// The formulas.
const (
	// Linear gives one CPU the weight 39. Kubelets write the groups of pods, of the classes
	// and of all pods with it, in every release from 1.29 to 1.37 (k8s.io/kubernetes,
	// pkg/kubelet/cm/cgroup_manager_linux.go, getCPUWeight), and runc up to 1.3.1 those of
	// containers.
	Linear Formula = "linear"
	// Curve gives one CPU the weight 100, which is the default of all other groups. runc
	// (opencontainers/cgroups from 0.0.3 on, pull request 20) and crun (pull request 1767)
	// write the groups of containers with it.
	Curve Formula = "curve"
)

// Formulas are all of them.
var Formulas = []Formula{Linear, Curve}

// KubeletFormula is that of the groups which a kubelet writes itself, in all known releases.
const KubeletFormula = Linear

const (
	minShares, maxShares = 2, 262144
	maxWeight            = 10000
)

// Shares are the CPU shares that a kubelet makes of a request in thousandths of a CPU
// (pkg/kubelet/cm/helpers_linux.go, MilliCPUToShares).
func Shares(milliCPU int64) uint64 {
	if milliCPU <= 0 {
		return minShares
	}
	return uint64(min(max(milliCPU*1024/1000, minShares), maxShares))
}

// Weight is the cpu.weight of shares.
func (f Formula) Weight(shares uint64) uint64 {
	shares = min(max(shares, minShares), maxShares)
	if f == Linear {
		return 1 + (shares-minShares)*(maxWeight-1)/(maxShares-minShares)
	}
	switch shares {
	case minShares:
		return 1
	case maxShares:
		return maxWeight
	}
	l := math.Log2(float64(shares))
	return uint64(math.Ceil(math.Pow(10, (l*l+125*l)/612-7.0/34)))
}

// SharesRange are the least and the most shares that have a weight; ok is false for weights that
// the formula never gives.
func (f Formula) SharesRange(weight uint64) (least, most uint64, ok bool) {
	above := func(w uint64) uint64 { // the first shares whose weight is at least w
		return minShares + uint64(sort.Search(maxShares-minShares+1, func(n int) bool { return f.Weight(minShares+uint64(n)) >= w }))
	}
	least, most = above(weight), above(weight+1)-1
	return least, most, least <= most
}

// FormulasFor are the formulas that make a weight of shares; both of them at the ends of the
// range.
func FormulasFor(shares, weight uint64) []Formula {
	return slices.DeleteFunc(slices.Clone(Formulas), func(f Formula) bool { return f.Weight(shares) != weight })
}

// RuntimeFormula is the formula of a runtime's version: runc 1.3.2, crun 1.23. It reports
// false for other programs, and for versions that cannot be read.
// Source: the go.mod of runc v1.3.1 and v1.3.2 (opencontainers/cgroups v0.0.1 and v0.0.4);
// runc 1.1 and 1.2 have the linear one; crun's release notes of 1.23.
func RuntimeFormula(program, version string) (Formula, bool) {
	since := map[string][3]int{"runc": {1, 3, 2}, "crun": {1, 23, 0}}
	first, known := since[program]
	if !known {
		return "", false
	}
	var v [3]int
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	for i, part := range parts {
		digits := part[:len(part)-len(strings.TrimLeft(part, "0123456789"))]
		n, err := strconv.Atoi(digits)
		if err != nil {
			return "", false
		}
		v[i] = n
	}
	if len(parts) < 2 {
		return "", false
	}
	if slices.Compare(v[:], first[:]) < 0 {
		return Linear, true
	}
	return Curve, true
}

// PodWeights are the weights of a pod's group and of its containers' groups, that of its
// sandbox, which has the weight 1, among them or not.
type PodWeights struct {
	Pod        uint64
	Containers []uint64
}

// WeightFormulas is by which formulas the weights of a node were written.
type WeightFormulas struct {
	// Pods and Containers are the formulas; "" where they are not certain.
	Pods, Containers Formula
	// Same says that pods and containers have one formula, whichever.
	Same bool
	// Seen are the pods that ask for CPU, Fit those that the formulas explain.
	Seen, Fit int
}

// DetectFormulas says by which formulas the weights of a node's pods were written, from the
// weights alone: the shares of a pod are the sum of its containers', and only some pairs of
// formulas explain that. Pods with an overhead, or with init containers that ask for more,
// are explained by none or by chance: a pair is certain where it alone explains a pod, and
// leaves no other, or no more pods than it alone explains, unexplained.
func DetectFormulas(pods []PodWeights) WeightFormulas {
	type pair struct{ pods, containers Formula }
	var w WeightFormulas
	fits, alone := map[pair]int{}, map[pair]int{}
	for _, p := range pods {
		if p.Pod <= 1 || len(p.Containers) == 0 {
			continue // without a request all weights are 1
		}
		w.Seen++
		var fit []pair
		for _, fp := range Formulas {
			for _, fc := range Formulas {
				if p.explained(fp, fc) {
					fit = append(fit, pair{fp, fc})
				}
			}
		}
		for _, f := range fit {
			fits[f]++
		}
		if len(fit) == 1 {
			alone[fit[0]]++
		}
	}
	for f, n := range alone {
		if others := w.Seen - fits[f]; len(alone) == 1 && (others == 0 || n > 1 && others <= n) {
			return WeightFormulas{Pods: f.pods, Containers: f.containers, Same: f.pods == f.containers, Seen: w.Seen, Fit: fits[f]}
		}
	}
	// Weights that are equal in a pod of one container have one formula.
	w.Fit = max(fits[pair{Linear, Linear}], fits[pair{Curve, Curve}])
	w.Same = w.Fit > 0 && w.Fit == w.Seen && fits[pair{Linear, Curve}]+fits[pair{Curve, Linear}] == 0
	return w
}

// explained reports whether a pod's weights can be those of containers whose shares add up
// to the pod's.
func (p PodWeights) explained(pod, container Formula) bool {
	least, most, ok := pod.SharesRange(p.Pod)
	if !ok {
		return false
	}
	var sumLeast, sumMost uint64
	for _, weight := range p.Containers {
		lo, hi, ok := container.SharesRange(weight)
		if !ok {
			return false
		}
		if weight == 1 {
			lo = 0 // without a request, or a sandbox
			if container == Curve {
				hi = 0
			}
		}
		sumLeast, sumMost = sumLeast+lo, sumMost+hi+1 // the pod's is rounded once, theirs each
	}
	return sumLeast <= most && least <= sumMost
}
