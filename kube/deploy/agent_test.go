package deploy_test

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/kube/agent"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/kubelet"
	"fettle.dev/fettle/kube/kubelet/node"
	"fettle.dev/fettle/kube/nodestatus"
	"fettle.dev/fettle/kube/tuned"
)

// TestAgent reads each object of kube/deploy/agent strictly, as its own type, and compares the
// objects with the program and with each other. test/cluster tests the policy with an API server.
func TestAgent(t *testing.T) {
	kustomization := document(t, "agent/kustomization.yaml")[0]
	var k struct{ Resources []string }
	if err := yaml.Unmarshal([]byte(kustomization), &k); err != nil {
		t.Fatal(err)
	}
	files, err := fs.Glob(deploy.FS, "agent/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	var rules []rbac.PolicyRule
	policies, bound := map[string]*admission.ValidatingAdmissionPolicy{}, map[string]bool{}
	for _, file := range append(files, "kubelet/rbac.yaml") {
		name, ours := strings.CutPrefix(file, "agent/")
		if name == "kustomization.yaml" {
			continue
		}
		if ours && !slices.Contains(k.Resources, name) {
			t.Errorf("%s is not in kustomization.yaml", name)
		}
		for _, text := range document(t, file) {
			var kind struct{ Kind string }
			if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			object := map[string]any{
				"Namespace": &core.Namespace{}, "ServiceAccount": &core.ServiceAccount{}, "Role": &rbac.Role{}, "RoleBinding": &rbac.RoleBinding{},
				"ClusterRole": &rbac.ClusterRole{}, "ClusterRoleBinding": &rbac.ClusterRoleBinding{},
				"ValidatingAdmissionPolicy": &admission.ValidatingAdmissionPolicy{}, "ValidatingAdmissionPolicyBinding": &admission.ValidatingAdmissionPolicyBinding{},
				"DaemonSet": &apps.DaemonSet{},
			}[kind.Kind]
			if object == nil {
				t.Fatalf("%s: a %s", file, kind.Kind)
			}
			if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
				t.Errorf("%s: %s: %v", file, kind.Kind, err)
			}
			found[kind.Kind] = object
			switch o := object.(type) {
			case *rbac.Role:
				rules = append(rules, o.Rules...)
			case *rbac.ClusterRole:
				rules = append(rules, o.Rules...)
			case *admission.ValidatingAdmissionPolicy:
				policies[o.Name] = o
			case *admission.ValidatingAdmissionPolicyBinding:
				bound[o.Spec.PolicyName] = true
			}
		}
	}
	if len(k.Resources) != len(files)-1 {
		t.Errorf("kustomization.yaml has %v, there are %v", k.Resources, files)
	}

	set := found["DaemonSet"].(*apps.DaemonSet)
	namespace := &core.Namespace{}
	if err := yaml.UnmarshalStrict([]byte(document(t, "kinds/plain/namespace.yaml")[0]), namespace); err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	account := found["ServiceAccount"].(*core.ServiceAccount)
	if pod.ServiceAccountName != account.Name || set.Namespace != tuned.Namespace || account.Namespace != tuned.Namespace || namespace.Name != tuned.Namespace {
		t.Errorf("account %s/%s, set in %s", account.Namespace, account.Name, set.Namespace)
	}
	// By these kubectl fettle status knows the pods of agents.
	for name, value := range nodestatus.AgentSelector {
		if got := set.Spec.Template.Labels[name]; got != value {
			t.Errorf("agents' pods have %s=%s, and are looked for by %s", name, got, value)
		}
	}
	if !pod.HostNetwork || !pod.HostPID || !pod.HostIPC {
		t.Error("the agent is not where the node is")
	}
	c := pod.Containers[0]
	if !slices.Contains(c.Args, "--root="+c.VolumeMounts[0].MountPath) || c.Args[0] != "agent" || pod.Volumes[0].HostPath.Path != "/" {
		t.Errorf("%v: the node's root is at %s", c.Args, c.VolumeMounts[0].MountPath)
	}
	for _, r := range rules {
		for _, verb := range r.Verbs {
			if slices.Contains([]string{"*", "update", "delete", "deletecollection"}, verb) {
				t.Errorf("the roles let agents %s %v", verb, r.Resources)
			}
		}
		// What can be written or reached elsewhere too has to be in a policy.
		for _, resource := range r.Resources {
			if len(slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return slices.Contains([]string{"get", "list", "watch"}, v) })) == 0 {
				// With a token that may get nodes/proxy commands can be run in pods of every
				// node, by kubelets that no policy stands before.
				if resource == "nodes/proxy" || resource == "*" || resource == "secrets" {
					t.Errorf("agents may read %s", resource)
				}
				continue
			}
			limited := slices.ContainsFunc(slices.Collect(maps.Values(policies)), func(p *admission.ValidatingAdmissionPolicy) bool {
				return slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(n admission.NamedRuleWithOperations) bool {
					return slices.Contains(n.Resources, resource)
				})
			})
			if !limited && resource != "pods/eviction" { // no policy sees where a pod is
				t.Errorf("no policy says of which nodes agents may write %s", resource)
			}
		}
	}
	// What a change of a kubelet takes agents have only with kube/deploy/kubelet.
	for _, text := range document(t, "agent/rbac.yaml") {
		for _, word := range []string{"pods", "eviction", "configz", "healthz", "leases"} {
			if strings.Contains(text, "["+word) || strings.Contains(text, "/"+word) {
				t.Errorf("agents that change no kubelet have a right to %s", word)
			}
		}
	}
	// It is told the name of its set, which it may look at; and it is root, which the
	// image is not.
	if !slices.Contains(c.Args, "--daemonset="+set.Name) || !slices.ContainsFunc(rules, func(r rbac.PolicyRule) bool {
		return slices.Equal(r.Resources, []string{"daemonsets"}) && slices.Equal(r.ResourceNames, []string{set.Name}) && slices.Equal(r.Verbs, []string{"get", "list", "watch"})
	}) {
		t.Errorf("%v: the set is %s", c.Args, set.Name)
	}
	if s := c.SecurityContext; s.RunAsUser == nil || *s.RunAsUser != 0 {
		t.Error("the agent is not root")
	}
	for name, words := range map[string][]string{
		"fettle-agent":         {agent.ValuesAnnotation, account.Name + "$"},
		"fettle-agent-kubelet": {cluster.Cordoned, account.Name + "$", kubelet.SettingsAnnotation, "CONNECT"},
		"fettle-removal":       {node.DropIn, tuned.Namespace, set.Name},
	} {
		text, err := yaml.Marshal(policies[name])
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words {
			if !strings.Contains(string(text), word) {
				t.Errorf("the policy %s does not know %s", name, word)
			}
		}
		if !bound[name] {
			t.Errorf("the policy %s is not bound", name)
		}
	}
	if len(policies) != len(bound) {
		t.Errorf("policies %d, bound %v", len(policies), bound)
	}
}

// document reads the documents of a file.
func document(t *testing.T, file string) []string {
	t.Helper()
	text, err := fs.ReadFile(deploy.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n---\n")
}
