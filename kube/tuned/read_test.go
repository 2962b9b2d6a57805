package tuned

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"

	"fettle.dev/fettle/kube/strict"
)

const head = "apiVersion: tuned.openshift.io/v1\nkind: Tuned\nmetadata:\n  name: a\n"

// Every field, as YAML: what is read is what encoding/json and the API's own
// decoder make of the same text.
func TestReadEveryField(t *testing.T) {
	for file, text := range map[string]string{
		"tuned.yaml": `# a comment
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata:
  name: a
  namespace: ns
  generation: 7
  creationTimestamp: 2020-07-10T13:53:35Z
  labels: {l: "1"}
  annotations:
    tuned.openshift.io/deferred: always
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: c, uid: u, controller: true}]
  managedFields:
  - {manager: kubectl, operation: Update, apiVersion: tuned.openshift.io/v1, time: "2020-07-10T13:53:35Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {".": {}, "f:profile": {}}}}
spec:
  managementState: Force
  profile:
  - name: p
    data: |
      [main]
      summary=x
  recommend:
  - profile: p
    priority: 10
    machineConfigLabels: {role: worker}
    match:
    - label: l
      value: ""
      type: pod
      match:
      - label: m
        value: 2020-07-10
        match: [{label: o, type: node}]
    operand:
      debug: true
      verbosity: 3
      tunedConfig: {reapply_sysctl: false, startup_udev_settle_wait: 20}
  - {profile: q, priority: 0, match: [], machineConfigLabels: {}}
status:
  conditions:
  - {type: Valid, status: "True", lastTransitionTime: "2020-07-10T13:53:35Z", reason: AsExpected, message: m}
`,
		"profile.yaml": `apiVersion: tuned.openshift.io/v1
kind: Profile
metadata: {name: node, creationTimestamp: null}
spec:
  config: {tunedProfile: p, debug: true, verbosity: 2, providerName: aws, tunedConfig: {reapply_sysctl: true}}
  profile: [{name: p, data: ""}]
status:
  tunedProfile: p
  observedGeneration: 3
  conditions: [{type: Applied, status: "False", lastTransitionTime: null}]
`,
	} {
		got, err := Read(file, []byte(text))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		asJSON, err := kyaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		sameAsTheAPI(t, got, asJSON)
		again, err := Read(file, asJSON)
		if d := cmp.Diff(got, again); err != nil || d != "" {
			t.Errorf("%s: as JSON it is another (%v)\n%s", file, err, d)
		}
	}
}

// sameAsTheAPI holds one object against what the decoder of the API machinery
// makes of it.
func sameAsTheAPI(t *testing.T, got Objects, asJSON []byte) {
	t.Helper()
	compare := func(ours, theirs any) {
		wrong, err := kjson.UnmarshalStrict(asJSON, theirs)
		if err = errors.Join(append(wrong, err)...); err != nil {
			t.Errorf("read, but the API refuses it: %v\n%s", err, asJSON)
			return
		}
		if d := cmp.Diff(theirs, ours); d != "" {
			t.Errorf("(-API +read)\n%s\n%s", d, asJSON)
		}
	}
	for i := range got.Tuneds {
		compare(&got.Tuneds[i], &Tuned{})
	}
	for i := range got.Profiles {
		compare(&got.Profiles[i], &Profile{})
	}
}

func TestReadRefuses(t *testing.T) {
	const rule = head + "spec:\n  recommend:\n  - "
	for _, c := range []struct{ text, want string }{
		{"a: [", `f:1: did not find expected node content`},
		{"- a\n", `f:1: want an object, found a list`},
		{"apiVersion: v1\nkind: ConfigMap\n", `f:1: ConfigMap of v1: want Tuned or Profile of tuned.openshift.io/v1`},
		{"apiVersion: tuned.openshift.io/v1alpha1\nkind: Tuned\n", `f:1: Tuned of tuned.openshift.io/v1alpha1: want Tuned or Profile of tuned.openshift.io/v1`},
		{"apiVersion: tuned.openshift.io/v1\nkind: Tunes\n", `f:1: Tunes of tuned.openshift.io/v1: want Tuned or Profile of tuned.openshift.io/v1 (did you mean "Tuned"?)`},
		{"kind: Tuned\n", `f:1: apiVersion or kind is missing: want tuned.openshift.io/v1 and Tuned or Profile`},
		{"apiVersion: tuned.openshift.io/v1\nkind: Tuned\n", `f:1: metadata.name is missing`},
		{head + "spce: {}\n", `f:5: unknown field "spce" (did you mean "spec"?)`},
		{head + "spec:\n  recommends: []\n", `f:6: spec: unknown field "recommends" (did you mean "recommend"?)`},
		{head + "spec: {}\nspec: {}\n", `f:6: "spec" is given twice (f:5)`},
		{head + "  annotation: {}\n", `f:5: metadata: unknown field "annotation" (did you mean "annotations"?)`},
		{head + "spec: []\n", `f:5: spec: want fields, found a list`},
		{head + "spec: {managementState: managed}\n", `f:5: spec.managementState: want a text that matches ^(Managed|Unmanaged|Force|Removed)$, found "managed"`},
		{head + "spec:\n  profile:\n  - name: p\n", `f:7: spec.profile[0].data is missing`},
		{head + "spec:\n  profile:\n  - {name: \"\", data: x}\n", `f:7: spec.profile[0].name is empty`},
		{head + "spec:\n  profile: {name: p}\n", `f:6: spec.profile: want a list, found fields`},
		{rule + "{priority: 1}\n", `f:7: spec.recommend[0].profile is missing`},
		{rule + "{profile: p}\n", `f:7: spec.recommend[0].priority is missing`},
		{rule + "{profile: p, priority: -1}\n", `f:7: spec.recommend[0].priority: want a whole number from 0 to 9223372036854775807, found -1`},
		{rule + "{profile: p, priority: 9223372036854775808}\n", `f:7: spec.recommend[0].priority: want a whole number from 0 to 9223372036854775807, found 9223372036854775808`},
		{rule + "{profile: p, priority: \"1\"}\n", `f:7: spec.recommend[0].priority: want a whole number, found "1"`},
		{rule + "{profile: p, priority: 1.5}\n", `f:7: spec.recommend[0].priority: want a whole number, found 1.5 (float)`},
		{rule + "{profile: p, priority: 010}\n", `f:7: spec.recommend[0].priority: want a whole number, found 010 (int)`},
		{rule + "{profile: p, priority: null}\n", `f:7: spec.recommend[0].priority is empty, which an API server treats as missing; give a value`},
		{rule + "{profile: p, priority: 1, match: [{value: x}]}\n", `f:7: spec.recommend[0].match[0].label is missing`},
		{rule + "{profile: p, priority: 1, match: [{label: a, match: [{lable: x}]}]}\n", "f:7: spec.recommend[0].match[0].match[0]: unknown field \"lable\" (did you mean \"label\"?)\nf:7: spec.recommend[0].match[0].match[0].label is missing"},
		{rule + "{profile: p, priority: 1, match: [{label: a, type: Pod}]}\n", `f:7: spec.recommend[0].match[0].type: want node or pod, found "Pod"`},
		{rule + "{profile: p, priority: 1, match: [{label: a, value: true}]}\n", `f:7: spec.recommend[0].match[0].value: want text, found true (bool): write "true", with the quotes`},
		{rule + "{profile: p, priority: 1, match: [{label: a, value: yes}]}\n", `f:7: spec.recommend[0].match[0].value: kubectl reads yes as true or false: write "yes", with the quotes`},
		{rule + "{profile: p, priority: 1, match: [{label: a, value: 1}]}\n", `f:7: spec.recommend[0].match[0].value: want text, found 1 (int): write "1", with the quotes`},
		{rule + "{profile: p, priority: 1, machineConfigLabels: [a]}\n", `f:7: spec.recommend[0].machineConfigLabels: want a map of strings, found a list`},
		{rule + "{profile: p, priority: 1, machineConfigLabels: {a: b, a: c}}\n", `f:7: spec.recommend[0].machineConfigLabels: "a" is given twice`},
		{rule + "{profile: p, priority: 1, machineConfigLabels: {a: 1}}\n", `f:7: spec.recommend[0].machineConfigLabels["a"]: want text, found 1 (int): write "1", with the quotes`},
		{rule + "{profile: p, priority: 1, operand: {debug: \"true\"}}\n", `f:7: spec.recommend[0].operand.debug: want true or false, found "true"`},
		{head + "  labels: &l {a: b}\n  annotations: *l\n", `f:6: metadata.annotations: aliases (*l) are not supported; write the value out`},
		{head + "  labels: &l {a: b}\n  annotations: {<<: *l}\n", `f:6: metadata.annotations: the name: want text, found << (merge): write "<<", with the quotes`},
		{head + "  labels: &l {a: b}\n  managedFields: [{fieldsV1: {b: *l}}]\n", `f:6: metadata.managedFields[0].fieldsV1: aliases (*l) are not supported; write the value out`},
		{head + "  creationTimestamp: yesterday\n", `f:5: metadata.creationTimestamp: parsing time`},
		{"apiVersion: tuned.openshift.io/v1\nkind: Profile\nmetadata: {name: node}\nspec: {}\n", `f:4: spec.config is missing`},
		{"apiVersion: v1\nkind: List\nitems: {}\n", `f:3: items: want a list, found fields`},
		{"apiVersion: v1\nkind: List\nitem: []\n", `f:3: "item" is not a field of a list; want items`},
		{"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: []}\n", `f:4: items: a list must not contain another list`},
		{`{"apiVersion": "tuned.openshift.io/v1", "kind": "Tuned",` + "\n" + ` "metadata": {"name": "a"}, "spec": {` + "\n" + `"profile": [{"name": "p", "data": 5}], "x": 1}}`,
			"f:3: spec.profile[0].data: want text, found 5 (int): write \"5\", with the quotes\nf:3: spec: unknown field \"x\": known fields are managementState, profile, recommend"},
	} {
		got, err := Read("f", []byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
		if len(got.Tuneds)+len(got.Profiles) > 0 {
			t.Errorf("%s\nis refused and read", c.text)
		}
	}
}

func TestReadLists(t *testing.T) {
	for name, text := range map[string]string{
		"documents":        head + "---\n---\n# nothing\n---\n" + strings.ReplaceAll(head, "name: a", "name: b") + "---\napiVersion: tuned.openshift.io/v1\nkind: Profile\nmetadata: {name: node}\nspec: {config: {tunedProfile: p}}\n",
		"oc get -o yaml":   "apiVersion: v1\nitems:\n- apiVersion: tuned.openshift.io/v1\n  kind: Tuned\n  metadata: {name: a}\n- {apiVersion: tuned.openshift.io/v1, kind: Tuned, metadata: {name: b}}\n- {apiVersion: tuned.openshift.io/v1, kind: Profile, metadata: {name: node}, spec: {config: {tunedProfile: p}}}\nkind: List\nmetadata: {resourceVersion: \"\"}\n",
		"a list of a kind": "apiVersion: tuned.openshift.io/v1\nkind: TunedList\nmetadata: {}\nitems: [{metadata: {name: a}}, {metadata: {name: b}, spec: {}}]\n---\napiVersion: tuned.openshift.io/v1\nkind: ProfileList\nitems: [{metadata: {name: node}, spec: {config: {tunedProfile: p}}}]\n",
	} {
		got, err := Read(name, []byte(text))
		if err != nil || len(got.Tuneds) != 2 || len(got.Profiles) != 1 || got.Tuneds[0].Name != "a" || got.Tuneds[1].Name != "b" || got.Tuneds[1].Kind != "Tuned" {
			t.Errorf("%s: %v %+v", name, err, got)
		}
	}
}

func TestReadManyMistakes(t *testing.T) {
	_, err := Read("f", []byte(head+"spec: {profile: ["+strings.Repeat("{}, ", 100)+"]}\n"))
	if err == nil || !strings.HasSuffix(err.Error(), "\nf: and 150 more mistakes") || strings.Count(err.Error(), "\n") != strict.MaxProblems {
		t.Errorf("%v", err)
	}
	if _, err := Read("f", make([]byte, maxFile+1)); err == nil || err.Error() != "f: larger than 32 MiB" {
		t.Errorf("%v", err)
	}
}

// The difference between an empty list and none is kept when an object is written
// and read again: the operator's own writes must not change what a rule means.
func TestEmptyIsNotMissing(t *testing.T) {
	objects, err := Read("f", []byte(head+"spec: {recommend: [{profile: p, priority: 1}, {profile: p, priority: 1, match: [], machineConfigLabels: {}}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(objects.Tuneds[0])
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"kind":"Tuned","apiVersion":"tuned.openshift.io/v1","metadata":{"name":"a"},"spec":{"recommend":[{"profile":"p","priority":1},{"profile":"p","priority":1,"match":[],"machineConfigLabels":{}}]}}`; string(b) != want {
		t.Errorf("%s\nwant\n%s", b, want)
	}
	var again Tuned
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*Tuned{&objects.Tuneds[0], &again, again.DeepCopy()} {
		r := o.Spec.Recommend
		if r[0].Match != nil || r[0].MachineConfigLabels != nil || r[1].Match == nil || r[1].MachineConfigLabels == nil {
			t.Errorf("%#v", r)
		}
	}
}

// FuzzRead: whatever is read is what the API's own decoder reads too, and stays
// the same when it is written and read again.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/source002/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("%v %v", files, err)
	}
	for _, file := range append(files, "../deploy/default-tuned.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(head + "spec: {recommend: [{profile: p, priority: 1, match: [{label: a, value: \"\", match: [{label: b, type: pod}]}]}]}\n"))
	f.Add([]byte(`{"apiVersion":"tuned.openshift.io/v1","kind":"Profile","metadata":{"name":"a","creationTimestamp":null},"spec":{"config":{"tunedProfile":"\ud83d\ude00"}}}`))
	f.Add([]byte("\f")) // as good as empty
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Read("f", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("an error without its place: %v", err)
			}
			return
		}
		if len(got.Tuneds)+len(got.Profiles) == 1 {
			asJSON, err := data, error(nil)
			if !json.Valid(data) {
				asJSON, err = kyaml.YAMLToJSONStrict(data)
			}
			switch {
			case err != nil:
				t.Errorf("read, but kubectl cannot: %v", err)
			case !strings.Contains(string(data), "List"):
				sameAsTheAPI(t, got, asJSON)
			}
		}
		for i := range got.Tuneds {
			b, err := json.Marshal(got.Tuneds[i])
			if err != nil {
				t.Fatal(err)
			}
			again, err := Read("f", b)
			if err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			if d := cmp.Diff(got.Tuneds[i], again.Tuneds[0]); d != "" {
				t.Fatalf("written and read again\n%s\n%s", d, b)
			}
		}
	})
}

// TestNulls: what is null is left out, as an API server leaves it out: the operator of
// OpenShift renders reapply_sysctl: null.
func TestNulls(t *testing.T) {
	got, err := Read("f", []byte(head+`  creationTimestamp: null
spec:
  managementState:
  profile:
  - {name: p, data: "[main]\n"}
  recommend:
  - profile: p
    priority: 20
    match: null
    machineConfigLabels: {role: worker, other: null}
    operand: {debug: null, verbosity: , tunedConfig: {reapply_sysctl: null}}
  - {profile: p, priority: 30, operand: {tunedConfig: }}
status:
`))
	if err != nil {
		t.Fatal(err)
	}
	r := got.Tuneds[0].Spec.Recommend
	if r[0].Match != nil || len(r[0].MachineConfigLabels) != 1 || r[0].Operand != (OperandConfig{}) || r[1].Operand != (OperandConfig{}) || got.Tuneds[0].Spec.ManagementState != "" {
		t.Errorf("%+v", got.Tuneds[0].Spec)
	}
	got, err = Read("f", []byte("apiVersion: tuned.openshift.io/v1\nkind: Profile\nmetadata: {name: node}\nspec: {config: {tunedProfile: p, tunedConfig: {reapply_sysctl: null}}, profile: null}\n"))
	if err != nil || got.Profiles[0].Spec.Config.TuneDConfig.ReapplySysctl != nil {
		t.Errorf("%+v %v", got, err)
	}
}
