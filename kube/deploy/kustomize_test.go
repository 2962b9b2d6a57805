package deploy_test

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/machine"
	"fettle.dev/fettle/kube/tuned"
)

// kustomization is the part of a kustomization.yaml that the tests read.
type kustomization struct {
	Namespace string
	Resources []string
	Images    []struct{ Name string }
}

func kustomizationOf(t *testing.T, dir string) (k kustomization) {
	t.Helper()
	text, err := fs.ReadFile(deploy.FS, path.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return k
}

// files returns the files of a kustomization.
func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	for _, r := range kustomizationOf(t, dir).Resources {
		if name := path.Join(dir, r); path.Ext(name) == ".yaml" {
			out = append(out, name)
		} else {
			out = append(out, files(t, name)...)
		}
	}
	return out
}

// TestKustomization tests that each listed file exists and is listed once, that only intended files
// are not listed, and that images are named in one place.
func TestKustomization(t *testing.T) {
	all := slices.Concat(files(t, "."), files(t, "kubelet"), files(t, "machines"), files(t, "openshift")) // the last ones only where they are needed
	images := kustomizationOf(t, ".").Images
	objects := map[string]bool{}
	for _, file := range all {
		for _, text := range document(t, file) {
			var o struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
				Spec     struct {
					Template struct{ Spec core.PodSpec }
				}
			}
			if err := yaml.Unmarshal([]byte(text), &o); err != nil && o.Kind != "CustomResourceDefinition" {
				t.Fatalf("%s: %v", file, err)
			}
			key := o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
			if objects[key] {
				t.Errorf("%s: %s is given twice", file, key)
			}
			objects[key] = true
			ofLeases := o.Metadata.Namespace == core.NamespaceNodeLease && strings.HasPrefix(o.Kind, "Role")
			ofMachines := path.Dir(file) == "machines" && o.Metadata.Namespace == machine.Namespace
			if n := o.Metadata.Namespace; n != "" && n != tuned.Namespace && !ofLeases && !ofMachines {
				t.Errorf("%s: %s is in another namespace", file, key)
			}
			for _, c := range o.Spec.Template.Spec.Containers {
				name, _, _ := strings.Cut(c.Image, ":")
				if !slices.ContainsFunc(images, func(i struct{ Name string }) bool { return i.Name == name }) {
					t.Errorf("%s: the image %s cannot be named in kustomization.yaml", file, c.Image)
				}
			}
		}
	}
	notListed := []string{
		"default-tuned.yaml",      // the operator makes it
		"Containerfile",           // the image
		"metrics/dashboard.json",  // Grafana's
		"metrics/prometheus.yaml", // Prometheus'
		"metrics/alerts.yaml",
		// Helm's
		"Chart.yaml", "README.md", "values.yaml", "values.schema.json", "templates/NOTES.txt", "templates/_helpers.tpl", "templates/objects.yaml",
		// OpenShift has its own.
		"kinds/plain/machineconfiguration.openshift.io_kubeletconfigs.yaml", "kinds/plain/namespace.yaml",
		"kinds/plain/tuned.openshift.io_tuneds.yaml", "kinds/plain/tuned.openshift.io_profiles.yaml",
	}
	err := fs.WalkDir(deploy.FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Base(p) != "kustomization.yaml" && !slices.Contains(all, p) && !slices.Contains(notListed, p) {
			t.Errorf("%s is not listed", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemovalKeeps tests that kubectl delete -k removes only fettle's own objects, for each
// directory. Deleting a kind that other programs use, or a namespace, would delete their objects
// too.
func TestRemovalKeeps(t *testing.T) {
	for _, dir := range []string{".", "agent", "operator", "metrics", "kubelet", "machines", "openshift"} {
		for _, file := range files(t, dir) {
			for _, text := range document(t, file) {
				var o struct {
					Kind     string
					Metadata struct{ Name string }
				}
				if err := yaml.Unmarshal([]byte(text), &o); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				if o.Kind == "Namespace" || o.Kind == "CustomResourceDefinition" && !strings.HasSuffix(o.Metadata.Name, ".fettle.dev") {
					t.Errorf("%s: kubectl delete -k kube/deploy/%s removes %s %s", file, dir, o.Kind, o.Metadata.Name)
				}
			}
		}
	}
}

// TestSecurityContextConstraints tests that on OpenShift each account of fettle may use one kind of
// constraints, which admits the pods of that account. privileged admits everything. nonroot-v2
// (openshift/api, security/v1) admits pods of any user but root that drop ALL capabilities, gain no
// privileges, have the seccomp profile RuntimeDefault and use nothing of the host.
func TestSecurityContextConstraints(t *testing.T) {
	uses, bound := map[string][]string{}, map[string]string{}
	for _, file := range files(t, "openshift") {
		for _, text := range document(t, file) {
			var o struct {
				rbac.RoleBinding
				Rules []rbac.PolicyRule
			}
			if err := yaml.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			switch o.Kind {
			case "Role":
				for _, r := range o.Rules {
					if !slices.Equal(r.APIGroups, []string{"security.openshift.io"}) || !slices.Equal(r.Resources, []string{"securitycontextconstraints"}) || !slices.Equal(r.Verbs, []string{"use"}) {
						t.Errorf("%s: %v", o.Name, r)
					}
					uses[o.Name] = append(uses[o.Name], r.ResourceNames...)
				}
			case "RoleBinding":
				bound[o.Subjects[0].Name] = o.RoleRef.Name
			default:
				t.Errorf("%s: a %s", file, o.Kind)
			}
		}
	}
	for account, want := range map[string]string{"fettle-agent": "privileged", "fettle-operator": "nonroot-v2"} {
		if got := uses[bound[account]]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s may use %v, want %s", account, got, want)
		}
	}
	var d apps.Deployment
	if err := yaml.UnmarshalStrict([]byte(document(t, "operator/deployment.yaml")[0]), &d); err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template.Spec
	for _, c := range pod.Containers {
		if s := c.SecurityContext; *s.AllowPrivilegeEscalation || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || s.Capabilities.Add != nil {
			t.Errorf("nonroot-v2 does not admit %s: %+v", c.Name, s)
		}
	}
	if *pod.SecurityContext.RunAsUser == 0 || pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || pod.SecurityContext.FSGroup != nil {
		t.Errorf("nonroot-v2 does not admit %+v", pod.SecurityContext)
	}
}

// TestOperator reads the objects of kube/deploy/operator strictly. test/cluster tests that they are
// sufficient, and that an API server accepts them.
func TestOperator(t *testing.T) {
	kinds := map[string]func() any{
		"ServiceAccount": func() any { return &core.ServiceAccount{} }, "ClusterRole": func() any { return &rbac.ClusterRole{} },
		"ClusterRoleBinding": func() any { return &rbac.ClusterRoleBinding{} }, "Role": func() any { return &rbac.Role{} },
		"RoleBinding": func() any { return &rbac.RoleBinding{} }, "Deployment": func() any { return &apps.Deployment{} },
		"PodDisruptionBudget": func() any { return &policy.PodDisruptionBudget{} }, "NetworkPolicy": func() any { return &networking.NetworkPolicy{} },
	}
	seen := map[string]bool{}
	for _, file := range append(files(t, "operator"), files(t, "machines")...) {
		for _, text := range document(t, file) {
			var head struct{ Kind string }
			if err := yaml.Unmarshal([]byte(text), &head); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if kinds[head.Kind] == nil {
				t.Errorf("%s: a %s", file, head.Kind)
				continue
			}
			o := kinds[head.Kind]()
			if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
				t.Errorf("%s: %s: %v", file, head.Kind, err)
			}
			seen[head.Kind] = true
			var rules []rbac.PolicyRule
			switch o := o.(type) {
			case *rbac.Role:
				rules = o.Rules
			case *rbac.ClusterRole:
				rules = o.Rules
				for _, r := range rules {
					// These objects are the cluster's, and are there for the operator to write.
					if slices.Equal(r.APIGroups, []string{"fettle.dev"}) && slices.Equal(r.Resources, []string{"nodekubelets"}) ||
						slices.Equal(r.Verbs, []string{"patch"}) && len(r.Resources) == 1 && strings.HasSuffix(r.Resources[0], "/status") {
						continue
					}
					if slices.ContainsFunc(r.Verbs, func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) }) {
						t.Errorf("%s: the operator writes %v in all namespaces", file, r.Resources)
					}
				}
			case *apps.Deployment:
				spec := o.Spec.Template.Spec
				if spec.HostNetwork || spec.HostPID || spec.HostIPC || !*spec.SecurityContext.RunAsNonRoot || len(spec.Volumes) > 0 || spec.Containers[0].Args[0] != "operator" {
					t.Errorf("%s: the operator has more than it needs: %+v", file, spec)
				}
			}
			for _, r := range rules {
				for _, word := range slices.Concat(r.Verbs, r.Resources, r.APIGroups) {
					if word == "*" || word == "secrets" || word == "escalate" {
						t.Errorf("%s: %v", file, r)
					}
				}
			}
		}
	}
	if len(seen) != len(kinds) {
		t.Errorf("only %v are there", seen)
	}
}
