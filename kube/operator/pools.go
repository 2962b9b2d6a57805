package operator

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"fettle.dev/fettle/kube/tuned"
)

// Pools reads MachineConfigPools, in order of their names. One that cannot be read
// selects nothing.
func Pools(all []unstructured.Unstructured) []tuned.Pool {
	var out []tuned.Pool
	for i := range all {
		var o struct {
			Spec struct {
				NodeSelector          *metav1.LabelSelector `json:"nodeSelector"`
				MachineConfigSelector *metav1.LabelSelector `json:"machineConfigSelector"`
			} `json:"spec"`
		}
		p := tuned.Pool{Name: all[i].GetName()}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[i].Object, &o); err == nil {
			p.NodeSelector, p.MachineConfigSelector = o.Spec.NodeSelector, o.Spec.MachineConfigSelector
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b tuned.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
