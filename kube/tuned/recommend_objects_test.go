package tuned

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/testkit/root"
)

func TestObjects(t *testing.T) {
	pools := []Pool{
		{Name: "worker", NodeSelector: selector("w"), MachineConfigSelector: selector("role=worker")},
		{Name: "rt", NodeSelector: selector("r"), MachineConfigSelector: selector("role=worker,rt")},
	}
	for _, c := range []struct{ name, object, want, message string }{
		{"nothing", "spec: {}\n", "+o", ""},
		{"labels of pods", "spec: {recommend: [{profile: sap, priority: 1, match: [{label: a, match: [{label: p, type: pod}]}]}]}\n", "o PodLabelsIgnored",
			"recommend[0].match[0].match[0]: needs the pod label p, which the operator does not watch (--pod-labels); matches no node"},
		{"labels across pools", "spec: {recommend: [{profile: sap, priority: 1}, {profile: sap, priority: 1, machineConfigLabels: {role: worker}}]}\n", "o LabelsAcrossPools",
			"recommend[1].machineConfigLabels: match more than one pool: rt, worker"},
		{"labels of no pool", "spec: {recommend: [{profile: sap, priority: 1, machineConfigLabels: {role: x}}]}\n", "+o NoPool",
			"recommend[0].machineConfigLabels: match no pool"},
		{"labels that are none", "spec: {recommend: [{profile: sap, priority: 1, machineConfigLabels: {role: a b}}]}\n", "o InvalidRule",
			"recommend[0].machineConfigLabels: match no node: "},
		{"an empty match", "spec: {recommend: [{profile: sap, priority: 1, match: [], machineConfigLabels: {role: rt}}]}\n", "+o EmptyMatch",
			"recommend[0].match: is empty and matches every node, regardless of machineConfigLabels"},
		{"deferred", "metadata: {name: o, annotations: {tuned.openshift.io/deferred: Always}}\n", "+o UnknownDeferred",
			`tuned.openshift.io/deferred="Always" is not one of always, update and never; it counts as never`},
		{"a state that does not count", "spec: {managementState: Removed}\n", "+o ManagementStateIgnored", "managementState is only read in Tuned default"},
		{"a section of no plug-in", "spec: {profile: [{name: a, data: \"[vm]\\n[sysctls]\\nx=1\\n\"}]}\n", "o UnknownPlugin",
			`profile a, line 2: unknown plug-in "sysctls" (did you mean "sysctl"?)`},
		{"a type of no plug-in", "spec: {profile: [{name: a, data: \"[sysctl]\\nx=1\\ntype=main\\n\"}]}\n", "o UnknownPlugin",
			`profile a, line 3: unknown plug-in "main"`},
		{"options that there are not", "spec: {profile: [{name: a, data: \"[vm]\\ndirty_ratios=10\\n[x]\\ntype=sysfs\\nkernel=1\\n/sys/kernel/y=1\\n\"}]}\n", "o UnknownOption UnknownOption",
			`profile a, line 2: unknown option "dirty_ratios" of [vm] (did you mean "dirty_ratio"?); profile a, line 5: unknown option "kernel" of [sysfs]`},
		{"nothing unknown", "spec: {profile: [{name: a, data: \"[main]\\nx=1\\n[variables]\\ny=1\\n[more]\\ntype=variables\\nz=1\\n[nothing]\\nenabled=0\\nx=1\\n[vm]\\ndrop=dirty_ratio\\npriority=3\\ndevices=a\\nuname_regex=x\\n[my]\\ntype=sysctl\\nany.key=1\\n\"}]}\n", "+o", ""},
		{"the worst first", "spec: {managementState: Removed, profile: [{name: a, data: x}], recommend: [{profile: q, priority: 1, match: [{label: p, type: pod}]}]}\n",
			"o UnreadableProfile PodLabelsIgnored MissingProfile ManagementStateIgnored", `profile a, line 1: expected a [section] before "x"; recommend[0].match[0]: needs the pod label p, which the operator does not watch`},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := New(parse(t, "--- o\n"+c.object), pools, options())
			o := rules.Objects()[0]
			if got := outlineObject(o); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			condition := o.Condition()
			status, reason := metav1.ConditionTrue, AsExpected
			if !strings.HasPrefix(c.want, "+") {
				status, reason = metav1.ConditionFalse, strings.Fields(c.want)[1]
			}
			if condition.Type != Valid || condition.Status != status || condition.Reason != reason {
				t.Errorf("condition %+v, want %s %s", condition, status, reason)
			}
			if !strings.HasPrefix(condition.Message, c.message) || c.message == "" && condition.Message != "" {
				t.Errorf("message\n%s\nwant\n%s", condition.Message, c.message)
			}
		})
	}
}

// TestStrangersOfIncludes: a section has the type that it comes to where its profile is a
// part of others only.
func TestStrangersOfIncludes(t *testing.T) {
	const base = `{name: base, data: "[nic]\nchannels=combined 1\n"}`
	for _, c := range []struct{ name, profiles, chosen, want string }{
		{"by itself", base, "a", `profile base, line 1: unknown plug-in "nic"`},
		{"the profile around it", base + `, {name: a, data: "[main]\ninclude=base\n[nic]\ntype=net\n"}`, "a", ""},
		{"one around that", base + `, {name: m, data: "[main]\ninclude=base\n"}, {name: a, data: "[main]\ninclude=m\n[nic]\ntype=net\n"}`, "a", ""},
		{"one beside it", base + `, {name: b, data: "[nic]\ntype=net\n"}, {name: a, data: "[main]\ninclude=base,b\n"}`, "a", ""},
		{"one before it", base + `, {name: b, data: "[nic]\ntype=net\n"}, {name: a, data: "[main]\ninclude=b,base\n"}`, "a", `profile base, line 1: unknown plug-in "nic"`},
		{"only one of two", base + `, {name: b, data: "[main]\ninclude=base\n"}, {name: a, data: "[main]\ninclude=base\n[nic]\ntype=net\n"}`, "a", `profile base, line 1: unknown plug-in "nic"`},
		{"chosen by itself", base + `, {name: a, data: "[main]\ninclude=base\n[nic]\ntype=net\n"}`, "base", `profile base, line 1: unknown plug-in "nic"`},
		{"made into another that is none", base + `, {name: a, data: "[main]\ninclude=base\n[nic]\ntype=nets\n"}`, "a", `profile a, line 4: unknown plug-in "nets" (did you mean "net"?)`},
		{"with an option that it has not", `{name: base, data: "[nic]\nchanels=combined 1\n"}, {name: a, data: "[main]\ninclude=base\n[nic]\ntype=net\n"}`, "a", `profile base, line 2: unknown option "chanels" of [net]`},
		{"a circle", base + `, {name: a, data: "[main]\ninclude=b\n"}, {name: b, data: "[main]\ninclude=a,base\n"}`, "c", `unknown plug-in "nic"`},
	} {
		rules := New(parse(t, "--- o\nspec: {profile: ["+c.profiles+"], recommend: [{profile: "+c.chosen+", priority: 1}]}\n"), nil, options())
		var said []string
		for _, n := range rules.Objects()[0].Notes {
			if n.Reason == UnknownPlugin || n.Reason == UnknownOption {
				said = append(said, n.Text)
			}
		}
		if got := strings.Join(said, "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) || len(said) > 1 {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestStrangersAreLeftOut: what no plug-in knows keeps a profile from no node.
func TestStrangersAreLeftOut(t *testing.T) {
	rules := New(parse(t, "--- o\nspec: {profile: [{name: a, data: \"[sysctls]\\nx=1\\n\"}], recommend: [{profile: a, priority: 1}]}\n"), nil, options())
	if d := rules.Decide(node("")); outline(d) != "a o[0] catch-all" || len(rules.Texts(d.Profiles)) != 1 || rules.Objects()[0].Valid {
		t.Errorf("%s, %+v", outline(d), rules.Objects())
	}
}

func TestLongMessagesEnd(t *testing.T) {
	o := Object{Name: "o"}
	for range 40 {
		o.Notes = append(o.Notes, Note{Reason: NoPool, Text: "one"}, Note{Reason: NoPool, Text: strings.Repeat("x", len(o.Notes))})
	}
	o.finish()
	if m := o.Condition().Message; !strings.HasSuffix(m, "; and 31 more") || strings.Count(m, ";") != maxTexts {
		t.Error(m)
	}
}

func TestManaged(t *testing.T) {
	for state, want := range map[string]ManagementState{
		"": Managed, "Managed": Managed, "Force": Managed, "Unmanaged": Unmanaged, "Removed": Removed,
	} {
		text := "--- default\nspec: {}\n"
		if state != "" {
			text = "--- default\nspec: {managementState: " + state + "}\n"
		}
		rules := New(parse(t, text+"--- o\nspec: {managementState: Removed}\n"), nil, options())
		if rules.Managed() != want || outlineObject(rules.Objects()[0]) != "+default" {
			t.Errorf("%q: %s, %v", state, rules.Managed(), rules.Objects()[0])
		}
	}
	objects := parse(t, "--- default\nspec: {}\n")
	objects[0].Spec.ManagementState = "Pause"
	rules := New(objects, nil, options())
	if rules.Managed() != Unmanaged || outlineObject(rules.Objects()[0]) != "default UnknownManagementState" {
		t.Errorf("an unknown state: %s, %v", rules.Managed(), rules.Objects())
	}
	if got := New(nil, nil, Options{}).Managed(); got != Managed {
		t.Errorf("without the object: %s", got)
	}
}

func TestPoolsThatCannotBeRead(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}}
	rules := New(parse(t, "--- o\nspec: {recommend: [{profile: sap, priority: 1, machineConfigLabels: {role: worker}}]}\n"), []Pool{
		{Name: "bad", NodeSelector: bad, MachineConfigSelector: bad},
		{Name: "worker", NodeSelector: selector("w"), MachineConfigSelector: selector("role=worker")},
	}, options())
	if got := outline(rules.Decide(node("w a"))); got != "sap o[0] machine-config-labels worker" {
		t.Error(got)
	}
	notes := rules.Notes()
	if len(notes) != 2 || notes[0].Reason != InvalidPool || !strings.HasPrefix(notes[0].Text, "pool bad: nodeSelector selects nothing: ") {
		t.Errorf("%+v", notes)
	}
}

func TestReasons(t *testing.T) {
	seen := map[Reason]bool{}
	valid := false
	for _, r := range Reasons {
		if seen[r.Reason] || r.Doc == "" {
			t.Errorf("%s is twice in the table, or says nothing", r.Reason)
		}
		seen[r.Reason] = true
		if r.Invalid && valid {
			t.Errorf("%s makes an object invalid and stands behind one that does not", r.Reason)
		}
		valid = valid || !r.Invalid
	}
}

// TestManual holds the generated tables of the manual against Reasons and what is
// refused.
func TestManual(t *testing.T) {
	var reasons, refused strings.Builder
	reasons.WriteString("| reason | makes an object invalid | when |\n|---|---|---|\n")
	for _, r := range Reasons {
		invalid := ""
		if r.Invalid {
			invalid = "yes"
		}
		reasons.WriteString("| `" + string(r.Reason) + "` | " + invalid + " | " + r.Doc + " |\n")
	}
	refused.WriteString("| allowed by | what |\n|---|---|\n")
	for _, k := range Kinds {
		refused.WriteString("| `" + string(k.Kind) + "` | " + k.Doc + " |\n")
	}
	root.Manual(t, "kubernetes-tuned.md", root.Generated{Name: "reasons", Text: reasons.String()}, root.Generated{Name: "refused", Text: refused.String()})
}

// TestEmptyLabels: machineConfigLabels that are empty hold where a pool takes a
// MachineConfig without labels (its selector has NotIn or DoesNotExist); that several pools
// do is no mistake of the object. Source: openshift/cluster-node-tuning-operator at d2394aa,
// pkg/operator/profilecalculator.go, machineConfigLabelsMatch.
func TestEmptyLabels(t *testing.T) {
	without := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "role", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"master"}}}}
	rules := New(parse(t, "--- o\nspec: {recommend: [{profile: sap, priority: 1, machineConfigLabels: {}}]}\n"), []Pool{
		{Name: "rt", NodeSelector: selector("r"), MachineConfigSelector: without}, {Name: "worker", NodeSelector: selector("w"), MachineConfigSelector: without},
		{Name: "master", NodeSelector: selector("m"), MachineConfigSelector: selector("role=master")},
	}, options())
	if got := outlineObject(rules.Objects()[0]); got != "+o" {
		t.Errorf("the object: %s", got)
	}
	for labels, want := range map[string]string{"w": "sap o[0] machine-config-labels worker", "w r": "sap o[0] machine-config-labels rt,worker", "m": "no-match", "": "no-match"} {
		if got := outline(rules.Decide(node(labels))); got != want {
			t.Errorf("%q: %s, want %s", labels, got, want)
		}
	}
}
