package override

import (
	"fmt"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
)

// Operator is a program outside the machine that selects the machine's profile.
type Operator struct {
	Name     string `json:"name"`
	Evidence string `json:"evidence"` // FILE:LINE and the text of the line that shows it
	// Command prints the operator's profile for each machine.
	Command string `json:"command"`
}

// NodeTuning returns OpenShift's Node Tuning Operator, or nil if the machine is not an OpenShift
// node. The operator runs TuneD in a container on each node. Source: OpenShift 4.4 Scalability and
// Performance, 4.1.
func NodeTuning(h *host.Host) *Operator {
	const file = "/etc/os-release"
	text, err := h.Files.ReadFile(file)
	version, line := kuberelease.OpenShiftVersion(string(text))
	if err != nil || version == "" {
		return nil
	}
	return &Operator{
		Name:     "OpenShift's Node Tuning Operator",
		Evidence: fmt.Sprintf("%s:%d: OPENSHIFT_VERSION=%s", file, line, version),
		Command:  "oc get profile -n openshift-cluster-node-tuning-operator",
	}
}
