package deploy_test

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/deploy"
	"fettle.dev/fettle/internal/kube/tuned"
)

// TestKustomization: what is listed is there and can be read, whatever has a namespace
// is in the one of the objects, and whatever is not listed is meant to be. That an API
// server takes it, and that the rights are enough, is seen in test/cluster.
func TestKustomization(t *testing.T) {
	var k struct {
		Resources []string
		Images    []struct{ Name string }
	}
	text, err := fs.ReadFile(deploy.FS, "kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func() any{
		"Namespace": func() any { return &corev1.Namespace{} }, "ServiceAccount": func() any { return &corev1.ServiceAccount{} },
		"ClusterRole": func() any { return &rbacv1.ClusterRole{} }, "ClusterRoleBinding": func() any { return &rbacv1.ClusterRoleBinding{} },
		"Role": func() any { return &rbacv1.Role{} }, "RoleBinding": func() any { return &rbacv1.RoleBinding{} },
		"Deployment": func() any { return &appsv1.Deployment{} },
	}
	seen := map[string]int{}
	for _, file := range k.Resources {
		text, err := fs.ReadFile(deploy.FS, file)
		if err != nil {
			t.Errorf("kustomization.yaml lists %s: %v", file, err)
			continue
		}
		if strings.HasPrefix(file, "crds/") {
			continue // internal/kube/tuned holds them against its types
		}
		for _, doc := range bytes.Split(text, []byte("\n---\n")) {
			var head struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
			}
			if err := yaml.Unmarshal(doc, &head); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			seen[head.Kind]++
			if into := kinds[head.Kind]; into != nil {
				o := into()
				if err := yaml.UnmarshalStrict(doc, o); err != nil {
					t.Errorf("%s: %s %s: %v", file, head.Kind, head.Metadata.Name, err)
				}
				if d, ok := o.(*appsv1.Deployment); ok {
					image := d.Spec.Template.Spec.Containers[0].Image
					if !slices.ContainsFunc(k.Images, func(i struct{ Name string }) bool { return i.Name == image }) {
						t.Errorf("%s: the image %s cannot be named in kustomization.yaml", file, image)
					}
				}
			}
			if n := head.Metadata.Namespace; n != "" && n != tuned.Namespace || head.Kind == "Namespace" && head.Metadata.Name != tuned.Namespace {
				t.Errorf("%s: %s %s is in namespace %q", file, head.Kind, head.Metadata.Name, n)
			}
		}
	}
	for kind := range kinds {
		if seen[kind] == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
	notListed := map[string]string{"kustomization.yaml": "is the list", "default-tuned.yaml": "is made by the operator"}
	err = fs.WalkDir(deploy.FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(p) == ".yaml" && !slices.Contains(k.Resources, p) && notListed[p] == "" {
			t.Errorf("%s is not listed", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
