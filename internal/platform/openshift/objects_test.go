package openshift

import "testing"

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
