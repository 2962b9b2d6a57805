package operator

import (
	"maps"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fettle.dev/fettle/kube/tuned"
)

// What the caches keep of objects, but for nodes, which are those of
// kube/cluster.

// lean makes an object that comes from the API server into what is kept of it.
func lean(in any) (any, error) {
	switch o := in.(type) {
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels},
			Spec:       corev1.PodSpec{NodeName: o.Spec.NodeName},
			Status:     corev1.PodStatus{Phase: o.Status.Phase},
		}, nil
	case *tuned.Profile:
		o.ManagedFields = leanManagers(o.ManagedFields)
		// An agent says there what became of each value: up to 32 KiB.
		maps.DeleteFunc(o.Annotations, func(name, _ string) bool { return name != RuleAnnotation && name != tuned.DeferredAnnotation })
		for i := range o.Spec.Profile {
			p := &o.Spec.Profile[i] // the same few texts on all nodes
			p.Name, p.Data = unique.Make(p.Name).Value(), unique.Make(p.Data).Value()
		}
	case *tuned.Tuned:
		o.ManagedFields = leanManagers(o.ManagedFields)
	case *unstructured.Unstructured:
		o.SetManagedFields(nil)
	}
	return in, nil
}

// leanManagers keeps who has written, and not what.
func leanManagers(in []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for _, f := range in {
		out = append(out, metav1.ManagedFieldsEntry{Manager: unique.Make(f.Manager).Value(), Operation: f.Operation, Subresource: f.Subresource})
	}
	return out
}
