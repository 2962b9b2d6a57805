//go:build !kubernetes_1_29 && !kubernetes_1_31

package upstream

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// SetResources sets the resources of the pod as a whole.
func SetResources(pod *v1.Pod, r *v1.ResourceRequirements) { pod.Spec.Resources = r }

// Resources returns the resources of the pod as a whole, or nil if it has none.
func Resources(pod *v1.Pod) *v1.ResourceRequirements { return pod.Spec.Resources }

// Requests returns a pod's requests as the scheduler counts them.
func Requests(pod *v1.Pod) v1.ResourceList {
	return resource.PodRequests(pod, resource.PodResourcesOptions{})
}
