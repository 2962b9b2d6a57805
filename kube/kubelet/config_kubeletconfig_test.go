package kubelet

import (
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/kube/deploy"
)

const objects = `
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata:
  name: set-max-pods
  creationTimestamp: "2026-01-02T03:04:05Z"
spec:
  machineConfigPoolSelector:
    matchLabels:
      custom-kubelet: large-pods
  kubeletConfig:
    maxPods: 500
---
apiVersion: fettle.dev/v1alpha1
kind: KubeletPool
metadata:
  name: workers
  labels: {custom-kubelet: large-pods}
spec:
  nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}
  maxUnavailable: 10%
---
`

func TestRead(t *testing.T) {
	o, err := Read("f.yaml", []byte(objects))
	if err != nil || len(o.Configs) != 1 || len(o.Pools) != 1 {
		t.Fatalf("%+v %v", o, err)
	}
	if m := o.Pools[0].Spec.MaxUnavailable; m == nil || *m != intstr.FromString("10%") {
		t.Errorf("maxUnavailable %v", m)
	}
	w, err := WantOfConfig(o.Configs, o.Pools[0].Labels)
	if err != nil || w.Fields["maxPods"] != int64(500) || !slices.Equal(w.Configs, []string{"set-max-pods"}) {
		t.Errorf("%+v %v", w, err)
	}
	if w, err := WantOfConfig(o.Configs, map[string]string{"custom-kubelet": "other"}); err != nil || w.Digest != "" {
		t.Errorf("of another pool: %+v %v", w, err)
	}
	o.Configs[0].Spec.MachineConfigPoolSelector = &metav1.LabelSelector{}
	if w, err := WantOfConfig(o.Configs, nil); err != nil || w.Digest != "" {
		t.Errorf("an empty selector selects: %+v %v", w, err)
	}
	o.Configs[0].Spec.MachineConfigPoolSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	if _, err := WantOfConfig(o.Configs, nil); err == nil || !strings.Contains(err.Error(), "set-max-pods: spec.machineConfigPoolSelector: ") {
		t.Errorf("a selector that cannot be read: %v", err)
	}
}

// TestReadList reads the output of kubectl get -o yaml: a List of objects with all fields that the
// API server adds.
func TestReadList(t *testing.T) {
	const list = `apiVersion: v1
items:
- apiVersion: machineconfiguration.openshift.io/v1
  kind: KubeletConfig
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {}
    creationTimestamp: "2026-01-02T03:04:05Z"
    generation: 1
    name: k
    resourceVersion: "12"
    uid: 5a6b
  spec:
    kubeletConfig: {maxPods: 500}
    machineConfigPoolSelector: {matchLabels: {a: b}}
  status:
    conditions:
    - {lastTransitionTime: "2026-01-02T03:04:05Z", message: "", reason: AsExpected, status: "True", type: Success}
    observedGeneration: 1
- apiVersion: fettle.dev/v1alpha1
  kind: KubeletPool
  metadata: {name: p}
  spec: {nodeSelector: {matchLabels: {c: d}}}
kind: List
metadata:
  resourceVersion: ""
`
	o, err := Read("f.yaml", []byte(list))
	if err != nil || len(o.Configs) != 1 || o.Configs[0].Name != "k" || len(o.Pools) != 1 || o.Pools[0].Name != "p" {
		t.Errorf("%+v %v", o, err)
	}
}

func TestConfigRefused(t *testing.T) {
	const config = "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: a}\n"
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: List\nitems: []\nitems: []\n":             `f.yaml:4: "items" is given twice`,
		config + "spec: {kubeletConfigs: {}}\n":                          `f.yaml:4: spec: unknown field "kubeletConfigs" (did you mean "kubeletConfig"?)`,
		config + "spec: {kubeletConfig: {maxPods: 1, maxPods: 2}}\n":     `f.yaml:4: spec.kubeletConfig: "maxPods" is given twice`,
		config + "spec: {machineConfigPoolSelector: {matchLabel: {}}}\n": `f.yaml:4: spec.machineConfigPoolSelector: unknown field "matchLabel" (did you mean "matchLabels"?)`,
		strings.Replace(config, "name: a", "", 1):                        "metadata.name is missing",
		strings.Replace(config, "Config\nm", "Confg\nm", 1):              `(did you mean "KubeletConfig"?)`,
		"a: b\n":                               "want KubeletConfig of machineconfiguration.openshift.io/v1 or KubeletPool of fettle.dev/v1alpha1",
		"- a\n":                                "f.yaml:1: want an object",
		"":                                     "f.yaml contains no object",
		"# only words\n---\n---\n# and more\n": "f.yaml contains no object",
		"apiVersion: v1\nkind: List\nitems: []\n":                    "f.yaml contains no object",
		"apiVersion: v1\nkind: List\nitems: {}\n":                    "f.yaml:3: items: want a list",
		"apiVersion: v1\nkind: List\nitem: []\n":                     `f.yaml:3: "item" is not a field of a list; want items`,
		"apiVersion: v1\nkind: List\nitems:\n- {kind: Pod}\n":        `f.yaml:4: apiVersion or kind is missing`,
		"apiVersion: v1\nkind: List\nitems:\n- {kind: List, a: b}\n": `f.yaml:4: items: a list must not contain another list`,
		"a: [\n": "f.yaml:1: did not find",
		"# first\n---\n" + config + "---\n\n" + config + "spec: {a: 1}\n":                                  `f.yaml:11: spec: unknown field "a"`,
		"apiVersion: fettle.dev/v1alpha1\nkind: KubeletPool\nmetadata: {name: p}\nspec: {paused: maybe}\n": `f.yaml:4: spec.paused: want true or false, found "maybe"`,
		config: "f.yaml:1: spec is missing",
		config + "spec: {kubeletConfig: {failSwapOn: no}}\n":                  `f.yaml:4: spec.kubeletConfig: kubectl reads no as true or false: write true or false, or the text "no", with the quotes`,
		config + "spec: {kubeletConfig: {maxPods: 0x10}}\n":                   `f.yaml:4: spec.kubeletConfig: want a decimal number, found 0x10`,
		config + "spec: {logLevel: 3000000000}\n":                             `f.yaml:4: spec.logLevel: want a whole number from -2,147,483,648 to 2,147,483,647, found 3000000000`,
		config + "spec: {kubeletConfig: &a {b: 1}, tlsSecurityProfile: *a}\n": `f.yaml:4: spec.tlsSecurityProfile: aliases (*a) are not supported`,
	} {
		if _, err := Read("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %q", text, err, want)
		}
	}
	for field, want := range map[string]string{
		"autoSizingReserved: true": "spec.autoSizingReserved is not supported", "logLevel: 5": "spec.logLevel", "tlsSecurityProfile: {old: {}}": "spec.tlsSecurityProfile",
		"kubeletConfig: {cgroupDriver: systemd}": "KubeletConfig a: spec.kubeletConfig.cgroupDriver: cannot be set in a KubeletConfig",
	} {
		o, err := Read("f.yaml", []byte(config+"spec: {machineConfigPoolSelector: {matchLabels: {a: b}}, "+field+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := WantOfConfig(o.Configs, map[string]string{"a": "b"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", field, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(objects))
	f.Add([]byte("{\"apiVersion\": \"fettle.dev/v1alpha1\", \"kind\": \"KubeletPool\"}"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		o, err := Read("f", data)
		if err == nil {
			_, _ = WantOfConfig(o.Configs, map[string]string{"a": "b"})
		}
	})
}

// form is the part of OpenAPI v3 that the test reads.
type form struct {
	Type       string           `yaml:"type"`
	Properties map[string]*form `yaml:"properties"`
	Items      *form            `yaml:"items"`
	Preserve   bool             `yaml:"x-kubernetes-preserve-unknown-fields"`
	IntString  bool             `yaml:"x-kubernetes-int-or-string"`
	Map        *form            `yaml:"additionalProperties"`
	Default    any              `yaml:"default"`
}

// at returns the form of a field below it, by a path such as .status.nodes.
func (s *form) at(path string) *form {
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		if s = s.Properties[name]; s == nil {
			return nil
		}
	}
	return s
}

// TestDefinitions compares the definitions with the types, field by field.
func TestDefinitions(t *testing.T) {
	for file, typ := range map[string]reflect.Type{
		"kinds/fettle.dev_kubeletpools.yaml":                                reflect.TypeFor[KubeletPool](),
		"kinds/fettle.dev_nodekubelets.yaml":                                reflect.TypeFor[NodeKubelet](),
		"kinds/plain/machineconfiguration.openshift.io_kubeletconfigs.yaml": reflect.TypeFor[KubeletConfig](),
	} {
		text, err := fs.ReadFile(deploy.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Spec struct {
				Group, Scope string
				Names        struct {
					Kind, Plural string
					ListKind     string `yaml:"listKind"`
				}
				Versions []struct {
					Name    string
					Columns []struct {
						Type string
						Path string `yaml:"jsonPath"`
					} `yaml:"additionalPrinterColumns"`
					Schema struct {
						OpenAPI *form `yaml:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := yaml.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		version := PoolVersion
		if typ.Name() == "KubeletConfig" {
			version = ConfigVersion
		}
		s := d.Spec
		if s.Group != version.Group || len(s.Versions) != 1 || s.Versions[0].Name != version.Version || s.Scope != "Cluster" || s.Names.Kind != typ.Name() || s.Names.ListKind != typ.Name()+"List" || s.Names.Plural != strings.ToLower(typ.Name())+"s" {
			t.Errorf("%s: %+v", file, s)
		}
		agree(t, typ.Name(), typ, s.Versions[0].Schema.OpenAPI)
		for _, c := range s.Versions[0].Columns {
			// Go leaves out a 0, and kubectl get shows nothing for what is not there.
			if f := s.Versions[0].Schema.OpenAPI.at(c.Path); c.Type == "integer" && (f == nil || f.Default != 0) {
				t.Errorf("%s: the column of %s would be empty for 0: want default: 0", file, c.Path)
			}
		}
	}
}

func agree(t *testing.T, path string, typ reflect.Type, s *form) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if s == nil {
		t.Errorf("%s is not in the definition", path)
		return
	}
	want := map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int32: "integer", reflect.Int64: "integer", reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object"}[typ.Kind()]
	switch {
	case typ == reflect.TypeFor[intstr.IntOrString]():
		if !s.IntString {
			t.Errorf("%s: want a number or text", path)
		}
		return
	case typ == reflect.TypeFor[runtime.RawExtension]():
		if !s.Preserve {
			t.Errorf("%s: want any fields", path)
		}
	case typ == reflect.TypeFor[metav1.Time]():
		want = "string"
	case typ.Kind() == reflect.Slice:
		agree(t, path+"[]", typ.Elem(), s.Items)
	case typ.Kind() == reflect.Map:
		agree(t, path+"{}", typ.Elem(), s.Map)
	case strings.HasSuffix(path, ".metadata"):
	case typ.Kind() == reflect.Struct:
		var names []string
		fields(typ, func(name string, f reflect.Type) {
			names = append(names, name)
			agree(t, path+"."+name, f, s.Properties[name])
		})
		for name := range s.Properties {
			if !slices.Contains(names, name) {
				t.Errorf("%s.%s is in the definition, and not in %s", path, name, typ)
			}
		}
	}
	if s.Type != want {
		t.Errorf("%s is %q, want %q", path, s.Type, want)
	}
}

func fields(typ reflect.Type, each func(name string, f reflect.Type)) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case f.Anonymous && name == "":
			fields(f.Type, each)
		case name != "-":
			each(name, f.Type)
		}
	}
}
