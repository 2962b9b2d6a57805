// Package given knows what the controllers of Kubernetes and OpenShift put into each
// namespace by themselves.
package given

import "strings"

// ToAll says that an object of a resource (configmaps), with that name and these
// annotations, is one of them.
func ToAll(resource, name string, annotations map[string]string) bool {
	switch resource {
	case "configmaps":
		return name == "kube-root-ca.crt" || name == "openshift-service-ca.crt"
	case "serviceaccounts":
		return name == "default" || name == "builder" || name == "deployer"
	case "rolebindings":
		return name == "system:deployers" || name == "system:image-builders" || name == "system:image-pullers"
	case "secrets":
		for note := range annotations {
			if note == "kubernetes.io/service-account.name" || strings.HasPrefix(note, "openshift.io/internal-registry") {
				return true
			}
		}
	}
	return false
}
