package openshift

import (
	"fmt"
	"strings"
	"testing"
)

// TestHealthChecks: fields of a MachineHealthCheck that are missing, empty, null or written
// otherwise, as an API server and machine-api-operator's controller read them.
func TestHealthChecks(t *testing.T) {
	const none = "<nil>"
	for spec, want := range map[string]map[string]string{
		"{}": {"max_unhealthy": none, "role": "*", "type": "*", "startup_s": none, "shortest_s": none},
		"":   {"max_unhealthy": none, "role": "*"},
		"{selector: null, maxUnhealthy: null, nodeStartupTimeout: null, unhealthyConditions: null}": {"max_unhealthy": none, "role": "*", "startup_s": none, "shortest_s": none},
		"{selector: {matchLabels: {}}}":                                                      {"role": "*"},
		"{selector: {matchLabels: {a: b}}}":                                                  {"role": none, "type": none},
		"{selector: {matchExpressions: [{key: a, operator: Exists}]}}":                       {"role": none},
		"{selector: {matchLabels: {machine.openshift.io/cluster-api-machine-role: worker}}}": {"role": "worker", "type": none},
		`{maxUnhealthy: "40%"}`:                                                              {"max_unhealthy": "40%"},
		`{maxUnhealthy: 40}`:                                                                 {"max_unhealthy": "40"},
		`{maxUnhealthy: "3"}`:                                                                {"max_unhealthy": "3"},
		`{maxUnhealthy: 0x10}`:                                                               {"max_unhealthy": "16"},
		`{maxUnhealthy: 010}`:                                                                {"max_unhealthy": "8"},
		`{maxUnhealthy: "-1"}`:                                                               {"max_unhealthy": "-1"},
		`{maxUnhealthy: "040%"}`:                                                             {"max_unhealthy": "040%"},
		`{maxUnhealthy: ""}`:                                                                 {"max_unhealthy": ""},
		`{nodeStartupTimeout: "0"}`:                                                          {"startup_s": "0"},
		`{nodeStartupTimeout: 1h0m0s}`:                                                       {"startup_s": "3600"},
		`{nodeStartupTimeout: 1d}`:                                                           {"startup_s": none},
		"{unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300s}]}":                                                   {"shortest_s": "300", "longest_s": "300"},
		"{unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m0s}]}":                                                   {"shortest_s": "300"},
		"{unhealthyConditions: [{type: Ready, status: Unknown, timeout: 1.5h}, {type: Ready, status: \"False\", timeout: 250ms}]}": {"shortest_s": "0.25", "longest_s": "5400"},
		"{unhealthyConditions: [{type: Ready, status: Unknown}]}":                                                                  {"shortest_s": "0", "longest_s": "0"},
		"{unhealthyConditions: [{type: Ready, status: Unknown, timeout: null}]}":                                                   {"shortest_s": "0"},
		"{unhealthyConditions: [{type: Ready, status: Unknown, timeout: ''}]}":                                                     {"shortest_s": none},
		"{unhealthyConditions: [{type: Ready, status: Unknown, timeout: 300}]}":                                                    {"shortest_s": none},
		"{unhealthyConditions: [{type: Ready, status: Unknown, timeout: -5m}]}":                                                    {"shortest_s": none},
		"{unhealthyConditions: [{type: Ready, status: False, timeout: 5m}]}":                                                       {"conditions": none, "shortest_s": "300"},
		"{unhealthyConditions: [{type: Ready, status: \"False\", timeout: 0}]}":                                                    {"conditions": "[Ready=False]", "shortest_s": none},
		"{unhealthyConditions: [{type: Ready, status: \"False\", timeout: \"0\"}]}":                                                {"shortest_s": "0"},
		"{nodeStartupTimeout: 0}":   {"startup_s": none},
		"{unhealthyConditions: []}": {"shortest_s": none, "conditions": "[]"},
	} {
		s := directory(t, map[string]string{"install-config.yaml": install, "w.yaml": "apiVersion: machine.openshift.io/v1beta1\nkind: MachineHealthCheck\nmetadata: {name: w}\nspec: " + spec + "\n"})
		for input, value := range want {
			a := s.Answer("openshift.health_check.w.yaml w." + input)
			if got := fmt.Sprint(a.Value); got != value {
				t.Errorf("%s: %s is %s (%+v), want %s", strings.TrimSpace(spec), input, got, a, value)
			}
		}
	}
}
