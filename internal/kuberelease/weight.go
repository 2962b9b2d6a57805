package kuberelease

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Formula converts CPU shares (2 to 262144, 1024 per CPU) to a cpu.weight of
// cgroup v2 (1 to 10000).
type Formula string

// The formulas.
const (
	// Linear gives one CPU the weight 39. Kubelets of all releases from 1.29 to
	// 1.37 use it for the groups of pods, QoS classes and all pods
	// (k8s.io/kubernetes, pkg/kubelet/cm/cgroup_manager_linux.go, getCPUWeight),
	// and runc up to 1.3.1 for containers.
	Linear Formula = "linear"
	// Curve gives one CPU the weight 100, the default of all other groups. runc
	// (opencontainers/cgroups from 0.0.3, pull request 20) and crun (pull request
	// 1767) use it for containers.
	Curve Formula = "curve"
)

// Formulas lists all formulas.
var Formulas = []Formula{Linear, Curve}

// KubeletFormula is the formula of all known kubelets for the groups that they create themselves.
const KubeletFormula = Linear

const (
	minShares, maxShares = 2, 262144
	maxWeight            = 10000
)

// Shares returns the CPU shares of a request in thousandths of a CPU, as the kubelet computes
// them (pkg/kubelet/cm/helpers_linux.go, MilliCPUToShares).
func Shares(milliCPU int64) uint64 {
	if milliCPU <= 0 {
		return minShares
	}
	return uint64(min(max(milliCPU*1024/1000, minShares), maxShares))
}

// Weight converts CPU shares to a cpu.weight.
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

// SharesRange returns the range of shares that have a given weight; ok is false if no shares
// have it.
func (f Formula) SharesRange(weight uint64) (least, most uint64, ok bool) {
	above := func(w uint64) uint64 { // the lowest shares with a weight of at least w
		return minShares + uint64(sort.Search(maxShares-minShares+1, func(n int) bool { return f.Weight(minShares+uint64(n)) >= w }))
	}
	least, most = above(weight), above(weight+1)-1
	return least, most, least <= most
}

// FormulasFor returns the formulas that convert shares to weight; at the ends of the range,
// both do.
func FormulasFor(shares, weight uint64) []Formula {
	return slices.DeleteFunc(slices.Clone(Formulas), func(f Formula) bool { return f.Weight(shares) != weight })
}

// RuntimeFormula returns the formula by which a container runtime converts CPU shares to
// cpu.weight: Curve from runc 1.3.2 and crun 1.23 on, Linear before. It returns false for other
// programs and invalid versions. Sources: go.mod of runc v1.3.1 and v1.3.2 (opencontainers/cgroups
// v0.0.1 and v0.0.4); crun's release notes of 1.23.
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

// PodWeights holds the cpu.weight of a pod's group and of its containers' groups. The sandbox, with
// weight 1, may be among them.
type PodWeights struct {
	Pod        uint64
	Containers []uint64
}

// WeightFormulas holds the formulas with which the weights of a node were written.
type WeightFormulas struct {
	// Pods and Containers are the formulas, or "" if uncertain.
	Pods, Containers Formula
	// Same reports whether pods and containers certainly have the same formula.
	Same bool
	// Seen is the number of pods that request CPU, Fit the number that the
	// formulas explain.
	Seen, Fit int
}

// DetectFormulas determines the formulas of a node's pods from their weights alone. A pod's shares
// are the sum of its containers' shares, and few pairs of formulas satisfy that. Pods with overhead
// or larger init containers fit no pair, or one by chance. A pair is certain if some pods fit only
// this pair, and at most as many pods do not fit it.
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
	// In a pod of one container, equal weights mean equal formulas.
	w.Fit = max(fits[pair{Linear, Linear}], fits[pair{Curve, Curve}])
	w.Same = w.Fit > 0 && w.Fit == w.Seen && fits[pair{Linear, Curve}]+fits[pair{Curve, Linear}] == 0
	return w
}

// explained reports whether the two formulas make the pod's shares the sum of its containers'
// shares.
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
			lo = 0 // no request, or the sandbox
			if container == Curve {
				hi = 0
			}
		}
		sumLeast, sumMost = sumLeast+lo, sumMost+hi+1 // each container's shares are rounded, the pod's only once
	}
	return sumLeast <= most && least <= sumMost
}
