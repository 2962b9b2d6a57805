package deploy_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/kube/deploy"
	"fettle.dev/fettle/kube/tuned"
	"fettle.dev/fettle/profiles"
)

const defaultHead = `# The operator's own Tuned object. The profiles are those of profiles/, word for
# word, each value with its source; make golden writes them here.
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata:
  name: default
  namespace: openshift-cluster-node-tuning-operator
spec:
  managementState: Managed
  profile:
`

// The control plane is node-role.kubernetes.io/control-plane since Kubernetes
// 1.20, and master before and in addition until 1.24.
const defaultRules = `  recommend:
  - profile: openshift-control-plane
    priority: 30
    match:
    - label: node-role.kubernetes.io/control-plane
    - label: node-role.kubernetes.io/master
    - label: node-role.kubernetes.io/infra
  - profile: openshift-node
    priority: 40
`

// TestDefaultTuned compares default-tuned.yaml with the profiles.
func TestDefaultTuned(t *testing.T) {
	const file = "default-tuned.yaml"
	names := []string{"openshift", "openshift-control-plane", "openshift-node"}
	texts := map[string]string{}
	var b strings.Builder
	b.WriteString(defaultHead)
	for _, name := range names {
		data, err := fs.ReadFile(profiles.FS, name+"/tuned.conf")
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(data)
		b.WriteString("  - name: " + name + "\n    data: |\n")
		for line := range strings.Lines(string(data)) {
			if line != "\n" {
				b.WriteString("      ")
			}
			b.WriteString(line)
		}
	}
	b.WriteString(defaultRules)
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b.String(), string(got)); d != "" {
		t.Errorf("%s is not what the profiles say; run make golden (-want +got):\n%s", file, d)
	}
	embedded, err := fs.ReadFile(deploy.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := tuned.Read(file, embedded)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects.Tuneds) != 1 || objects.Tuneds[0].Name != tuned.DefaultName {
		t.Fatalf("%d objects", len(objects.Tuneds))
	}
	for i, p := range objects.Tuneds[0].Spec.Profile {
		if i >= len(names) || p.Name != names[i] || p.Data != texts[p.Name] {
			t.Errorf("profile %d is %s, with another text than in profiles/", i, p.Name)
		}
	}
}
