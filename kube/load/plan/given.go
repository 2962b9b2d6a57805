package plan

import "strings"

// ToAll reports whether the controllers of Kubernetes and OpenShift put an object of a
// resource (configmaps) with this name and these annotations into each namespace.
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

// ByOpenShift reports whether only OpenShift puts such an object into each namespace.
func ByOpenShift(resource, name string) bool {
	return name != "default" && name != "kube-root-ca.crt" && ToAll(resource, name, nil)
}

// Account returns the service account of a secret with these annotations: a token, or the
// credentials to pull images. They do not tell whether a controller has made it: a user can
// ask for a token in the same way. "" with true is one of OpenShift's without the account.
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
