package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/ui"
)

// machines are two sets of three machines and one machine, a check of all of them, and a router on
// the only machine of the second set.
func machines() map[string]any {
	var sets, list []string
	var nodes core.NodeList
	for i, replicas := range []int{3, 1} {
		set := fmt.Sprintf("workers-%c", 'a'+i)
		sets = append(sets, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"openshift-machine-api"},"spec":{"replicas":%d,"selector":{"matchLabels":{"machine.openshift.io/cluster-api-machineset":%q}}}}`, set, replicas, set))
		for j := range replicas {
			name := fmt.Sprintf("%s-%d", set, j)
			list = append(list, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"openshift-machine-api","labels":{"machine.openshift.io/cluster-api-machineset":%q,"machine.openshift.io/cluster-api-machine-role":"worker","machine.openshift.io/zone":"zone-%c"},"ownerReferences":[{"kind":"MachineSet","name":%q,"controller":true}]},"status":{"phase":"Running","nodeRef":{"name":%q}}}`, name, set, 'a'+i, set, name))
			n := core.Node{ObjectMeta: meta.ObjectMeta{Name: name}}
			n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
			nodes.Items = append(nodes.Items, n)
		}
	}
	router := core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "openshift-ingress", Name: "router-default-1", Labels: map[string]string{"ingresscontroller.operator.openshift.io/deployment-ingresscontroller": "default"}}}
	router.Spec.NodeName = "workers-b-0"
	items := func(list []string) json.RawMessage {
		return json.RawMessage(`{"items":[` + strings.Join(list, ",") + `]}`)
	}
	nodes.TypeMeta = meta.TypeMeta{APIVersion: "v1", Kind: "NodeList"}
	return map[string]any{
		"/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machinesets": items(sets),
		"/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machines":    items(list),
		"/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machinehealthchecks": items([]string{
			`{"metadata":{"name":"workers","namespace":"openshift-machine-api"},"spec":{"selector":{"matchLabels":{"machine.openshift.io/cluster-api-machine-role":"worker"}},"unhealthyConditions":[{"type":"Ready","status":"False","timeout":"300s"}],"maxUnhealthy":"40%","nodeStartupTimeout":"10m"}}`,
		}),
		"/api/v1/nodes":                        nodes,
		"/api/v1/pods":                         core.PodList{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []core.Pod{router}},
		"/apis/policy/v1/poddisruptionbudgets": policy.PodDisruptionBudgetList{TypeMeta: meta.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudgetList"}},
	}
}

func TestScalePlan(t *testing.T) {
	config := apiServer(t, machines())
	code, out, errs := run(t, "--kubeconfig", config, "scale", "plan", "workers-a", "workers-b", "--to", "10", "--output", "json")
	valid(t, "scale-plan", []byte(out))
	var p struct {
		Steps []struct {
			Sets []struct {
				Set      string
				From, To int
			}
			Remediation []string
		}
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != ui.Done {
		t.Fatalf("exit code %d: %v\n%s%s", code, err, out, errs)
	}
	sameHeadline(t, "--kubeconfig", config, "scale", "plan", "workers-a", "workers-b", "--to", "10")
	// 40 % of 6 is 2, and 40 % of 10 is 4. The zone with the fewest machines gets the next one.
	var got []string
	for _, s := range p.Steps {
		for _, r := range s.Sets {
			got = append(got, fmt.Sprintf("%s %d-%d", r.Set, r.From, r.To))
		}
	}
	if s := strings.Join(got, ", "); s != "workers-b 1-3, workers-a 3-5, workers-b 3-5" {
		t.Errorf("%s", s)
	}
	if p.Steps[0].Remediation[0] != "workers: 40 % of 6 machines is 2 (2.4 rounded down); 2 are unhealthy: remediation is allowed" {
		t.Errorf("%q", p.Steps[0].Remediation)
	}
	code, out, errs = run(t, "--kubeconfig", config, "scale", "execute", "workers-a", "--to", "3", "--yes", "--output", "json")
	valid(t, "scale-run", []byte(out))
	if code != ui.Done || !strings.Contains(out, `"state": "nothing"`) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"scale plan workers-a workers-b --to 10", ui.Done, "1     workers-b    zone-b  1 to 3"},
		{"scale plan workers-a workers-b --to 10", ui.Done, "4 machines to 10: 2 steps, time limits 20m in all\n"},
		{"scale plan workers-b --to 0", ui.Refused, "; blocked by 1 problem\n"},
		{"scale plan workers-a --to 2", ui.Done, "Machines removed in step 1, in this order\n- workers-a-0"},
		{"scale plan workers-b --to 0", ui.Refused, "routers run there: openshift-ingress/router-default-1"},
		{"scale plan workers-c --to 2", ui.Usage, "existing machine sets: workers-a, workers-b"},
		{"scale plan workers-a workers-a --to 2", ui.Usage, "named twice"},
		{"scale plan workers-a", ui.Usage, "want --to N (total machines of the sets) or --roll (replace all machines)"},
		{"scale plan workers-a --to 2 --roll", ui.Usage, "want --to N (total machines of the sets) or --roll (replace all machines)"},
		{"scale plan workers-a --roll", ui.Done, "1     workers-a    zone-a  3 to 5    2 machines have joined"},
		{"scale plan workers-a --to -1", ui.Usage, `--to "-1"`},
		{"scale plan workers-a --to 2000000000", ui.Usage, "2,000,000,000 machines: want at most 5,000"},
		{"scale execute workers-a --to 5001 --yes", ui.Usage, "5,001 machines: want at most 5,000"},
		{"scale plan --to 1", ui.Usage, " scale plan --to 1 workers"},
		{"scale plan workers-a --to 1 -n other", ui.Failed, "the cluster has no"},
		{"scale execute workers-a --to 4", ui.Refused, "cannot ask for confirmation: stdin is not a terminal; nothing changed"},
		{"scale execute workers-a", ui.Usage, "want --to N (total machines of the sets) or --roll (replace all machines)"},
		{"scale execute workers-a --to 4 --patience 0s --yes", ui.Usage, `--patience "0s": want 1s to 24h`},
		{"scale execute workers-a --to 4 --restart --yes", ui.Usage, "--restart needs --roll"},
		{"scale execute workers-b --to 0 --yes", ui.Refused, "routers run there: openshift-ingress/router-default-1"},
		{"scale execute workers-c --to 4 --yes", ui.Usage, "existing machine sets: workers-a, workers-b"},
		{"scale execute workers-a --to 3 --yes", ui.Done, "nothing to do: the machine sets already have 3 machines\n"},
		{"scale execute workers-a --to 4 --yes", ui.Failed, "the lease openshift-machine-api/fettle-scale"}, // this API server refuses all writes
	} {
		code, out, errs := run(t, append([]string{"--kubeconfig", config}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
	}
	// A check that cannot be read is named; the plan is made without it.
	odd := machines()
	const checksOf = "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machinehealthchecks"
	odd[checksOf] = json.RawMessage(strings.Replace(string(odd[checksOf].(json.RawMessage)), `{"items":[`, `{"items":[{"metadata":{"name":"odd","namespace":"openshift-machine-api"},"spec":{"nodeStartupTimeout":"soon"}},`, 1))
	code, out, errs = run(t, "--kubeconfig", apiServer(t, odd), "scale", "plan", "workers-a", "--to", "4")
	if code != ui.Done || !strings.Contains(out, `- MachineHealthCheck odd cannot be read, and is not part of the plan: spec.nodeStartupTimeout: time: invalid duration "soon"`) || !strings.Contains(out, "workers: 40 %") {
		t.Errorf("exit code %d, said %q:\n%s", code, errs, out)
	}
	const sets = "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machinesets"
	denied := machines()
	denied[sets] = meta.Status{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: meta.StatusReasonForbidden, Code: 403, Message: `machinesets is forbidden: User "u" cannot list`}
	code, _, errs = run(t, "--kubeconfig", apiServer(t, denied), "scale", "plan", "workers-a", "--to", "4")
	if want := `cannot list machinesets of machine.openshift.io in openshift-machine-api; grant the permission: machinesets is forbidden: User "u" cannot list`; code != ui.Failed || !strings.Contains(errs, want) {
		t.Errorf("exit code %d, said %q, want %q", code, errs, want)
	}
}
