package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// reportOnly: with a Profile of another controller nothing is written, and who it is
// is said.
func (b *operatorBench) reportOnly(start func(...string) *Program) {
	b.t.Helper()
	ctx := b.t.Context()
	other := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "tuned.openshift.io/v1", "kind": "Profile", "metadata": map[string]any{"name": nodeName(0), "namespace": tunedNamespace},
		"spec": map[string]any{"config": map[string]any{"tunedProfile": "theirs"}},
	}}
	if _, err := b.profiles().Create(ctx, other, meta.CreateOptions{FieldManager: "cluster-node-tuning-operator"}); err != nil {
		b.t.Fatal(err)
	}
	p := start("--lease=15s")
	b.Wait("the operator to see the other one", time.Minute, func(context.Context) error {
		if v, err := b.metric("fettle_operator_report_only"); err != nil || v != 1 {
			return fmt.Errorf("report_only is %v: %w", v, errors.Join(err, errors.New("not yet")))
		}
		v, err := b.metric(`fettle_operator_nodes{state="no-match"}`)
		if err == nil && v != float64(b.nodes) {
			err = fmt.Errorf("%v nodes are decided", v)
		}
		return err
	})
	if log := p.Log(20); !strings.Contains(log, "cluster-node-tuning-operator, which wrote Profile "+nodeName(0)) {
		b.t.Errorf("the log does not name the other one:\n%s", log)
	}
	profiles, err := b.profiles().List(ctx, meta.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	tuneds, err := b.tuneds().List(ctx, meta.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if len(profiles.Items) != 1 || text(&profiles.Items[0], "spec", "config", "tunedProfile") != "theirs" || len(tuneds.Items) != 0 {
		b.t.Errorf("%d Profiles and %d Tuned objects beside another controller's", len(profiles.Items), len(tuneds.Items))
	}
	b.must(p.Stop())
}

// oneRule: one object is changed so that a third of the nodes get another profile.
func (b *operatorBench) oneRule() {
	b.t.Helper()
	b.patchTuned("database", map[string]any{"profile": []any{map[string]any{"name": "database", "data": "[main]\ninclude=openshift-node\n[sysctl]\nvm.swappiness=2\n"}}})
	began := time.Now()
	b.Wait("the text to be on all nodes", b.within(time.Minute), func(ctx context.Context) error {
		list, err := b.profiles().List(ctx, meta.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			p := &list.Items[i]
			if text(p, "spec", "config", "tunedProfile") != "database" {
				continue
			}
			if all, _ := json.Marshal(p.Object["spec"]); !strings.Contains(string(all), "vm.swappiness=2") {
				return fmt.Errorf("%s has the old text", p.GetName())
			}
		}
		return nil
	})
	b.t.Logf("the text of one profile changed: on all its nodes %.2f s later", time.Since(began).Seconds())
}

func (b *operatorBench) patchTuned(name string, spec map[string]any) {
	b.t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.tuneds().Patch(b.t.Context(), name, types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// killed: the operator is killed while labels change, nodes go while it is away, and
// when it is there again all is right.
func (b *operatorBench) killed(p *Program) {
	b.t.Helper()
	b.round++
	b.setLabels(0, b.nodes/5)
	p.Kill()
	b.setLabels(b.nodes/5, b.nodes)
	for i := range 20 {
		name := nodeName(i * 7)
		if err := b.Client.CoreV1().Nodes().Delete(b.t.Context(), name, meta.DeleteOptions{}); err != nil {
			b.t.Fatal(err)
		}
		b.gone[name] = true
	}
	began := time.Now()
	b.must(p.Start())
	b.settled("an operator that was killed", began)
}

// badObject: nodes that would get a profile that is refused keep what they have, the
// others are decided, and the object says why.
func (b *operatorBench) badObject(a *applier) {
	b.t.Helper()
	a.apply("the bad object", []byte(`
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: bad, namespace: openshift-cluster-node-tuning-operator}
spec:
  profile: [{name: bad, data: "[script]\nscript=x.sh\n"}, {name: database, data: "[vm]\n"}]
  recommend: [{profile: bad, priority: 5, match: [{label: zone, value: a}]}]
`))
	b.Wait("the objects to be said invalid", time.Minute, func(ctx context.Context) error {
		for name, want := range map[string]string{"bad": "RefusedProfile", "database": "DuplicateProfile", "latency": "AsExpected", "default": "AsExpected"} {
			o, err := b.tuneds().Get(ctx, name, meta.GetOptions{})
			if err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			if said, _ := json.Marshal(conditions); !strings.Contains(string(said), want) {
				return fmt.Errorf("Tuned %s: %s, want %s", name, said, want)
			}
		}
		held, err := b.metric(`fettle_operator_nodes{state="held"}`)
		if err == nil && held < float64(b.nodes/4) {
			err = fmt.Errorf("%v nodes are held", held)
		}
		return err
	})
	if err := b.right(b.t.Context()); err != nil {
		b.t.Errorf("nodes that are held have lost what they had: %v", err)
	}
	b.Wait("the events of it", b.within(time.Minute), func(ctx context.Context) error { // they are sent in parallel
		events, err := b.Client.CoreV1().Events(tunedNamespace).List(ctx, meta.ListOptions{})
		if err != nil {
			return err
		}
		reasons := map[string]int{}
		for _, e := range events.Items {
			reasons[e.Reason+" of "+e.InvolvedObject.Name]++
		}
		for _, want := range []string{"RefusedProfile of bad", "NodeHeld of bad"} {
			if reasons[want] == 0 {
				return fmt.Errorf("no event %s among %v", want, reasons)
			}
		}
		return nil
	})
	if err := b.tuneds().Delete(b.t.Context(), "bad", meta.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.settled("a bad object that is gone", time.Now())
}

// takenBack: managementState Removed takes all Profiles away, Managed gives them again;
// what else is changed in the object default is changed back.
func (b *operatorBench) takenBack() {
	b.t.Helper()
	b.patchTuned("default", map[string]any{"managementState": "Removed"})
	began := time.Now()
	b.Wait("all Profiles to be gone", 2*time.Minute, func(ctx context.Context) error {
		list, err := b.profiles().List(ctx, meta.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are there", len(list.Items))
		}
		return err
	})
	b.t.Logf("managementState Removed: no Profile any more %.2f s later", time.Since(began).Seconds())
	b.patchTuned("default", map[string]any{"managementState": "Managed", "recommend": nil})
	b.settled("managementState Managed", time.Now())
	o, err := b.tuneds().Get(b.t.Context(), "default", meta.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "recommend"); len(rules) != 2 || text(o, "spec", "managementState") != "Managed" {
		b.t.Errorf("the object default after somebody's change: %v", o.Object["spec"])
	}
	if err := b.tuneds().Delete(b.t.Context(), "default", meta.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.Wait("the object default to be made again", time.Minute, func(ctx context.Context) error {
		_, err := b.tuneds().Get(ctx, "default", meta.GetOptions{})
		return err
	})
	if err := b.right(b.t.Context()); err != nil {
		b.t.Errorf("while the object default was gone, nodes have lost what they had: %v", err)
	}
}

// status: kubectl fettle status says of each node what its agent has said. The agents
// are the test's.
func (b *operatorBench) status() {
	b.t.Helper()
	say := func(i int, status map[string]any) {
		b.t.Helper()
		patch, _ := json.Marshal(map[string]any{"status": status})
		if _, err := b.profiles().Patch(b.t.Context(), nodeName(i), types.MergePatchType, patch, meta.PatchOptions{}, "status"); err != nil {
			b.t.Fatal(err)
		}
	}
	condition := func(kind, status, reason, message string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
	}
	want := wanted(labelsOf(1, b.round))
	say(1, map[string]any{"tunedProfile": want, "conditions": []any{condition("Applied", "True", "AsExpected", ""), condition("Degraded", "False", "AsExpected", "")}})
	say(2, map[string]any{"tunedProfile": "openshift-node", "conditions": []any{condition("Applied", "False", "Failed", "no such file"), condition("Degraded", "True", "TunedError", "no such file")}})
	began := time.Now()
	out := run(b.t, "kubectl-fettle", "status", "--kubeconfig="+b.Kubeconfig, "--output=json")
	took := time.Since(began)
	var d struct {
		Nodes []struct {
			Node, State, Wanted, Rule string
			Computed                  bool `json:"rule_computed"`
		}
		Counts map[string]int
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	b.t.Logf("kubectl fettle status of %d nodes: %.2f s, %v", len(d.Nodes), took.Seconds(), d.Counts)
	if len(d.Nodes) != b.nodes-len(b.gone) || d.Counts["ok"] != 1 || d.Counts["failed"] != 1 || d.Counts["pending"] != len(d.Nodes)-2 {
		b.t.Errorf("%d nodes: %v", len(d.Nodes), d.Counts)
	}
	for _, n := range d.Nodes {
		var i int
		if _, err := fmt.Sscanf(n.Node, "kwok-%d", &i); err != nil {
			b.t.Fatal(err)
		}
		if n.Wanted != wanted(labelsOf(i, b.round)) || n.Computed || !strings.HasPrefix(n.Rule, "Tuned ") {
			b.t.Errorf("%+v", n)
			break
		}
	}
	table := run(b.t, "kubectl-fettle", "status", "--kubeconfig="+b.Kubeconfig, nodeName(1), nodeName(2))
	for _, want := range []string{"node ", nodeName(1), "2 nodes: 1 failed, 1 ok", "no such file"} {
		if !strings.Contains(table, want) {
			b.t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	b.t.Logf("\n%s", table)
}

// outage: the API server is away for a minute; the operator stays, and goes on.
func (b *operatorBench) outage(p *Program) {
	b.t.Helper()
	b.settled("an operator with the usual lease", time.Now())
	b.Wait("the operator to hold the lease", 2*time.Minute, func(context.Context) error {
		v, err := b.metric(`fettle_operator_management_state{state="Managed"}`)
		if err == nil && v != 1 {
			err = errors.New("it has not read anything yet")
		}
		return err
	})
	pid := p.PID()
	b.must(b.APIServer.Stop())
	time.Sleep(time.Minute)
	b.must(b.APIServer.Start())
	b.round++
	began := time.Now()
	b.setLabels(0, b.nodes)
	b.settled("labels of all nodes after a minute without an API server", began)
	if !p.Running() || p.PID() != pid {
		b.t.Errorf("the operator has ended:\n%s", p.Log(30))
	}
}
