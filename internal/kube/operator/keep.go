package operator

import (
	"maps"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"fettle.dev/fettle/internal/kube/kubeletconfig"
	"fettle.dev/fettle/internal/kube/tuned"
)

// What the caches keep of objects. A node has some ten kilobytes, most of them the
// names of images; a decision needs its labels, and one about its kubelet whether it is
// available. Strings are copied where they are a part of a longer one, which would be
// kept whole.

// lean makes an object that comes from the API server into what is kept of it.
func lean(in any) (any, error) {
	switch o := in.(type) {
	case *corev1.Node:
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels, Annotations: leanAnnotations(o.Annotations)},
			Spec:       corev1.NodeSpec{ProviderID: leanProvider(o.Spec.ProviderID), Unschedulable: o.Spec.Unschedulable},
			Status:     corev1.NodeStatus{Conditions: leanConditions(o.Status.Conditions)},
		}, nil
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

// leanAnnotations keeps the one that names the kubelet's settings of fettle's.
func leanAnnotations(in map[string]string) map[string]string {
	const name = kubeletconfig.SettingsAnnotation
	if in[name] == "" {
		return nil
	}
	return map[string]string{name: strings.Clone(in[name])}
}

// leanConditions keeps those that say whether a node is available, and not why.
func leanConditions(in []corev1.NodeCondition) []corev1.NodeCondition {
	var out []corev1.NodeCondition
	for _, c := range in {
		switch c.Type {
		case corev1.NodeReady, corev1.NodeDiskPressure, corev1.NodeNetworkUnavailable:
			out = append(out, corev1.NodeCondition{Type: corev1.NodeConditionType(unique.Make(string(c.Type)).Value()), Status: corev1.ConditionStatus(unique.Make(string(c.Status)).Value())})
		}
	}
	return out
}

func leanProvider(id string) string {
	if name := providerName(id); name != "" {
		return strings.Clone(name) + "://"
	}
	return ""
}

// leanManagers keeps who has written, and not what.
func leanManagers(in []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for _, f := range in {
		out = append(out, metav1.ManagedFieldsEntry{Manager: unique.Make(f.Manager).Value(), Operation: f.Operation, Subresource: f.Subresource})
	}
	return out
}
