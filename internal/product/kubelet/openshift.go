package kubelet

import (
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
)

// openshiftRelease returns the Kubernetes of /etc/os-release of an OpenShift node, or "" for
// other machines and for unknown versions.
func openshiftRelease(text string) string {
	version, _ := kuberelease.OpenShiftVersion(text)
	if r, ok := kuberelease.OfOpenShift(version); ok {
		return r.String()
	}
	return ""
}

// onOpenShift reports whether the kubelet is OpenShift's: it warns about unknown feature gates,
// which are the cluster's, and starts.
// Source: github.com/openshift/kubernetes, component-base/featuregate/feature_gate.go.
func onOpenShift(h *host.Host) bool {
	text, err := h.Files.ReadFile("/etc/os-release")
	version, _ := kuberelease.OpenShiftVersion(string(text))
	return err == nil && version != ""
}
