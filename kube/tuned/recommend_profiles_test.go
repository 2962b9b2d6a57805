package tuned

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What becomes of objects and nodes where something is wrong with a profile. The
// nodes are those with the labels a, b, c and none.
func TestMistakesConcernTheirNodes(t *testing.T) {
	const rules = "  recommend: [{profile: a, priority: 1, match: [{label: a}]}, {profile: b, priority: 2, match: [{label: b}]}, {profile: c, priority: 3, match: [{label: c}]}, {profile: default, priority: 9}]\n"
	for _, c := range []struct {
		name, objects string
		want          []string // decisions for a, b, c and none, then the objects
	}{
		{"nothing wrong", "--- o\nspec:\n  profile: [{name: a, data: \"\"}, {name: b, data: \"[main]\\ninclude=a\\n\"}, {name: c, data: \"[main]\\ninclude=balanced\\n\"}]\n" + rules,
			[]string{"a o[0] match match[0]=", "b o[1] match match[0]=", "c o[2] match match[0]=", "default o[3] catch-all", "+o"}},
		{"one name, two texts", "--- o\nspec:\n  profile: [{name: a, data: \"\"}, {name: b, data: \"[main]\\ninclude=a\\n\"}, {name: c, data: \"\"}]\n" + rules + "--- p\nspec:\n  profile: [{name: a, data: \"[vm]\\n\"}]\n",
			[]string{"held a o[0] match match[0]= !DuplicateProfile", "held b o[1] match match[0]= !DuplicateProfile", "c o[2] match match[0]=", "default o[3] catch-all", "o DuplicateProfile", "p DuplicateProfile"}},
		{"one name, one text", "--- o\nspec:\n  profile: [{name: a, data: \"\"}, {name: b, data: \"\"}, {name: c, data: \"\"}]\n" + rules + "--- p\nspec:\n  profile: [{name: a, data: \"\"}]\n",
			[]string{"a o[0] match match[0]=", "b o[1] match match[0]=", "c o[2] match match[0]=", "default o[3] catch-all", "+o SameProfile", "+p SameProfile"}},
		{"one name, two texts in one object", "--- o\nspec:\n  profile: [{name: a, data: \"\"}, {name: a, data: \"[vm]\\n\"}, {name: b, data: \"\"}, {name: c, data: \"\"}]\n" + rules,
			[]string{"held a o[0] match match[0]= !DuplicateProfile", "b o[1] match match[0]=", "c o[2] match match[0]=", "default o[3] catch-all", "o DuplicateProfile DuplicateProfile"}},
		{"the object default holds", "--- default\nspec:\n  profile: [{name: a, data: \"\"}, {name: b, data: \"\"}, {name: c, data: \"\"}]\n" + rules + "--- another\nspec:\n  profile: [{name: a, data: \"[vm]\\n\"}]\n--- same\nspec:\n  profile: [{name: a, data: \"\"}]\n",
			[]string{"a default[0] match match[0]=", "b default[1] match match[0]=", "c default[2] match match[0]=", "default default[3] catch-all", "another DuplicateProfile", "+default", "+same SameProfile"}},
		{"the object default has it twice", "--- default\nspec:\n  profile: [{name: a, data: \"\"}, {name: a, data: \"\"}, {name: b, data: \"\"}, {name: c, data: \"\"}]\n" + rules + "--- another\nspec:\n  profile: [{name: a, data: \"[vm]\\n\"}]\n",
			[]string{"a default[0] match match[0]=", "b default[1] match match[0]=", "c default[2] match match[0]=", "default default[3] catch-all", "another DuplicateProfile", "+default SameProfile SameProfile"}},
		{"the object default has it twice, with two texts", "--- default\nspec:\n  profile: [{name: a, data: \"\"}, {name: a, data: \"[vm]\\n\"}, {name: b, data: \"\"}, {name: c, data: \"\"}]\n" + rules,
			[]string{"held a default[0] match match[0]= !DuplicateProfile", "b default[1] match match[0]=", "c default[2] match match[0]=", "default default[3] catch-all", "default DuplicateProfile DuplicateProfile"}},
		{"refused", "--- o\nspec:\n  profile: [{name: a, data: \"[script]\\nscript=x\\n\"}, {name: b, data: \"[sysctl]\\nx=${f:exec:y}\\n\"}, {name: c, data: \"\"}]\n" + rules,
			[]string{"held a o[0] match match[0]= !RefusedProfile", "held b o[1] match match[0]= !RefusedProfile", "c o[2] match match[0]=", "default o[3] catch-all", "o RefusedProfile RefusedProfile"}},
		{"a file that is none of profiles", "--- o\nspec:\n  profile: [{name: a, data: \"[variables]\\ninclude=/etc/shadow\\n\"}, {name: b, data: \"[variables]\\ninclude=/etc/tuned/v\\n\"}, {name: c, data: \"\"}]\n" + rules,
			[]string{"held a o[0] match match[0]= !RefusedProfile", "b o[1] match match[0]=", "c o[2] match match[0]=", "default o[3] catch-all", "o RefusedProfile"}},
		{"unreadable", "--- o\nspec:\n  profile: [{name: a, data: \"x\"}, {name: b, data: \"[main]\\ninclude=-a\\n\"}, {name: c, data: \"\"}]\n" + rules,
			[]string{"held a o[0] match match[0]= !UnreadableProfile", "held b o[1] match match[0]= !UnreadableProfile", "c o[2] match match[0]=", "default o[3] catch-all", "o UnreadableProfile"}},
		{"another text that is unreadable", "--- default\nspec:\n  profile: [{name: a, data: \"\"}, {name: b, data: \"\"}, {name: c, data: \"\"}]\n" + rules + "--- o\nspec:\n  profile: [{name: a, data: \"x\"}]\n",
			[]string{"a default[0] match match[0]=", "b default[1] match match[0]=", "c default[2] match match[0]=", "default default[3] catch-all", "+default", "o UnreadableProfile DuplicateProfile"}},
		{"a circle over two objects", "--- o\nspec:\n  profile: [{name: b, data: \"[main]\\ninclude=a\\n\"}, {name: c, data: \"[main]\\ninclude=a\\n\"}]\n" + rules + "--- p\nspec:\n  profile: [{name: a, data: \"[main]\\ninclude=b\\n\"}]\n",
			[]string{"a o[0] match match[0]=", "b o[1] match match[0]=", "c o[2] match match[0]=", "default o[3] catch-all", "o IncludeCircle", "p IncludeCircle"}},
		{"no circle: the one below of its name, which the node has to have, and one that is chosen on the node", "--- o\nspec:\n  profile: [{name: a, data: \"[main]\\ninclude=b\\n\"}, {name: b, data: \"[main]\\ninclude=${f:virt_check:a:c}\\n\"}, {name: c, data: \"[main]\\ninclude=c\\n\"}]\n" + rules,
			[]string{"a o[0] match match[0]= !MissingProfile", "b o[1] match match[0]= !MissingProfile", "c o[2] match match[0]= !MissingProfile", "default o[3] catch-all", "+o MissingProfile MissingProfile MissingProfile"}},
		{"a name that is none", "--- o\nspec:\n  profile: [{name: ../a, data: \"\"}, {name: b, data: \"\"}]\n  recommend: [{profile: ../a, priority: 1, match: [{label: a}]}, {profile: b, priority: 2}]\n",
			[]string{"held ../a o[0] match match[0]= !InvalidRule", "b o[1] catch-all", "b o[1] catch-all", "b o[1] catch-all", "o InvalidProfile InvalidRule"}},
		{"nobody has it", "--- o\nspec:\n  profile: [{name: a, data: \"[main]\\ninclude=oracle,-gone\\n\"}]\n" + rules,
			[]string{"a o[0] match match[0]= !MissingProfile", "b o[1] match match[0]= !MissingProfile", "c o[2] match match[0]= !MissingProfile", "default o[3] catch-all", "+o MissingProfile MissingProfile MissingProfile"}},
		{"built in", "--- o\nspec:\n  profile: [{name: a, data: \"[main]\\ninclude=openshift-node,cpu-partitioning,realtime\\n\"}, {name: b, data: \"\"}, {name: c, data: \"\"}]\n" + rules,
			[]string{"a o[0] match match[0]=", "b o[1] match match[0]=", "c o[2] match match[0]=", "default o[3] catch-all", "+o"}},
		{"of those that functions choose some are nowhere", "--- o\nspec:\n  profile: [{name: a, data: \"[main]\\ninclude=p-${f:lscpu_check:I:intel:A:amd:arm}-${f:lscpu_check:x:x86:aarch64},q\\n\"}, {name: b, data: \"\"}, {name: c, data: \"\"}, {name: p-intel-x86, data: \"\"}, {name: p-amd-x86, data: \"\"}]\n" + rules,
			[]string{"a o[0] match match[0]= !MissingProfile !MissingProfile", "b o[1] match match[0]=", "c o[2] match match[0]=", "default o[3] catch-all", "+o MissingProfile MissingProfile"}},
		{"one of those that a function chooses is refused", "--- o\nspec:\n  profile: [{name: a, data: \"[main]\\ninclude=${f:virt_check:b:c}\\n\"}, {name: b, data: \"[script]\\n\"}, {name: c, data: \"\"}]\n" + rules,
			[]string{"held a o[0] match match[0]= !RefusedProfile", "held b o[1] match match[0]= !RefusedProfile", "c o[2] match match[0]=", "default o[3] catch-all", "o RefusedProfile"}},
		{"a built-in profile includes one that is refused", "--- o\nspec:\n  profile: [{name: network-throughput, data: \"[script]\\n\"}, {name: a, data: \"\"}, {name: b, data: \"\"}]\n  recommend: [{profile: openshift-node, priority: 1, match: [{label: a}]}, {profile: b, priority: 2}]\n",
			[]string{"held openshift-node o[0] match match[0]= !RefusedProfile", "b o[1] catch-all", "b o[1] catch-all", "b o[1] catch-all", "o RefusedProfile"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := New(parse(t, c.objects), nil, options())
			var got []string
			for _, labels := range []string{"a", "b", "c", ""} {
				got = append(got, outline(rules.Decide(node(labels))))
			}
			for _, o := range rules.Objects() {
				got = append(got, outlineObject(o))
			}
			for i := range max(len(got), len(c.want)) {
				if i >= len(got) || i >= len(c.want) || got[i] != c.want[i] {
					t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
				}
			}
		})
	}
}

// What is said of profiles of one name names the other one.
func TestDuplicatesNameOneAnother(t *testing.T) {
	rules := New(parse(t, `--- c
spec: {profile: [{name: p, data: x}, {name: q, data: ""}, {name: r, data: ""}, {name: r, data: ""}]}
--- a
spec: {profile: [{name: p, data: z}, {name: q, data: ""}]}
--- b
spec: {profile: [{name: q, data: ""}, {name: p, data: x}]}
`), nil, options())
	var got []string
	for _, o := range rules.Objects() {
		for _, n := range o.Notes {
			if n.Reason == DuplicateProfile || n.Reason == SameProfile {
				text, _, _ := strings.Cut(n.Text, ",")
				got = append(got, o.Name+" "+n.Path+": "+text)
			}
		}
	}
	want := []string{
		"a spec.profile[0]: profile p is also in Tuned b", "a spec.profile[1]: profile q is also in Tuned b",
		"b spec.profile[1]: profile p is also in Tuned a", "b spec.profile[0]: profile q is also in Tuned a",
		"c spec.profile[0]: profile p is also in Tuned a", "c spec.profile[1]: profile q is also in Tuned a",
		"c spec.profile[2]: profile r is also in this object (spec.profile[3])", "c spec.profile[3]: profile r is also in this object (spec.profile[2])",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAllowedProfilesAreGiven(t *testing.T) {
	objects := parse(t, "--- o\nspec:\n  profile: [{name: a, data: \"[script]\\nscript=x\\n\"}]\n  recommend: [{profile: a, priority: 1}]\n")
	o := options()
	o.Allow = Allow{Script: true}
	rules := New(objects, nil, o)
	if got := outline(rules.Decide(node(""))); got != "a o[0] catch-all" || !rules.Objects()[0].Valid {
		t.Errorf("%s, %+v", got, rules.Objects())
	}
}

// A node gets the texts that its profile needs, and no others.
func TestTexts(t *testing.T) {
	rules := New(parse(t, `--- o
spec:
  profile:
  - {name: a, data: "[main]\ninclude=b, openshift-node;${f:virt_check:c:-d}\n"}
  - {name: b, data: "[main]\ninclude=b\n"}
  - {name: c, data: ""}
  - {name: d, data: ""}
  - {name: openshift, data: "[main]\ninclude=openshift\n"}
  - {name: e, data: "[main]\ninclude=a\n"}
  - {name: f, data: "x"}
  - {name: open, data: "[main]\ninclude=x${f:cpulist_pack:1}\n"}
  recommend:
  - {profile: a, priority: 1, match: [{label: a}]}
  - {profile: open, priority: 1, match: [{label: open}]}
  - {profile: sap, priority: 1}
`), nil, options())
	for label, want := range map[string]string{
		"a":    "[a b c d openshift]", // openshift by way of openshift-node, which is built in
		"open": "[a b c d e open openshift]",
		"":     "[]",
	} {
		d := rules.Decide(node(label))
		if got := fmt.Sprint(d.Profiles); got != want {
			t.Errorf("%q: %s, want %s", label, got, want)
		}
		texts := rules.Texts(d.Profiles)
		var names []string
		for _, text := range texts {
			names = append(names, text.Name)
		}
		if !slices.Equal(names, d.Profiles) {
			t.Errorf("%q: the texts of %v", label, names)
		}
	}
	if texts := rules.Texts([]string{"f", "nobody's", "c"}); len(texts) != 1 || texts[0].Name != "c" {
		t.Errorf("texts that cannot be given: %v", texts)
	}
}

func TestIncludes(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"a", "a"},
		{"a,b;c , -d", "a b c -d"},
		{"", ""},
		{"${f:virt_check:virtual-guest:throughput-performance}", "virtual-guest throughput-performance"},
		{"x,${f:virt_check:a,b:-c},y", "x a b -c y"},
		{"p-${f:virt_check:a:b}-q", "p-a-q p-b-q"},
		{"${f:cpuinfo_check:Intel:a:AMD:b:c}", "a b c"},
		{"x${f:cpuinfo_check:Intel:a:AMD:b}", "xa xb x"},
		{"${f:lscpu_check:Intel:a}", "a"},
		{"${f:regex_search_ternary:x:y:a:b}", "a b"},
		{"${f:virt_check:${f:virt_check:a:b}:c}", "a b c"},
		{`${f:virt_check:a\:b:c}`, "a:b c"},
		{"-provider-${f:exec:cat:/x},openshift", "openshift ..."},
		{"${x},a", "a ..."},
		{"${f:strip:a}", "..."},
		{"${f:virt_check:a}", "..."},
		{"${f:virt_check:a:b", "..."},
		{`\${f:virt_check:a:b}`, "..."},
		{"${f:virt_check:${f:exec:x}:b}", "..."},
		{strings.Repeat("${f:virt_check:a:b}", 6), strings.Join(all(6), " ")},
		{strings.Repeat("${f:virt_check:a:b}", 7), "..."},
	} {
		names, open := includes(c.value)
		var got []string
		for _, n := range names {
			if n.optional {
				n.name = "-" + n.name
			}
			got = append(got, n.name)
		}
		if open {
			got = append(got, "...")
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.value, s, c.want)
		}
	}
}

// all are the texts of n letters a or b, in order.
func all(n int) []string {
	if n == 0 {
		return []string{""}
	}
	var out []string
	for _, head := range []string{"a", "b"} {
		for _, tail := range all(n - 1) {
			out = append(out, head+tail)
		}
	}
	return out
}

func TestNames(t *testing.T) {
	for name, want := range map[string]bool{
		"openshift-node": true, "a.b_c-1": true, "": false, ".": false, "..": false, "...": false, "-a": false, "a/b": false, "a b": false,
		"ä": false, strings.Repeat("a", 253): true, strings.Repeat("a", 254): false,
	} {
		if ValidName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
