//go:build kubernetes_1_29 || kubernetes_1_31

package upstream

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/v1/resource"
)

// SetResources does nothing: in this release a pod as a whole has no resources.
func SetResources(*v1.Pod, *v1.ResourceRequirements) {}

// Resources are empty.
func Resources(*v1.Pod) *v1.ResourceRequirements { return nil }

// Requests returns a pod's requests as the scheduler counts them.
func Requests(pod *v1.Pod) v1.ResourceList {
	return resource.PodRequests(pod, resource.PodResourcesOptions{})
}
