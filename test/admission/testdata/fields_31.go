// In the place of kube/pod/admission/podfile/fields.go (overlay.json), with the API of
// Kubernetes 1.29 to 1.33, in which these fields are not there or count for nothing.

package podfile

import (
	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/kube/pod/admission"
)

func ofPod(*core.PodSpec) *core.ResourceRequirements { return nil }

func strictGroups(*core.PodSpec) bool { return false }

func features(*core.PodSpec) []string { return nil }

func claim(*admission.Pod, *core.PodStatus) {}
