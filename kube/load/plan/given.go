// given knows what the controllers of Kubernetes and OpenShift put into each
// namespace by themselves.

package plan

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
		_, is := Account(annotations)
		return is
	}
	return false
}

// ByOpenShift says that of what is given to all namespaces, only OpenShift gives this.
func ByOpenShift(resource, name string) bool {
	return name != "default" && name != "kube-root-ca.crt" && ToAll(resource, name, nil)
}

// Account is the service account for which a secret with these annotations is: a token, or
// the means to pull images. Whether a controller has made it they do not say: a person may
// ask for a token in the same way. "" with true is one of OpenShift's that does not say it.
func Account(annotations map[string]string) (account string, is bool) {
	if account, is = annotations["kubernetes.io/service-account.name"]; is {
		return account, true
	}
	for note, value := range annotations {
		if note == "openshift.io/internal-registry-auth-token.service-account" {
			return value, true
		}
		is = is || strings.HasPrefix(note, "openshift.io/internal-registry")
	}
	return "", is
}
