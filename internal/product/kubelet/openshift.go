package kubelet

import (
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
)

// openshiftRelease returns the Kubernetes of /etc/os-release of an OpenShift node, or "" for
// other machines and for unknown versions.
func openshiftRelease(text string) string {
	if r, ok := kuberelease.OfOpenShift(openshiftVersion(text)); ok {
		return r.String()
	}
	return ""
}

// openshiftVersion returns the version in /etc/os-release, or "" for other machines.
func openshiftVersion(text string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "OPENSHIFT_VERSION="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// onOpenShift reports whether the kubelet is OpenShift's: it warns about unknown feature gates,
// which are the cluster's, and starts.
// Source: github.com/openshift/kubernetes, component-base/featuregate/feature_gate.go.
func onOpenShift(h *host.Host) bool {
	text, err := h.Files.ReadFile("/etc/os-release")
	return err == nil && openshiftVersion(string(text)) != ""
}
