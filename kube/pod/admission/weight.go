package admission

import (
	"fmt"

	"fettle.dev/fettle/internal/kuberelease"
)

// WeightDoc is the CPU weight that a control group of version 2 will get.
type WeightDoc struct {
	// Container is "" for the pod's own group.
	Container string `json:"container,omitempty"`
	Shares    uint64 `json:"cpu_shares"`
	// Linear and Curve are the weights by the two formulas. The pod's own group, which the
	// kubelet writes, gets the linear one.
	Linear uint64 `json:"linear_weight"`
	Curve  uint64 `json:"curve_weight"`
}

// Says is the weight in words, and who writes it.
func (d WeightDoc) Says() string {
	if d.Container == "" {
		return fmt.Sprintf("the pod's own group: %d for %d shares, which the kubelet writes (linear, in all releases known here); system.slice has 100", d.Linear, d.Shares)
	}
	return fmt.Sprintf("%s: %d for %d shares by runc before 1.3.2 or crun before 1.23, %d by newer ones", d.Container, d.Linear, d.Shares, d.Curve)
}

// weights are those of a pod by versions, since nothing of it runs yet.
func (p *Prediction) weights() []WeightDoc {
	pod := &p.in.Pod
	of := func(name string, shares uint64) WeightDoc {
		return WeightDoc{name, shares, kuberelease.Linear.Weight(shares), kuberelease.Curve.Weight(shares)}
	}
	out := []WeightDoc{of("", pod.CPUShares())}
	for _, c := range pod.all() {
		out = append(out, of(c.Name, pod.ContainerCPUShares(c.Name)))
	}
	return out
}
