package tuned

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each rule of the original, and each of its traps.
func TestDecide(t *testing.T) {
	pools := []Pool{
		{Name: "master", NodeSelector: selector("m"), MachineConfigSelector: selector("role=master")},
		{Name: "worker", NodeSelector: selector("w"), MachineConfigSelector: selector("role=worker")},
		{Name: "infra", NodeSelector: selector("i"), MachineConfigSelector: selector("role=worker,infra")},
		{Name: "rt", NodeSelector: selector("r"), MachineConfigSelector: selector("role=worker,rt")},
		{Name: "empty", NodeSelector: selector(""), MachineConfigSelector: selector("")},
		{Name: "none"},
	}
	const (
		two   = "spec: {recommend: [{profile: balanced, priority: 20, match: [{label: a}]}, {profile: sap, priority: 10, match: [{label: b}]}, {profile: default, priority: 30}]}\n"
		nests = "spec: {recommend: [{profile: sap, priority: 1, match: [{label: a, match: [{label: b, match: [{label: c}, {label: d}]}, {label: e}]}, {label: f}]}]}\n"
		pod   = "spec: {recommend: [{profile: sap, priority: 1, match: [{label: p, type: pod, match: [{label: a}]}, {label: f}]}, {profile: default, priority: 2}]}\n"
	)
	for _, c := range []struct {
		name, objects string
		pods          bool
		cases         [][2]string
	}{
		{name: "the first by priority, not by place", objects: "--- o\n" + two, cases: [][2]string{
			{"a", "balanced o[0] match match[0]="},
			{"b", "sap o[1] match match[0]="},
			{"a b", "sap o[1] match match[0]="},
			{"", "default o[2] catch-all"},
			{"A B", "default o[2] catch-all"},
		}},
		{name: "no rule holds", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 0, match: [{label: a}]}]}\n", cases: [][2]string{{"b", "no-match"}}},
		{name: "no object", cases: [][2]string{{"a", "no-match"}}},
		{name: "no rule", objects: "--- o\nspec: {}\n", cases: [][2]string{{"a", "no-match"}}},
		{name: "equal priorities: by the object's name", objects: "--- z\nspec: {recommend: [{profile: sap, priority: 5}]}\n--- b\nspec: {recommend: [{profile: balanced, priority: 5, match: [{label: a}]}, {profile: default, priority: 5}]}\n", cases: [][2]string{
			{"a", "balanced b[0] match match[0]= !Tie !Tie"},
			{"", "default b[1] catch-all !Tie"},
		}},
		{name: "equal priorities and the same wish are no tie", objects: "--- a\nspec: {recommend: [{profile: sap, priority: 5}]}\n--- b\nspec: {recommend: [{profile: sap, priority: 5}, {profile: balanced, priority: 6}]}\n", cases: [][2]string{{"", "sap a[0] catch-all"}}},
		{name: "equal priorities and other options are", objects: "--- a\nspec: {recommend: [{profile: sap, priority: 5}]}\n--- b\nspec: {recommend: [{profile: sap, priority: 5, operand: {debug: true}}]}\n", cases: [][2]string{{"", "sap a[0] catch-all !Tie"}}},
		{name: "a rule of that priority that does not hold is no tie", objects: "--- a\nspec: {recommend: [{profile: sap, priority: 5}, {profile: balanced, priority: 5, match: [{label: a}]}]}\n", cases: [][2]string{{"", "sap a[0] catch-all"}}},
		{name: "0 is the first, and large numbers are", objects: "--- a\nspec: {recommend: [{profile: sap, priority: 9223372036854775807}, {profile: balanced, priority: 0, match: [{label: a}]}]}\n", cases: [][2]string{
			{"a", "balanced a[1] match match[0]="}, {"", "sap a[0] catch-all"},
		}},
		{name: "a value", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, match: [{label: a, value: x}, {label: b, value: \"\"}]}]}\n", cases: [][2]string{
			{"a=x", "sap o[0] match match[0]=x"}, {"a=y", "no-match"}, {"a", "no-match"}, {"a=X", "no-match"},
			{"b", "sap o[0] match match[1]="}, {"b=x", "no-match"},
		}},
		{name: "no value: that it is there", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, match: [{label: a}]}]}\n", cases: [][2]string{
			{"a=x", "sap o[0] match match[0]=x"}, {"a", "sap o[0] match match[0]="}, {"aa", "no-match"},
		}},
		{name: "or over items, and by nesting", objects: "--- o\n" + nests, cases: [][2]string{
			{"a b c", "sap o[0] match match[0].match[0].match[0]="},
			{"a b d", "sap o[0] match match[0].match[0].match[1]="},
			{"a b", "no-match"},
			{"a e", "sap o[0] match match[0].match[1]="},
			{"a b e", "sap o[0] match match[0].match[1]="},
			{"b c", "no-match"},
			{"f", "sap o[0] match match[1]="},
			{"a f", "sap o[0] match match[1]="},
			{"a", "no-match"},
		}},
		{name: "pods are not looked at", objects: "--- o\n" + pod, cases: [][2]string{
			{"a|p", "default o[1] catch-all !PodLabelsIgnored"},
			{"f|p", "sap o[0] match match[1]="}, // it holds anyhow
		}},
		{name: "pods are looked at", objects: "--- o\n" + pod, pods: true, cases: [][2]string{
			{"a|p", "sap o[0] match match[0].match[0]= on ns/pod0"},
			{"a|x|p=1|p=2", "sap o[0] match match[0].match[0]= on ns/pod1"},
			{"p a", "default o[1] catch-all"}, // the node's label is not a pod's
			{"a|p=|a", "sap o[0] match match[0].match[0]= on ns/pod0"},
			{"b|p a", "default o[1] catch-all"}, // the inner one asks the node
			{"a", "default o[1] catch-all"},
		}},
		{name: "two labels may be of two pods", pods: true, objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, match: [{label: p, value: x, type: pod, match: [{label: q, type: pod}]}]}]}\n", cases: [][2]string{
			{"|p=x|q", "sap o[0] match match[0].match[0]= on ns/pod0 on ns/pod1"},
			{"|p=y|p=x q", "sap o[0] match match[0].match[0]= on ns/pod1 on ns/pod1"},
			{"|p=y|q", "no-match"},
		}},
		{name: "machineConfigLabels without match", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, machineConfigLabels: {role: worker}}]}\n", cases: [][2]string{
			{"w", "sap o[0] machine-config-labels worker !LabelsAcrossPools"},
			{"m", "no-match"},
			{"", "no-match"},
			{"m w", "no-match"}, // it is master's
			{"w i", "sap o[0] machine-config-labels infra,worker !LabelsAcrossPools"}, // its own, and worker's
			{"i", "sap o[0] machine-config-labels infra !LabelsAcrossPools"},
			{"m i", "no-match"}, // master's goes before
			{"m i w", "sap o[0] machine-config-labels worker !LabelsAcrossPools"},
			{"i r w", "no-match !SeveralPools"},
		}},
		{name: "one pool takes them", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, machineConfigLabels: {role: rt}}]}\n", cases: [][2]string{
			{"w r", "sap o[0] machine-config-labels rt"}, {"w", "no-match"},
		}},
		{name: "match or machineConfigLabels, match first", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, match: [{label: a}], machineConfigLabels: {role: master}}]}\n", cases: [][2]string{
			{"a", "sap o[0] match match[0]="}, {"m", "sap o[0] machine-config-labels master"}, {"a m", "sap o[0] match match[0]="}, {"w", "no-match"},
		}},
		{name: "an empty match is not a missing one", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, match: [], machineConfigLabels: {role: master}}]}\n", cases: [][2]string{
			{"w", "sap o[0] catch-all"}, {"", "sap o[0] catch-all"},
		}},
		{name: "an empty match alone", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, match: []}]}\n", cases: [][2]string{{"", "sap o[0] catch-all"}}},
		{name: "an empty match inside", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, match: [{label: a, match: []}]}]}\n", cases: [][2]string{{"a", "sap o[0] match match[0]="}, {"b", "no-match"}}},
		{name: "machineConfigLabels that are empty are no catch-all", objects: "--- o\nspec: {recommend: [{profile: sap, priority: 1, machineConfigLabels: {}}]}\n", cases: [][2]string{{"w", "no-match"}, {"", "no-match"}}},
		{name: "a node of another system", objects: "--- o\n" + two, cases: [][2]string{
			{"a kubernetes.io/os=windows", "not-linux"}, {"a kubernetes.io/os=linux", "balanced o[0] match match[0]="},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.PodLabels = c.pods
			rules := New(parse(t, c.objects), pools, o)
			for _, nw := range c.cases {
				if got := outline(rules.Decide(node(nw[0]))); got != nw[1] {
					t.Errorf("%q:\n got %s\nwant %s", nw[0], got, nw[1])
				}
			}
		})
	}
}

// TestMissingPriority: the API takes no such rule, but one that is there comes
// last.
func TestMissingPriority(t *testing.T) {
	objects := parse(t, "--- a\nspec: {recommend: [{profile: sap, priority: 1}, {profile: sap, priority: 1, operand: {verbosity: 1}}]}\n--- b\nspec: {recommend: [{profile: default, priority: 7, match: [{label: a}]}]}\n")
	objects[0].Spec.Recommend[0].Priority = nil
	objects[0].Spec.Recommend[1].Priority = nil
	rules := New(objects, nil, options())
	for text, want := range map[string]string{"a": "default b[0] match match[0]=", "": "sap a[0] catch-all !Tie"} {
		d := rules.Decide(node(text))
		if got := outline(d); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
		if text == "" && !strings.Contains(d.Notes[0].Text, "also matches, with no priority either; Tuned a, recommend[0]") {
			t.Errorf("%s", d.Notes[0].Text)
		}
	}
}

// Items that only an unchecked part of an object can have hold nowhere, and do
// not take the rest of the rule with them.
func TestInvalidItems(t *testing.T) {
	objects := parse(t, "--- o\nspec: {recommend: [{profile: sap, priority: 1, match: [{label: a, match: [{label: x}]}, {label: f}]}]}\n")
	inner := &objects[0].Spec.Recommend[0].Match[0].Match[0]
	for _, c := range []struct {
		item TunedMatch
		want string
	}{
		{TunedMatch{}, `recommend[0].match[0].match[0]: has no label; matches no node`},
		{TunedMatch{Label: "x", Type: "Node"}, `recommend[0].match[0].match[0]: type "Node" is neither node nor pod; matches no node`},
	} {
		*inner = c.item
		rules := New(objects, nil, options())
		if got := outline(rules.Decide(node("a x"))); got != "no-match" {
			t.Errorf("%+v: %s", c.item, got)
		}
		if got := outline(rules.Decide(node("f"))); got != "sap o[0] match match[1]=" {
			t.Errorf("%+v: the rest of the rule: %s", c.item, got)
		}
		o := rules.Objects()[0]
		if o.Valid || len(o.Notes) != 1 || o.Notes[0].Text != c.want || o.Notes[0].Reason != InvalidRule {
			t.Errorf("%+v: %+v", c.item, o)
		}
	}
}

func TestWhatTheRuleGives(t *testing.T) {
	objects := parse(t, `--- o
metadata:
  name: o
  annotations: {tuned.openshift.io/deferred: update}
spec:
  profile: [{name: mine, data: "[main]\ninclude=openshift-node\n"}, {name: other, data: ""}]
  recommend:
  - {profile: mine, priority: 3, match: [{label: a, value: x}], operand: {debug: true, verbosity: 4, tunedConfig: {reapply_sysctl: false, startup_udev_settle_wait: 9}}}
`)
	got := New(objects, nil, options()).Decide(node("a=x"))
	priority, no, nine := uint64(3), false, int64(9)
	want := Decision{
		Node: "n", State: Decided, Profile: "mine", Deferred: DeferUpdate, Debug: true, Verbosity: 4, ReapplySysctl: &no, UdevSettleS: &nine,
		Profiles: []string{"mine"},
		Rule:     &Rule{Object: "o", Priority: &priority, By: ByMatch, Items: []Item{{Path: "match[0]", Type: "node", Label: "a", Value: "x"}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if why := got.Why(); why != `Tuned o, recommend[0] (priority 3): match[0]: node has a="x"` {
		t.Error(why)
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"node":"n","state":"decided","profile":"mine","rule":{"object":"o","index":0,"priority":3,"by":"match","items":[{"path":"match[0]","type":"node","label":"a","value":"x"}]},"debug":true,"verbosity":4,"reapply_sysctl":false,"udev_settle_s":9,"deferred":"update","profiles":["mine"]}`; string(b) != want {
		t.Errorf("as JSON:\n%s\nwant\n%s", b, want)
	}
}

func TestWhy(t *testing.T) {
	objects := parse(t, `--- o
spec:
  profile: [{name: bad, data: "[main]\nx\n"}]
  recommend:
  - {profile: bad, priority: 1, match: [{label: b}]}
  - {profile: sap, priority: 2, match: [{label: p, type: pod, match: [{label: a, value: "1"}]}]}
  - {profile: sap, priority: 3, machineConfigLabels: {role: master}}
  - {profile: default, priority: 4, match: [{label: c}]}
`)
	o := options()
	o.PodLabels = true
	rules := New(objects, []Pool{{Name: "master", NodeSelector: selector("m"), MachineConfigSelector: selector("role=master")}}, o)
	for text, want := range map[string]string{
		"b":                          `node unchanged: profile bad, line 2: expected name=value or [section], found "x"; by Tuned o, recommend[0] (priority 1): match[0]: node has b=""`,
		"a=1|p=x":                    `Tuned o, recommend[1] (priority 2): match[0]: pod ns/pod0 has p="x", match[0].match[0]: node has a="1"`,
		"m":                          `Tuned o, recommend[2] (priority 3): machineConfigLabels of pool master`,
		"x":                          `no rule of any Tuned object matches`,
		"kubernetes.io/os=windows b": `the node is not Linux`,
	} {
		if got := rules.Decide(node(text)).Why(); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}

// A node that is held says first why it is held, whatever else there is to say.
func TestWhyHeldComesFirst(t *testing.T) {
	rules := New(parse(t, `--- o
spec:
  profile: [{name: bad, data: "[script]\n[main]\ninclude=gone\n"}]
  recommend:
  - {profile: sap, priority: 1, match: [{label: p, type: pod}]}
  - {profile: bad, priority: 2}
  - {profile: sap, priority: 2}
`), nil, options())
	d := rules.Decide(node(""))
	if got := outline(d); got != "held bad o[1] catch-all !RefusedProfile !PodLabelsIgnored !Tie !MissingProfile" {
		t.Error(got)
	}
	if why := d.Why(); why != "node unchanged: profile bad, line 1: [script] is refused; to allow it, start the operator with --allow=script; by Tuned o, recommend[1] (priority 2): matches every node" {
		t.Error(why)
	}
}
