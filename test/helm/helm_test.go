// Package helm_test compares the Helm chart in kube/deploy with what kustomize makes of the same
// directory, with both as libraries. The program helm is a tool of the module for test/cluster.
package helm_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const directory, namespace = "../../kube/deploy", "openshift-cluster-node-tuning-operator"

// combinations are values of the chart, and the kustomization of the same meaning. The directory
// of the kustomization lies next to that of the chart, which is named deploy.
var combinations = []struct{ name, values, kustomization string }{
	{"defaults", "", `
resources:
- ../deploy
- ../deploy/kinds/plain/tuned.openshift.io_tuneds.yaml
- ../deploy/kinds/plain/tuned.openshift.io_profiles.yaml
- ../deploy/kinds/plain/machineconfiguration.openshift.io_kubeletconfigs.yaml
`},
	{"OpenShift", `openshift: true`, `resources: [../deploy, ../deploy/openshift]`},
	{"kubelets", `{openshift: true, kubelet: true}`, `resources: [../deploy, ../deploy/openshift, ../deploy/kubelet]`},
	{"machines", `{openshift: true, machines: true}`, `resources: [../deploy, ../deploy/openshift, ../deploy/machines]`},
	{"digest", `{openshift: true, image: {digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}}`, `
resources: [../deploy, ../deploy/openshift]
images:
- name: fettle.dev/kubectl-fettle
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
`},
	{"all other values", `
openshift: true
kubelet: true
machines: true
networkPolicy: false
image: {repository: "registry.example.com:5000/kubectl-fettle", tag: "1", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
operator:
  replicas: 2
  args: [--lease=30s]
  resources: {requests: {cpu: 20m}, limits: {memory: 1Gi}}
  nodeSelector: {zone: a}
  tolerations: []
  affinity: &apart
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app.kubernetes.io/name: fettle-operator}}}
agent:
  args: [--interval=5m]
  resources: {limits: {memory: 300Mi}}
  maxUnavailable: 2
  nodeSelector: {tuned: "yes"}
  tolerations: [{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 5}]
  affinity: *apart
`, `
resources: [../deploy, ../deploy/openshift, ../deploy/kubelet, ../deploy/machines]
images: [{name: fettle.dev/kubectl-fettle, newName: "registry.example.com:5000/kubectl-fettle", newTag: "1"}]
replicas: [{name: fettle-operator, count: 2}]
patches:
- target: {kind: NetworkPolicy}
  patch: '{$patch: delete, apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: fettle-operator}}'
- target: {name: fettle-operator, kind: Deployment}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --lease=30s}
    - {op: replace, path: /spec/template/spec/containers/0/resources, value: {requests: {cpu: 20m, memory: 60Mi}, limits: {memory: 1Gi}}}
    - {op: replace, path: /spec/template/spec/containers/0/imagePullPolicy, value: Always}
    - {op: add, path: /spec/template/spec/nodeSelector, value: {zone: a}}
    - {op: replace, path: /spec/template/spec/tolerations, value: []}
    - {op: add, path: /spec/template/spec/imagePullSecrets, value: [{name: registry}]}
    - op: add
      path: /spec/template/spec/affinity
      value:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app.kubernetes.io/name: fettle-operator}}}
- target: {name: fettle-agent, kind: DaemonSet}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --interval=5m}
    - {op: replace, path: /spec/template/spec/containers/0/resources/limits/memory, value: 300Mi}
    - {op: replace, path: /spec/template/spec/containers/0/imagePullPolicy, value: Always}
    - {op: replace, path: /spec/updateStrategy/rollingUpdate/maxUnavailable, value: 2}
    - {op: add, path: /spec/template/spec/nodeSelector/tuned, value: "yes"}
    - {op: replace, path: /spec/template/spec/tolerations, value: [{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 5}]}
    - {op: add, path: /spec/template/spec/imagePullSecrets, value: [{name: registry}]}
    - op: add
      path: /spec/template/spec/affinity
      value:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app.kubernetes.io/name: fettle-operator}}}
`},
}

// TestEqual tests that the chart makes the objects that kustomize makes, with labels of Helm's
// conventions added.
func TestEqual(t *testing.T) {
	for _, c := range combinations {
		t.Run(c.name, func(t *testing.T) {
			got := rendered(t, loaded(t, directory), c.values)
			for key, object := range got {
				withoutHelm(t, key, object, "release")
			}
			want := kustomized(t, c.kustomization)
			if len(want) < 20 {
				t.Errorf("kustomize makes only %d objects", len(want))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-kustomize +chart:\n%s", diff)
			}
			// What helm lint --strict finds.
			for _, m := range lint.RunAll(directory, valuesOf(t, c.values), namespace).Messages {
				if m.Severity >= support.WarningSev {
					t.Errorf("helm lint: %v", m)
				}
			}
		})
	}
}

func loaded(t *testing.T, path string) *chart.Chart {
	t.Helper()
	c, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func valuesOf(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := loader.LoadValues(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// render renders a chart as helm template does, and returns the texts of its templates.
func render(t *testing.T, c *chart.Chart, values string) (map[string]string, error) {
	t.Helper()
	all, err := util.ToRenderValues(c, valuesOf(t, values), common.ReleaseOptions{Name: "release", Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// rendered returns the objects of a chart.
func rendered(t *testing.T, c *chart.Chart, values string) map[string]map[string]any {
	t.Helper()
	texts, err := render(t, c, values)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for name, text := range texts {
		if filepath.Ext(name) == ".yaml" {
			all.WriteString("\n---\n" + text)
		}
	}
	return objects(t, all.String())
}

// kustomized returns the objects of a kustomization next to the chart's directory.
func kustomized(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	tree := filesys.MakeFsInMemory()
	err := fs.WalkDir(os.DirFS(directory), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			return err
		}
		return tree.WriteFile(filepath.Join("/deploy", name), text)
	})
	if err == nil {
		err = tree.WriteFile("/overlay/kustomization.yaml", []byte(text))
	}
	if err != nil {
		t.Fatal(err)
	}
	o := krusty.MakeDefaultOptions()
	o.LoadRestrictions = types.LoadRestrictionsNone // files of kinds/plain, which has no kustomization
	all, err := krusty.MakeKustomizer(o).Run(tree, "/overlay")
	if err != nil {
		t.Fatal(err)
	}
	out, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, string(out))
}

// objects returns the objects of a text by kind, namespace and name.
func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for part := range strings.SplitSeq("\n"+text, "\n---\n") {
		object := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(part), &object); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		if len(object) == 0 {
			continue
		}
		meta := object["metadata"].(map[string]any)
		key := fmt.Sprint(object["apiVersion"], " ", object["kind"], " ", meta["namespace"], "/", meta["name"])
		if all[key] != nil {
			t.Errorf("%s twice", key)
		}
		all[key] = object
	}
	return all
}

// withoutHelm tests that an object has the labels of Helm's conventions, and removes them; likewise
// the annotation that keeps kinds.
func withoutHelm(t *testing.T, key string, object map[string]any, release string) {
	t.Helper()
	meta := object["metadata"].(map[string]any)
	labels := meta["labels"].(map[string]any)
	for name, want := range map[string]string{
		"helm.sh/chart": "fettle-0.0.0-devel", "app.kubernetes.io/managed-by": "Helm",
		"app.kubernetes.io/instance": release, "app.kubernetes.io/version": "devel",
	} {
		if labels[name] != want {
			t.Errorf("%s: label %s is %v, want %s", key, name, labels[name], want)
		}
		delete(labels, name)
	}
	switch labels["app.kubernetes.io/name"] {
	case "fettle":
		delete(labels, "app.kubernetes.io/name")
	case "fettle-operator", "fettle-agent": // its own
	default:
		t.Errorf("%s: labels %v", key, labels)
	}
	if len(labels) == 0 {
		delete(meta, "labels")
	}
	if object["kind"] != "CustomResourceDefinition" {
		return
	}
	if diff := cmp.Diff(map[string]any{"helm.sh/resource-policy": "keep"}, meta["annotations"]); diff != "" {
		t.Errorf("%s: annotations %s", key, diff)
	}
	delete(meta, "annotations")
}

// TestSchema tests that values with a mistake are refused, and that the message names them.
func TestSchema(t *testing.T) {
	c := loaded(t, directory)
	for values, says := range map[string]string{
		"opnshift: true":                                  "opnshift",
		"openshift: 'yes'":                                "openshift",
		"kubelet: {enabled: true}":                        "kubelet",
		"imgae: {tag: '1'}":                               "imgae",
		"image: {version: '1'}":                           "version",
		"image: {tag: 1}":                                 "tag",
		"image: {repository: registry.example.com/a:1}":   "repository",
		"image: {digest: '0123'}":                         "digest",
		"image: {pullPolicy: always}":                     "pullPolicy",
		"imagePullSecrets: [registry]":                    "imagePullSecrets",
		"operator: {replica: 2}":                          "replica",
		"operator: {replicas: -1}":                        "replicas",
		"operator: {args: [lease]}":                       "args",
		"operator: {resources: {limits: {memory: lots}}}": "memory",
		"operator: {resources: {limits: {memroy: 1Gi}}}":  "memroy",
		"operator: {nodeSelector: {zone: 1}}":             "zone",
		"operator: {tolerations: [{efect: NoSchedule}]}":  "efect",
		"agent: {replicas: 2}":                            "replicas",
		"agent: {maxUnavailable: 0}":                      "maxUnavailable",
		"agent: {maxUnavailable: 101%}":                   "maxUnavailable",
		"agent: {affinity: {nodes: a}}":                   "nodes",
		"operator: {replicas: null}":                      "replicas", // would render 0
		"agent: null":                                     "agent",
		"networkPolicy: null":                             "networkPolicy",
	} {
		if _, err := render(t, c, values); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// TestLinuxNodes tests that no value starts agents on nodes of another operating system.
func TestLinuxNodes(t *testing.T) {
	got := rendered(t, loaded(t, directory), "agent: {nodeSelector: {kubernetes.io/os: windows, zone: a}}")
	for key, object := range got {
		if object["kind"] != "DaemonSet" {
			continue
		}
		pod := object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		if diff := cmp.Diff(map[string]any{"kubernetes.io/os": "linux", "zone": "a"}, pod["nodeSelector"]); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
		return
	}
	t.Error("the chart has no DaemonSet")
}

// TestPackage tests that a packaged chart, and the chart as a part of another one, which may have
// global values, make the same objects.
func TestPackage(t *testing.T) {
	dir := t.TempDir()
	const values = "{kubelet: true, machines: true}"
	c := loaded(t, directory)
	want := rendered(t, c, values)

	c.Metadata.Version, c.Metadata.AppVersion = "1.2.3", "1.2.3" // helm package --version --app-version
	file, err := chartutil.Save(c, dir)
	if err != nil {
		t.Fatal(err)
	}
	names := packaged(t, file)
	for _, name := range []string{"fettle/README.md", "fettle/values.schema.json", "fettle/metrics/alerts.yaml", "fettle/kustomization.yaml"} {
		if !slices.Contains(names, name) {
			t.Errorf("the package lacks %s: %v", name, names)
		}
	}
	for _, name := range names {
		if filepath.Ext(name) == ".go" {
			t.Errorf("the package has %s", name)
		}
	}
	got := rendered(t, loaded(t, file), values)
	for key, object := range got {
		labels := object["metadata"].(map[string]any)["labels"].(map[string]any)
		if labels["helm.sh/chart"] != "fettle-1.2.3" || labels["app.kubernetes.io/version"] != "1.2.3" {
			t.Errorf("%s: labels %v", key, labels)
		}
		labels["helm.sh/chart"], labels["app.kubernetes.io/version"] = "fettle-0.0.0-devel", "devel"
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		got[key] = nil
		if err := yaml.Unmarshal(bytes.ReplaceAll(text, []byte("kubectl-fettle:1.2.3"), []byte("kubectl-fettle:devel")), &object); err != nil {
			t.Fatal(err)
		}
		got[key] = object
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-directory +package:\n%s", diff)
	}

	part := filepath.Join(dir, "whole/charts/fettle")
	if err := os.MkdirAll(part, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(part, os.DirFS(directory)); err != nil {
		t.Fatal(err)
	}
	const whole = "{apiVersion: v2, name: whole, version: 1.0.0, dependencies: [{name: fettle, version: 0.0.0-devel}]}"
	if err := os.WriteFile(filepath.Join(dir, "whole/Chart.yaml"), []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	got = rendered(t, loaded(t, filepath.Join(dir, "whole")), "{global: {zone: a}, fettle: "+values+"}")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-alone +part:\n%s", diff)
	}
}

// packaged returns the names of the files in a packaged chart.
func packaged(t *testing.T, file string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}
