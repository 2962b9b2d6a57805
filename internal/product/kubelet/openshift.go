package kubelet

import (
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
)

// openshiftRelease is the Kubernetes of /etc/os-release of an OpenShift node; "" for other
// machines and for versions that are not known here.
func openshiftRelease(text string) string {
	if r, ok := kuberelease.OfOpenShift(openshiftVersion(text)); ok {
		return r.String()
	}
	return ""
}

// openshiftVersion is that of /etc/os-release; "" for other machines.
func openshiftVersion(text string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "OPENSHIFT_VERSION="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// onOpenShift reports whether the kubelet is OpenShift's: it warns of feature gates that it
// does not know, which are the cluster's, and starts.
// Source: github.com/openshift/kubernetes, component-base/featuregate/feature_gate.go.
func onOpenShift(h *host.Host) bool {
	text, err := h.Files.ReadFile("/etc/os-release")
	return err == nil && openshiftVersion(string(text)) != ""
}
