package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/ui"
)

// fleet answers for another namespace, in which 2 of 6 machines are unhealthy, and for all requests
// that discover kinds.
func fleet() map[string]any {
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	const group = `"name":"machine.openshift.io","versions":[{"groupVersion":"machine.openshift.io/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"machine.openshift.io/v1beta1","version":"v1beta1"}`
	var machines []string
	nodes := core.NodeList{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	for i := range 6 {
		name, phase := fmt.Sprintf("w-%d", i), "Running"
		if i == 4 {
			phase = "Failed"
		}
		machines = append(machines, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"fleet","ownerReferences":[{"kind":"MachineSet","name":"w","controller":true}]},"status":{"phase":%q,"nodeRef":{"name":"node-%d"}}}`, name, phase, i))
		if i != 2 {
			n := core.Node{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
			n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
			nodes.Items = append(nodes.Items, n)
		}
	}
	const in = "/apis/machine.openshift.io/v1beta1/namespaces/fleet/"
	return map[string]any{
		"/api":                       raw(`{"kind":"APIVersions","versions":["v1"]}`),
		"/api/v1":                    raw(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","namespaced":false,"kind":"Node","verbs":["list"]}]}`),
		"/apis":                      raw(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{` + group + `}]}`),
		"/apis/machine.openshift.io": raw(`{"kind":"APIGroup","apiVersion":"v1",` + group + `}`),
		"/apis/machine.openshift.io/v1beta1": raw(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"machine.openshift.io/v1beta1","resources":[
{"name":"machines","namespaced":true,"kind":"Machine","verbs":["list"]},{"name":"machinehealthchecks","namespaced":true,"kind":"MachineHealthCheck","verbs":["list"]}]}`),
		in + "machines": raw(`{"kind":"MachineList","apiVersion":"machine.openshift.io/v1beta1","items":[` + strings.Join(machines, ",") + `]}`),
		in + "machinehealthchecks": raw(`{"kind":"MachineHealthCheckList","apiVersion":"machine.openshift.io/v1beta1","items":[{"metadata":{"name":"fleet","namespace":"fleet"},"spec":{"selector":{},
"unhealthyConditions":[{"type":"Ready","status":"False","timeout":"300s"}],"maxUnhealthy":"40%","nodeStartupTimeout":"10m"}}]}`),
		"/api/v1/nodes?limit=100": nodes,
	}
}

func TestHealth(t *testing.T) {
	config := apiServer(t, fleet())
	code, out, errs := run(t, "--kubeconfig", config, "health", "-n", "fleet", "--output", "json")
	valid(t, "machine-health", []byte(out))
	var d MachineHealth
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != ui.Done || len(d.Checks) != 1 {
		t.Fatalf("exit code %d: %v\n%s%s", code, err, out, errs)
	}
	if c := d.Checks[0]; c.Expected != 6 || c.Healthy != 4 || c.Unhealthy != 2 || c.Allowed != 0 || !c.Open || len(c.Machines) != 2 || c.Words[1] != "machine w-2 will be replaced: its node node-2 is gone" {
		t.Errorf("%+v", c)
	}
	sameHeadline(t, "--kubeconfig", config, "health", "-n", "fleet")
	// Of two checks one has a turn; the other one says what it waits for.
	two := fleet()
	const checks = "/apis/machine.openshift.io/v1beta1/namespaces/fleet/machinehealthchecks"
	second := strings.NewReplacer(`"items":[{"metadata":{"name":"fleet"`, `"items":[{"metadata":{"name":"fleet","namespace":"fleet"},"spec":{"selector":{"matchLabels":{"half":"a"}},
"unhealthyConditions":[{"type":"Ready","status":"False","timeout":"300s"}]}},{"metadata":{"name":"second"`, `"selector":{},`, `"selector":{"matchLabels":{"half":"b"}},`)
	two[checks] = json.RawMessage(second.Replace(string(two[checks].(json.RawMessage))))
	half := strings.NewReplacer(`{"name":"w-2"`, `{"labels":{"half":"a"},"name":"w-2"`, `{"name":"w-4"`, `{"labels":{"half":"b"},"name":"w-4"`, `{"name":"w-5"`, `{"labels":{"half":"b"},"name":"w-5"`, `{"name":"w-1"`, `{"labels":{"half":"b"},"name":"w-1"`)
	const machinesOf = "/apis/machine.openshift.io/v1beta1/namespaces/fleet/machines"
	two[machinesOf] = json.RawMessage(half.Replace(string(two[machinesOf].(json.RawMessage))))
	turns := apiServer(t, two)
	// One that cannot be read is named, and the others are judged.
	bad := fleet()
	bad[checks] = json.RawMessage(strings.Replace(string(bad[checks].(json.RawMessage)), `"items":[`, `"items":[{"metadata":{"name":"bad","namespace":"fleet"},"spec":{"selector":{},"unhealthyConditions":[{"type":"Ready","status":"False","timeout":"soon"}]}},`, 1))
	odd := apiServer(t, bad)
	// A machine more that has failed closes it.
	answers := fleet()
	const machines = "/apis/machine.openshift.io/v1beta1/namespaces/fleet/machines"
	answers[machines] = json.RawMessage(strings.Replace(string(answers[machines].(json.RawMessage)), "Running", "Failed", 1))
	closed := apiServer(t, answers)
	without := maps.Clone(fleet())
	without["/apis"] = json.RawMessage(`{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	delete(without, "/apis/machine.openshift.io")
	delete(without, "/apis/machine.openshift.io/v1beta1")
	none := apiServer(t, without)
	for _, c := range []struct {
		config, args string
		code         int
		want         string
	}{
		{config, "health -n fleet fleet", ui.Done, "fleet: 4 of 6 healthy; 40 % of 6 machines is 2 (2.4 rounded down); 2 are unhealthy: remediation is allowed\n"},
		{config, "health -n fleet", ui.Done, "1 check: 4 of 6 machines healthy\n"},
		{config, "health -n fleet", ui.Done, "    kubectl -n fleet describe machines.machine.openshift.io w-2\n"},
		{closed, "health -n fleet", ui.Done, "; over the limit of unhealthy machines: 1 check\n"},
		{odd, "health -n fleet", ui.Done, "2 checks: 4 of 6 machines healthy; cannot be read: 1 check\n"},
		{config, "health -n fleet", ui.Done, "w-4      node-4  unhealthy  its phase is Failed\n"},
		{turns, "health -n fleet", ui.Done, "- machine w-2 will be replaced: its node node-2 is gone\n"},
		{turns, "health -n fleet second", ui.Done, "- nothing is remediated: only one machine is replaced at a time, and machine w-2 of MachineHealthCheck fleet is replaced first"},
		{closed, "health -n fleet", ui.Done, "fleet: 3 of 6 healthy; 40 % of 6 machines is 2 (2.4 rounded down); 3 are unhealthy: nothing is remediated\n"},
		{odd, "health -n fleet", ui.Done, `bad: cannot be read: MachineHealthCheck bad: spec.unhealthyConditions[0].timeout: time: invalid duration "soon"`},
		{odd, "health -n fleet", ui.Done, "fleet: 4 of 6 healthy; 40 % of 6 machines is 2"},
		{odd, "health -n fleet fleet", ui.Done, "fleet: 4 of 6 healthy; 40 % of 6 machines is 2"},
		{config, "health -n fleet none", ui.Usage, "MachineHealthCheck none not found in fleet"},
		{none, "health", ui.Failed, "the cluster has no MachineHealthCheck of machine.openshift.io/v1beta1"},
	} {
		code, out, errs := run(t, append([]string{"--kubeconfig", c.config}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
}

// TestHealthOfMany checks that the page of many machines is short, and that the headline counts all.
func TestHealthOfMany(t *testing.T) {
	d := MachineHealth{Namespace: "fleet"}
	for i := range 10 {
		c := CheckHealth{Check: fmt.Sprintf("check-%d", i), Expected: 20, Healthy: 20, Open: true, Words: []string{"remediation is allowed"}}
		if i == 7 {
			c.Open, c.Healthy = false, 0
			for m := range 20 {
				c.Machines = append(c.Machines, MachineState{fmt.Sprintf("m-%d", m), "node", "unhealthy", "its phase is Failed"})
			}
		}
		d.Checks = append(d.Checks, c)
	}
	d.Headline = d.headline()
	if f := d.Headline.Figures; f["checks"] != 10 || f["machines"] != 200 || f["healthy"] != 180 || f["checks_over_limit"] != 1 {
		t.Errorf("%v", f)
	}
	var out bytes.Buffer
	a := &app{screen: ui.NewScreen(&out, &out)}
	a.screen.Width = 80
	a.printHealth(&d, false)
	page := out.String()
	if n := strings.Count(page, "\n"); n > 40 || strings.Index(page, "check-7") > strings.Index(page, "check-0") || !strings.Contains(page, "Not shown: 6 checks, 8 machines (--details)") {
		t.Errorf("%d lines\n%s", n, page)
	}
	out.Reset()
	a.printHealth(&d, true)
	if n := strings.Count(out.String(), "its phase is Failed"); n != 20 {
		t.Errorf("%d machines with --details", n)
	}
}
