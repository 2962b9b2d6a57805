package tuned

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/profiles"
)

// parse reads Tuned objects from YAML without what is the same in all:
// "--- NAME" begins one.
func parse(t testing.TB, text string) []*Tuned {
	t.Helper()
	var out []*Tuned
	for _, part := range strings.Split(text, "--- ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		if !strings.Contains(body, "metadata:") {
			body = "metadata: {name: " + name + "}\n" + body
		}
		objects, err := Read(name, []byte("apiVersion: tuned.openshift.io/v1\nkind: Tuned\n"+body))
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		out = append(out, &objects.Tuneds[0])
	}
	return out
}

// files reads objects from files as they are.
func files(t testing.TB, names ...string) []*Tuned {
	t.Helper()
	var out []*Tuned
	for _, name := range names {
		data, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		objects, err := Read(name, data)
		if err != nil {
			t.Fatal(err)
		}
		for i := range objects.Tuneds {
			out = append(out, &objects.Tuneds[i])
		}
	}
	return out
}

// labels reads "a=1 b".
func labelsOf(text string) map[string]string {
	out := map[string]string{}
	for _, l := range strings.Fields(text) {
		name, value, _ := strings.Cut(l, "=")
		out[name] = value
	}
	return out
}

// node reads "a=1 b | c=2 | d": a node with its labels, and the labels of pods.
func node(text string) RecommendedNode {
	parts := strings.Split(text, "|")
	n := RecommendedNode{Name: "n", Labels: labelsOf(parts[0])}
	for i, p := range parts[1:] {
		n.Pods = append(n.Pods, Pod{Name: fmt.Sprintf("ns/pod%d", i), Labels: labelsOf(p)})
	}
	return n
}

// outline is a decision in one line: the profile, the rule, what of it held, and
// the reasons of the notes.
func outline(d Decision) string {
	var b strings.Builder
	if d.State != Decided {
		fmt.Fprintf(&b, "%s", d.State)
	}
	if d.Rule != nil {
		fmt.Fprintf(&b, " %s %s[%d] %s", d.Profile, d.Rule.Object, d.Rule.Index, d.Rule.By)
		if n := len(d.Rule.Items); n > 0 {
			last := d.Rule.Items[n-1]
			fmt.Fprintf(&b, " %s=%s", last.Path, last.Value)
			for _, i := range d.Rule.Items {
				if i.Pod != "" {
					fmt.Fprintf(&b, " on %s", i.Pod)
				}
			}
		}
		if len(d.Rule.Pools) > 0 {
			fmt.Fprintf(&b, " %s", strings.Join(d.Rule.Pools, ","))
		}
	}
	for _, n := range d.Notes {
		fmt.Fprintf(&b, " !%s", n.Reason)
	}
	return strings.TrimSpace(b.String())
}

// outlineObject is "name reason reason", with a "+" before a valid one.
func outlineObject(o Object) string {
	s := o.Name
	if o.Valid {
		s = "+" + s
	}
	for _, n := range o.Notes {
		s += " " + string(n.Reason)
	}
	return s
}

func options() Options { return Options{Builtin: profiles.FS} }

// selector reads "a=1 b": labels that have to be there.
func selector(text string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for name, value := range labelsOf(text) {
		if value != "" {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: name, Operator: metav1.LabelSelectorOpIn, Values: strings.Split(value, ",")})
		} else {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: name, Operator: metav1.LabelSelectorOpExists})
		}
	}
	return s
}
