// Fields that the API of Kubernetes 1.29 to 1.33 lacks or ignores are read only in this file;
// test/admission replaces it for that API (testdata/overlay.json).

package podfile

import (
	"reflect"

	core "k8s.io/api/core/v1"

	"fettle.dev/fettle/kube/pod/admission"
)

// ofPod returns the resources of the pod as a whole, or nil.
func ofPod(spec *core.PodSpec) *core.ResourceRequirements { return spec.Resources }

// strictGroups reports whether the pod's supplementalGroupsPolicy is Strict.
func strictGroups(spec *core.PodSpec) bool {
	c := spec.SecurityContext
	return c != nil && c.SupplementalGroupsPolicy != nil && *c.SupplementalGroupsPolicy == core.SupplementalGroupsPolicyStrict
}

// features returns the node features that the pod needs. Source: k8s.io/component-helpers v0.36.3
// and v0.37.2, nodedeclaredfeatures/features, InferForScheduling.
func features(spec *core.PodSpec) []string {
	var all []string
	restartsAll := func(rules []core.ContainerRestartRule) bool {
		for _, r := range rules {
			if r.Action == "RestartAllContainers" {
				return true
			}
		}
		return false
	}
	for _, list := range [][]core.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if len(all) == 0 && restartsAll(list[i].RestartPolicyRules) {
				all = append(all, admission.FeatureRestartAll)
			}
		}
	}
	if spec.HostNetwork && spec.HostUsers != nil && !*spec.HostUsers {
		all = append(all, admission.FeatureHostNetworkUsers)
	}
	if bindOptions(spec) {
		all = append(all, admission.FeatureBindMountOptions)
	}
	return all
}

// bindOptions reports whether a mount has bind options. It finds the field by name, because APIs up
// to 1.36 lack it.
func bindOptions(spec *core.PodSpec) bool {
	for _, list := range [][]core.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			for j := range list[i].VolumeMounts {
				if f := reflect.ValueOf(list[i].VolumeMounts[j]).FieldByName("BindMountOptions"); f.IsValid() && f.Len() > 0 {
					return true
				}
			}
		}
	}
	return false
}

// claim marks the containers' extended resources that come from the claim which the scheduler
// created for the pod.
func claim(p *admission.Pod, status *core.PodStatus) {
	if status.ExtendedResourceClaimStatus == nil {
		return
	}
	for _, m := range status.ExtendedResourceClaimStatus.RequestMappings {
		for _, list := range [][]admission.Container{p.Init, p.Containers} {
			for i := range list {
				if list[i].Name == m.ContainerName {
					list[i].Claimed = append(list[i].Claimed, m.ResourceName)
				}
			}
		}
	}
}
