package openshift

import (
	"fmt"
	"testing"
)

// Objects of a running cluster answer as documents do, by their kind and name.
func TestOf(t *testing.T) {
	a := Of([]Object{
		{Kind: "Network", Name: "cluster", Text: []byte(`{"apiVersion":"config.openshift.io/v1","kind":"Network","metadata":{"name":"cluster"},"spec":{"clusterNetwork":[{"cidr":"10.128.0.0/14","hostPrefix":23}],"networkType":"OVNKubernetes"}}`), Listed: true},
		{Kind: "ConfigMap", Name: "cluster-monitoring-config", Text: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cluster-monitoring-config"},"data":{"config.yaml":"prometheusK8s:\n  retention: 15d\n"}}`)},
	}, "")
	for input, want := range map[string]any{"openshift.nodes_max": 512.0, "openshift.network_type": "OVNKubernetes", "openshift.monitoring.retention_days": 15.0, "openshift.documents": 2.0} {
		if got := a.Answer(input); got.Value != want {
			t.Errorf("%s: %+v, want %v", input, got, want)
		}
	}
	performance := Of([]Object{{Kind: "PerformanceProfile", Name: "low-latency", Listed: true, Text: []byte(`{"apiVersion":"performance.openshift.io/v2","kind":"PerformanceProfile","metadata":{"name":"low-latency"},"spec":{"nodeSelector":{"node-role.kubernetes.io/worker-cnf":"","zone":"a"},"cpu":{"isolated":"4-47","reserved":"0-3"}}}`)}}, "")
	if got := performance.Answer("openshift.performance_profiles"); fmt.Sprint(got.Value) != "[low-latency: nodes with node-role.kubernetes.io/worker-cnf, zone=a (CPUs isolated 4-47, reserved 0-3)]" {
		t.Errorf("%+v", got)
	}
	// Another group's are not OpenShift's; where there is no right to list them it is not known.
	other := Object{Kind: "PerformanceProfile", Name: "x", Text: []byte(`{"apiVersion":"example.com/v1","kind":"PerformanceProfile","metadata":{"name":"x"}}`)}
	network := Object{Kind: "Network", Name: "cluster", Text: []byte(`{"apiVersion":"config.openshift.io/v1","kind":"Network","metadata":{"name":"cluster"}}`)}
	if got := Of([]Object{other, network}, "").Answer("openshift.performance_profiles"); fmt.Sprint(got.Value) != "[]" {
		t.Errorf("of another group: %+v", got)
	}
	if got := Of([]Object{network}, "performanceprofiles: forbidden").Answer("openshift.performance_profiles"); got.Unknown == "" {
		t.Errorf("without the right to list them: %+v", got)
	}
	if at := a.Answer("openshift.host_prefix").At; at != "Network cluster" {
		t.Errorf("at %q", at)
	}
	if at := a.Answer("openshift.monitoring.retention_days").At; at != "ConfigMap cluster-monitoring-config" {
		t.Errorf("at %q", at)
	}
	if got := Of(nil, "forbidden").Answer("openshift.nodes_max"); got.Unknown != "forbidden" {
		t.Errorf("%+v", got)
	}
	if got := Of([]Object{{Kind: "Network", Name: "x", Text: []byte("{")}}, "").Answer("openshift.nodes_max"); got.Unknown == "" {
		t.Errorf("%+v", got)
	}
}
