package kubelet

import (
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
)

// openshiftRelease returns the Kubernetes release of an OpenShift node from the text of its
// /etc/os-release; "" for other machines and unknown versions.
func openshiftRelease(text string) string {
	version, _ := kuberelease.OpenShiftVersion(text)
	if r, ok := kuberelease.OfOpenShift(version); ok {
		return r.String()
	}
	return ""
}

// onOpenShift reports whether the kubelet is OpenShift's, which only warns about unknown feature
// gates. Source: github.com/openshift/kubernetes, component-base/featuregate/feature_gate.go.
func onOpenShift(h *host.Host) bool {
	text, err := h.Files.ReadFile("/etc/os-release")
	version, _ := kuberelease.OpenShiftVersion(string(text))
	return err == nil && version != ""
}
