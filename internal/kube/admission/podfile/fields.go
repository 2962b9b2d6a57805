package podfile

import core "k8s.io/api/core/v1"

// The fields that the API of Kubernetes 1.29 or 1.31 does not have are read in this file
// only: test/admission puts another one in its place, to build with that API.

// ofPod are the resources of the pod as a whole; nil where it has none.
func ofPod(spec *core.PodSpec) *core.ResourceRequirements { return spec.Resources }

// strictGroups reports whether the pod wants supplementalGroupsPolicy Strict.
func strictGroups(spec *core.PodSpec) bool {
	c := spec.SecurityContext
	return c != nil && c.SupplementalGroupsPolicy != nil && *c.SupplementalGroupsPolicy == core.SupplementalGroupsPolicyStrict
}
