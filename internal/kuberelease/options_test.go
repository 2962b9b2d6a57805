package kuberelease

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestJudgeOptions: options of the managers by release and gate. test/admission compares
// the managers' own code with kube/pod/admission, which reads the same stages.
func TestJudgeOptions(t *testing.T) {
	const static = "cpuManagerPolicy: static\ncpuManagerPolicyOptions: "
	for _, tt := range []struct {
		config  string
		release Release
		want    string // name: reason, beginnings
	}{
		{static + "{full-pcpus-only: 'true'}", 29, ""},
		{static + "{align-by-socket: 'true'}", 37, "cpuManagerPolicyOptions.align-by-socket: needs the feature gate CPUManagerPolicyAlphaOptions, which is off"},
		{static + "{align-by-socket: 'true'}\nfeatureGates: {CPUManagerPolicyAlphaOptions: true}", 37, ""},
		{static + "{align-by-socket: 'true'}\nfeatureGates: {AllAlpha: true}", 37, ""},
		{static + "{strict-cpu-reservation: 'true'}", 31, "cpuManagerPolicyOptions.strict-cpu-reservation: Kubernetes 1.31 does not have this option (1.32 and later)"},
		{static + "{strict-cpu-reservation: 'true'}", 32, "cpuManagerPolicyOptions.strict-cpu-reservation: needs the feature gate CPUManagerPolicyAlphaOptions"},
		{static + "{strict-cpu-reservation: 'true'}\nfeatureGates: {CPUManagerPolicyBetaOptions: false}", 34, "cpuManagerPolicyOptions.strict-cpu-reservation: needs the feature gate CPUManagerPolicyBetaOptions"},
		{static + "{strict-cpu-reservation: 'true'}\nfeatureGates: {CPUManagerPolicyBetaOptions: false}", 35, ""},
		{static + "{strict-cpu-reservations: 'true'}", 37, `cpuManagerPolicyOptions.strict-cpu-reservations: Kubernetes 1.37 has no such option (did you mean "strict-cpu-reservation"?)`},
		{static + "{strict-cpu-reservations: 'true'}", 38, ""},
		{"cpuManagerPolicyOptions: {full-pcpus-only: 'true'}", 37, "cpuManagerPolicyOptions: the policy none does not accept options"},
		{"topologyManagerPolicyOptions: {what: 'true'}", 37, ""},
		{"topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: '9'}", 30, "topologyManagerPolicyOptions.max-allowable-numa-nodes: Kubernetes 1.30 does not have"},
		{"topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {max-allowable-numa-nodes: '9'}", 31, ""},
		{static + "{what: 'true'}", 28, ""},
	} {
		var config map[string]any
		if err := yaml.Unmarshal([]byte(tt.config), &config); err != nil {
			t.Fatal(err)
		}
		got := strings.TrimSuffix(fmt.Sprintln(JudgeOptions(config, Kubelet{Release: tt.release})), "\n")
		if got = strings.Trim(got, "[]"); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s in %s: %q, want %q", tt.config, tt.release, got, tt.want)
		}
	}
}
