package override

import (
	"fmt"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/kuberelease"
)

// Operator is a program outside of the machine that decides which profile the machine runs.
type Operator struct {
	Name     string `json:"name"`
	Evidence string `json:"evidence"` // the line that shows it: FILE:LINE, and its text
	// Command asks the operator for the profile of each machine.
	Command string `json:"command"`
}

// NodeTuning returns OpenShift's Node Tuning Operator, or nil for a machine that is not an
// OpenShift node. The operator runs TuneD in a container on each node. Source: OpenShift 4.4
// Scalability and Performance, 4.1.
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
