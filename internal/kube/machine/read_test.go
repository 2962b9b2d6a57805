package machine

import (
	"strings"
	"testing"
	"time"
)

// sample is that of source 002, section 3.4, with the version that there is.
const sample = `apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: example
  namespace: openshift-machine-api
spec:
  selector:
    matchLabels:
      machine.openshift.io/cluster-api-machine-role: worker
      machine.openshift.io/cluster-api-machine-type: worker
      machine.openshift.io/cluster-api-machineset: prod-node-us-east-1a
  unhealthyConditions:
  - type: "Ready"
    timeout: "300s"
    status: "False"
  - type: "Ready"
    timeout: "300s"
    status: "Unknown"
  maxUnhealthy: "40%"
  nodeStartupTimeout: "10m"
`

func TestSample(t *testing.T) {
	c, err := ReadHealthCheck("healthcheck.yml", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "example" || len(c.Spec.UnhealthyConditions) != 2 || c.Spec.UnhealthyConditions[1].Timeout.Duration != 5*time.Minute || c.Spec.MaxUnhealthy.String() != "40%" || c.Spec.NodeStartupTimeout.Duration != 10*time.Minute || len(c.Spec.Selector.MatchLabels) != 3 {
		t.Errorf("%+v", c.Spec)
	}
	for _, max := range []string{`2`, `"2"`, `"100%"`, `"0%"`} {
		if _, err := ReadHealthCheck("f", []byte(strings.Replace(sample, `"40%"`, max, 1))); err != nil {
			t.Errorf("maxUnhealthy %s: %v", max, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"v1beta1", "v1beta", `want MachineHealthCheck of machine.openshift.io/v1beta1 (did you mean "machine.openshift.io/v1beta1"?)`}, // as it is printed there
		{"kind: MachineHealthCheck", "kind: NodeHealthCheck", `"NodeHealthCheck" of`},
		{"maxUnhealthy:", "maxUnhealty:", `file.yaml:19: spec: there is no field "maxUnhealty" (did you mean "maxUnhealthy"?)`},
		{`"40%"`, `"140%"`, `spec.maxUnhealthy is "140%"`},
		{`"40%"`, `"some"`, `spec.maxUnhealthy is "some"`},
		{`"40%"`, `-1`, `spec.maxUnhealthy is "-1"`},
		{`"40%"`, "\"40%\"\n  maxUnhealthy: 3", `file.yaml:20: spec: "maxUnhealthy" is there twice (file.yaml:19)`},
		{`timeout: "300s"`, `timeout: "soon"`, "invalid duration"},
		{`timeout: "300s"`, `timeout: "-1s"`, "below zero"},
		{`status: "False"`, `status: false`, `file.yaml:15: spec.unhealthyConditions[0].status: want text, found false (bool): write "false", with the quotes`},
		{`status: "False"`, `status: "No"`, `spec.unhealthyConditions[0].status is "No"`},
		{"  - type: \"Ready\"\n    timeout", "  - timeout", "file.yaml:13: spec.unhealthyConditions[0].type is missing"},
		{"apiVersion", "---\n" + sample + "---\napiVersion", "want one MachineHealthCheck, found 2 documents"},
		{"name: example", "generateName: example", "metadata.name is missing"},
		{`"10m"`, `"-10m"`, "spec.nodeStartupTimeout is -10m0s"},
		{"unhealthyConditions:\n  - type: \"Ready\"\n    timeout: \"300s\"\n    status: \"False\"\n  - type: \"Ready\"\n    timeout: \"300s\"\n    status: \"Unknown\"\n", "unhealthyConditions: []\n", "spec.unhealthyConditions has none"},
		{"matchLabels:", "matchLabel:", `file.yaml:8: spec.selector: there is no field "matchLabel" (did you mean "matchLabels"?)`},
	} {
		text := strings.Replace(sample, c.from, c.to, 1)
		if text == sample {
			t.Fatalf("%q is not in the sample", c.from)
		}
		if _, err := ReadHealthCheck("file.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "file.yaml:") {
			t.Errorf("%s instead of %s: %v, want %q", c.to, c.from, err, c.want)
		}
	}
}
