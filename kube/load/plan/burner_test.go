package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// burnerStage is a job of kube-burner with some templates.
func burnerStage(name, namespace string, iterations, replicas int, texts ...string) Stage {
	s := Stage{At: name + ":1", Name: name, Prefix: namespace, Burner: true, Iterations: iterations, PerNamespace: 1, IfExists: Reuse, Single: !strings.HasSuffix(namespace, "-")}
	for _, text := range texts {
		s.Groups = append(s.Groups, Group{At: name + ":2", Name: name, Count: replicas, Text: text, File: "t"})
	}
	return s
}

const (
	mapText  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m-{{.JobName}}-{{.Iteration}}-{{.Replica}}}\n"
	roleText = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r-{{.Iteration}}-{{.Replica}}}\n"
	ownText  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o-{{.Iteration}}-{{.Replica}}, namespace: default}\n"
	bothText = ownText + "---\n" + roleText
	newText  = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shared}\n"
	ownedBy  = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t-{{.Replica}}}\n"
)

// TestNamespaces tests that a job of kube-burner has namespaces only if an object needs one, and
// that jobs share namespaces of the same name.
func TestNamespaces(t *testing.T) {
	for name, x := range map[string]struct {
		stages []Stage
		want   []string
	}{
		"no namespace needed":           {[]Stage{burnerStage("a", "", 1, 2, roleText)}, []string{"ClusterRole r-0-1", "ClusterRole r-0-2"}},
		"none needed, one named":        {[]Stage{burnerStage("a", "x-", 2, 1, roleText)}, []string{"ClusterRole r-0-1", "ClusterRole r-1-1"}},
		"each names its own":            {[]Stage{burnerStage("a", "x-", 1, 1, bothText)}, []string{"ConfigMap default/o-0-1", "ClusterRole r-0-1"}},
		"one of two needs it":           {[]Stage{burnerStage("a", "x-", 1, 1, ownText, mapText)}, []string{"Namespace x-0", "ConfigMap default/o-0-1", "ConfigMap x-0/m-a-0-1"}},
		"two jobs, one namespace":       {[]Stage{burnerStage("a", "x", 1, 1, mapText), burnerStage("b", "x", 1, 1, mapText)}, []string{"Namespace x", "ConfigMap x/m-a-0-1", "ConfigMap x/m-b-0-1"}},
		"two jobs, some namespaces":     {[]Stage{burnerStage("a", "x-", 1, 1, mapText), burnerStage("b", "x-", 2, 1, mapText)}, []string{"Namespace x-0", "ConfigMap x-0/m-a-0-1", "Namespace x-1", "ConfigMap x-0/m-b-0-1", "ConfigMap x-1/m-b-1-1"}},
		"a namespace of a template":     {[]Stage{burnerStage("a", "", 1, 1, newText), burnerStage("b", "shared", 1, 1, mapText)}, []string{"Namespace shared", "ConfigMap shared/m-b-0-1"}},
		"a kind that is not known":      {[]Stage{burnerStage("a", "", 1, 1, ownedBy)}, []string{"Thing t-1"}},
		"and one in a job's namespaces": {[]Stage{burnerStage("a", "x-", 1, 1, ownedBy)}, []string{"Namespace x-0", "Thing x-0/t-1"}},
	} {
		p := compile(t, &Load{Stages: x.stages})
		var got []string
		for i := range p.Len() {
			got = append(got, p.Describe(i))
		}
		if d := cmp.Diff(x.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if _, err := Compile(t.Context(), &Load{Stages: []Stage{burnerStage("a", "", 1, 1, mapText)}}, "r", nil); err == nil || !strings.Contains(err.Error(), "add namespace: NAME to the job") {
		t.Errorf("%v", err)
	}
	// Cluster Loader's projects share a namespace only where they reuse it.
	project := Stage{At: "f:1", Prefix: "p", Iterations: 1, PerNamespace: 1, IfExists: Fail}
	if _, err := Compile(t.Context(), &Load{Stages: []Stage{project, project}}, "r", nil); err == nil || !strings.Contains(err.Error(), "would be created twice") {
		t.Errorf("%v", err)
	}
}

// TestBurnerNumbers tests that replicas count from 1 and iterations from 0, in names, conditions
// and kube-burner's labels, whether objects are created one by one or not.
func TestBurnerNumbers(t *testing.T) {
	for name, text := range map[string]string{
		"plain":      "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d-{{.Iteration}}-{{.Replica}}, labels: {kube-burner.io/job: own}}\nspec: {template: {spec: {}}}\n",
		"one by one": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d-{{add .Iteration 0}}-{{.Replica}}, labels: {kube-burner.io/job: own}}\nspec: {template: {spec: {}}}\n",
	} {
		s := burnerStage("a", "x", 4, 2, mapText, text)
		s.Groups[1].Every = 2
		p := compile(t, &Load{Stages: []Stage{s}, UUID: "u-1"})
		var names []string
		for i := range p.Len() {
			if p.Kind(i).Kind != "Deployment" {
				continue
			}
			var o struct {
				Metadata struct {
					Name   string
					Labels map[string]string
				}
				Spec struct {
					Template struct {
						Metadata struct{ Labels map[string]string }
					}
				}
			}
			if err := json.Unmarshal(p.Body(i), &o); err != nil {
				t.Fatal(err)
			}
			l, of := o.Metadata.Labels, o.Spec.Template.Metadata.Labels
			names = append(names, o.Metadata.Name+" "+l["kube-burner.io/job-iteration"]+" "+l["kube-burner.io/replica"])
			if l["kube-burner.io/job"] != "own" || of["kube-burner.io/job"] != "a" || l["kube-burner.io/index"] != "1" || l["kube-burner.io/uuid"] != "u-1" || l["kube-burner.io/runid"] != "run-1" || of["kube-burner.io/replica"] != l["kube-burner.io/replica"] {
				t.Errorf("%s: %v %v", name, l, of)
			}
		}
		if want := []string{"d-0-1 0 1", "d-0-2 0 2", "d-1-1 2 1", "d-1-2 2 2"}; !slices.Equal(names, want) {
			t.Errorf("%s: %q", name, names)
		}
	}
}

// TestSeeded tests that random texts are the same when a load is planned again, and different for
// each object.
func TestSeeded(t *testing.T) {
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m-{{.Iteration}}-{{.Replica}}}\ndata: {a: '{{randAlphaNum 12}} {{randInt 0 1000000}} {{uuidv4}} {{randBytes 8}}', k: '{{keys (dict \"b\" 1 \"a\" 2 \"c\" 3)}}'}\n"
	l := &Load{Stages: []Stage{burnerStage("a", "x", 3, 3, text)}}
	sum := compile(t, l).Sum()
	for range 3 {
		if again := compile(t, l).Sum(); again != sum {
			t.Fatal("planned again, other objects are made")
		}
	}
	seen := map[string]bool{}
	p := compile(t, l)
	for i := 1; i < p.Len(); i++ {
		var o struct{ Data map[string]string }
		if err := json.Unmarshal(p.Body(i), &o); err != nil || seen[o.Data["a"]] || o.Data["k"] != "[a b c]" {
			t.Errorf("object %d: %v %v", i, o, err)
		}
		seen[o.Data["a"]] = true
	}
	l.Seed = 1
	if compile(t, l).Sum() == sum {
		t.Error("another seed makes the same")
	}
}

// TestTyped tests that whole numbers in a job's variables are int, as sprig's functions require.
func TestTyped(t *testing.T) {
	s := burnerStage("a", "x", 1, 1, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: '{{range until .n}}{{.}}{{end}} {{.f}} {{unset .d \"x\" | len}} {{mul .Replica .n}} {{.l}}'}\n")
	s.Groups[0].Count, s.Groups[0].Variables = 1, json.RawMessage(`{"n":3,"f":1.5,"d":{"x":1,"y":2},"l":[4,5]}`)
	p := compile(t, &Load{Stages: []Stage{s}})
	var o struct{ Data map[string]string }
	if err := json.Unmarshal(p.Body(1), &o); err != nil || o.Data["a"] != "012 1.5 1 3 [4 5]" {
		t.Errorf("%v %v", o, err)
	}
}

// TestWaitEach tests that a namespace is waited for once, after the first iteration in it.
func TestWaitEach(t *testing.T) {
	for name, x := range map[string]struct {
		namespace, text string
		perNamespace    int
		want            []string
	}{
		"a namespace each":    {"x-", mapText, 1, []string{"m-a-0-1", "m-a-1-1", "m-a-2-1", "m-a-3-1", "m-a-4-1"}},
		"two in a namespace":  {"x-", mapText, 2, []string{"m-a-0-1", "m-a-2-1", "m-a-4-1"}},
		"all in a namespace":  {"x-", mapText, 9, []string{"m-a-0-1"}},
		"one namespace":       {"x", mapText, 1, []string{"m-a-0-1", "m-a-1-1", "m-a-2-1", "m-a-3-1", "m-a-4-1"}},
		"no namespace needed": {"x-", roleText, 1, []string{"r-0-1"}},
		"one of its own":      {"x-", ownText, 2, []string{"o-0-1"}},
		// namespacedIterations: false waits for all behind each iteration, but for objects that
		// name their namespace once.
		"cluster objects":        {"x", roleText, 1, []string{"r-0-1", "r-1-1", "r-2-1", "r-3-1", "r-4-1"}},
		"no job namespace":       {"", roleText, 1, []string{"r-0-1", "r-1-1", "r-2-1", "r-3-1", "r-4-1"}},
		"one of its own, single": {"", ownText, 1, []string{"o-0-1"}},
		"both":                   {"", bothText, 1, []string{"o-0-1", "r-0-1", "o-1-1", "r-1-1", "o-2-1", "r-2-1", "o-3-1", "r-3-1", "o-4-1", "r-4-1"}},
	} {
		s := burnerStage("a", x.namespace, 5, 1, x.text)
		s.PerNamespace, s.WaitEach = x.perNamespace, time.Minute
		p := compile(t, &Load{Stages: []Stage{s}})
		var got []string
		for _, op := range p.Ops {
			if op.Do == Settle {
				for i := op.From; i < op.To; i++ {
					got = append(got, p.Name(i))
				}
			}
		}
		if d := cmp.Diff(x.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
