package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const webTemplate = `{"kind":"Template","apiVersion":"v1","parameters":[{"name":"IDENTIFIER"},{"name":"REPLICAS","value":"2"},{"name":"PASSWORD","generate":"expression","from":"[\\A]{3}[a-z]{4}"},{"name":"NUMBER","generate":"expression","from":"[1-9]{3}"}],
"objects":[
 {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web-${IDENTIFIER}"},"spec":{"replicas":"${{REPLICAS}}","ordinal":"${{IDENTIFIER}}","template":{"spec":{}}}},
 {"apiVersion":"v1","kind":"Secret","metadata":{"name":"s${IDENTIFIER}"},"stringData":{"p":"${PASSWORD}/${IDENTIFIER}"}}]}`

func load(groups ...Group) *Load {
	return &Load{Seed: 3, Stages: []Stage{{At: "f:1", Prefix: "p", Iterations: 2, PerNamespace: 1, IfExists: Fail, Groups: groups}}}
}

func compile(t *testing.T, l *Load) *Plan {
	t.Helper()
	p, err := Compile(t.Context(), l, "run-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// object is what an object's body says.
func bodyOf(t *testing.T, p *Plan, i int) map[string]any {
	t.Helper()
	var o map[string]any
	text := p.Body(i)
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatalf("object %d: %v\n%s", i, err, text)
	}
	return o
}

func TestTemplate(t *testing.T) {
	p := compile(t, load(Group{At: "f:2", Count: 3, Template: json.RawMessage(webTemplate), File: "t.json"}))
	if p.Len() != 2+2*3*2 {
		t.Fatalf("%d objects", p.Len())
	}
	var names []string
	for i := range p.Len() {
		names = append(names, p.Describe(i))
		o := bodyOf(t, p, i)
		m := o["metadata"].(map[string]any)
		if m["name"] != p.Name(i) || m["labels"].(map[string]any)[RunLabel] != "run-1" || m["annotations"].(map[string]any)[ObjectNote] != fmt.Sprint(i) {
			t.Errorf("object %d: %v", i, m)
		}
	}
	want := []string{
		"Namespace p0", "Namespace p1",
		"Deployment p0/web-0", "Secret p0/s0", "Deployment p0/web-1", "Secret p0/s1", "Deployment p0/web-2", "Secret p0/s2",
		"Deployment p1/web-0", "Secret p1/s0", "Deployment p1/web-1", "Secret p1/s1", "Deployment p1/web-2", "Secret p1/s2",
	}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
	d := bodyOf(t, p, 4)["spec"].(map[string]any)
	if d["replicas"] != 2.0 || d["ordinal"] != 1.0 {
		t.Errorf("%v", d)
	}
	if l := d["template"].(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any); l[RunLabel] != "run-1" {
		t.Errorf("the pods' labels: %v", l)
	}
	if n, _ := p.Pods(2); n != 2 {
		t.Errorf("%d pods", n)
	}
	seen := map[any]bool{}
	for _, i := range []int{3, 5, 7, 9, 11, 13} {
		v := bodyOf(t, p, i)["stringData"].(map[string]any)["p"].(string)
		if seen[v] || !strings.HasSuffix(v, p.Name(i)[1:]) || len(v) != 9 {
			t.Errorf("generated %q", v)
		}
		seen[v] = true
	}
	again := compile(t, load(Group{At: "f:2", Count: 3, Template: json.RawMessage(webTemplate), File: "t.json"}))
	if p.Sum() != again.Sum() {
		t.Error("the same load has two plans")
	}
	other := load(Group{At: "f:2", Count: 3, Template: json.RawMessage(webTemplate), File: "t.json"})
	other.Seed++
	if compile(t, other).Sum() == p.Sum() {
		t.Error("another seed makes the same")
	}
}

// TestSkeletonsAreRight tests that an object built from a skeleton equals the template's own
// result, also if replicas differ in more than texts.
func TestSkeletonsAreRight(t *testing.T) {
	for name, g := range map[string]Group{
		"pod":            {Count: 3, Name: "a", Pod: json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"x":"<&>"}}`)},
		"template":       {Count: 3, Template: json.RawMessage(webTemplate)},
		"value":          {Count: 3, Template: json.RawMessage(strings.Replace(webTemplate, "${PASSWORD}/${IDENTIFIER}", "${{NUMBER}}", 1))},
		"key":            {Count: 3, Template: json.RawMessage(strings.Replace(webTemplate, `"p":`, `"p${NUMBER}":`, 1))},
		"go":             {Count: 3, Text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m-{{.Iteration}}-{{ .Replica }}}\nport: {{.Replica}}\ndata: {j: '{{.JobName}} {{.UUID}} {{.size}}'}\n", Variables: json.RawMessage(`{"size":7}`)},
		"go, arithmetic": {Count: 3, Text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m-{{.Replica}}}\nport: {{add .Replica 1}}\n{{if eq .Replica 1}}odd: true{{end}}\n"},
		"go, random":     {Count: 3, Text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m-{{.Replica}}}\ndata: {a: '{{randAlphaNum 9}}', b: '{{uuidv4}}'}\n"},
		"go, two":        {Count: 3, Text: "{{range $i, $e := .list}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m-{{$.Replica}}-{{$e}}}\n{{end}}", Variables: json.RawMessage(`{"list":["a","b"]}`)},
	} {
		g.At, g.File = "f:2", "t"
		l := load(g)
		p := compile(t, l)
		c := &compiler{load: l, run: "run-1"}
		direct, err := c.source(&l.Stages[0], &l.Stages[0].Groups[0])
		if err != nil {
			t.Fatal(err)
		}
		n := 2
		for iteration := range 2 {
			for replica := range 3 {
				values := direct.values(l.Seed, &l.Stages[0], iteration, replica, n)
				objects, err := direct.make(values)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range objects {
					meta := metadata(o)
					label(meta, "labels", RunLabel, "run-1")
					label(meta, "annotations", ObjectNote, fmt.Sprint(n))
					if s, ok := o["spec"].(map[string]any); ok && s["template"] != nil {
						label(metadata(s["template"].(map[string]any)), "labels", RunLabel, "run-1")
					}
					text, err := json.Marshal(o)
					if err != nil {
						t.Fatal(err)
					}
					var want any
					if err := json.Unmarshal(text, &want); err != nil {
						t.Fatal(err)
					}
					if d := cmp.Diff(want, any(bodyOf(t, p, n))); d != "" {
						t.Errorf("%s: object %d:\n%s", name, n, d)
					}
					n++
				}
			}
		}
		if n != p.Len() {
			t.Errorf("%s: %d objects, want %d", name, p.Len(), n)
		}
	}
}

func TestSteps(t *testing.T) {
	pod := json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}`)
	l := load(Group{At: "f:2", Count: 5, Name: "a", Pod: pod, Pace: &Pace{Step: 2, Pause: time.Second, Timeout: time.Minute, Delay: 2 * time.Millisecond}, Sync: &SyncPoint{At: "f:9", Server: true, Timeout: time.Minute}})
	l.Stages[0].Iterations = 1
	l.Wait = time.Hour
	var got []string
	for _, op := range compile(t, l).Ops {
		name := map[Do]string{Create: "create", Drain: "drain", Settle: "settle", Pause: "pause", Listen: "listen", Sync: "sync"}[op.Do]
		got = append(got, fmt.Sprintf("%s %d-%d %s %s", name, op.From, op.To, op.Every, op.Timeout))
	}
	want := []string{
		"create 0-1 0s 0s", "drain 0-0 0s 0s", "listen 0-0 0s 0s",
		"create 1-3 2ms 0s", "settle 1-3 0s 1m0s", "pause 0-0 0s 1s",
		"create 3-5 2ms 0s", "settle 3-5 0s 1m0s", "pause 0-0 0s 1s",
		"create 5-6 2ms 0s", "sync 1-6 0s 1m0s", "drain 0-0 0s 0s", "settle 0-6 0s 1h0m0s",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRefused(t *testing.T) {
	for want, g := range map[string]Group{
		"would be created twice (also by f:2); use ${IDENTIFIER} in the name": {Count: 2, Template: json.RawMessage(`{"kind":"Template","apiVersion":"v1","objects":[{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m"}}]}`)},
		"has no metadata.name":            {Count: 1, Manifest: json.RawMessage(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generateName":"m"}}`)},
		"apiVersion or kind missing":      {Count: 1, Manifest: json.RawMessage(`{"kind":"ConfigMap","metadata":{"name":"m"}}`)},
		"function \"lookup\" not defined": {Count: 1, Text: "{{lookup 1}}"},
		`map has no entry for key "nothing": add nothing to the object's inputVars (nothing: VALUE), or set defaultMissingKeysWithZero: true in its job`: {Count: 1, Text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{.nothing}}'}"},
	} {
		g.At, g.File = "f:2", "t"
		if _, err := Compile(t.Context(), load(g), "run-1", nil); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f:2: ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestMissing tests that kinds that the server lacks are named, even usual ones, and that
// OpenShift's early names are mapped to their groups.
func TestMissing(t *testing.T) {
	l := load(Group{At: "f:2", Count: 1, Manifest: json.RawMessage(`{"kind":"Route","apiVersion":"v1","metadata":{"name":"r"}}`)})
	p, err := Compile(t.Context(), l, "r", Kinds{namespaceKind})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Missing{{"route.openshift.io/v1", "Route"}}, p.Missing); d != "" {
		t.Error(d)
	}
	p, err = Compile(t.Context(), l, "r", nil)
	if err != nil || len(p.Missing) != 0 || p.Kind(2).Path("p0") != "/apis/route.openshift.io/v1/namespaces/p0/routes" {
		t.Errorf("%v %v %v", err, p.Missing, p.Kind(2))
	}
}

// TestTooLarge tests that huge counts are refused by their numbers, at any position, and that a
// long compilation ends with its context.
func TestTooLarge(t *testing.T) {
	pod := json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{}}`)
	two := json.RawMessage(webTemplate)
	for name, change := range map[string]func(l *Load){
		"pods":            func(l *Load) { l.Stages[0].Groups[0].Count = 2_000_000_000 },
		"most pods":       func(l *Load) { l.Stages[0].Groups[0].Count = math.MaxInt },
		"projects":        func(l *Load) { l.Stages[0].Iterations = 2_000_000_000 },
		"empty projects":  func(l *Load) { l.Stages[0].Iterations, l.Stages[0].Groups = 2_000_000_000, nil },
		"their product":   func(l *Load) { l.Stages[0].Iterations, l.Stages[0].Groups[0].Count = 2000, 1001 },
		"with namespaces": func(l *Load) { l.Stages[0].Groups[0].Count = 1_000_000 },
		"with two of each": func(l *Load) {
			l.Stages[0].Groups[0] = Group{At: "f:2", Count: 600_000, Template: two, File: "t"}
		},
		"of two stages": func(l *Load) {
			l.Stages[0].Iterations, l.Stages[0].Groups[0].Count = 1, 1_500_000
			l.Stages = append(l.Stages, l.Stages[0])
		},
	} {
		l := load(Group{At: "f:2", Count: 1, Name: "a", Pod: pod})
		change(l)
		if _, err := Compile(t.Context(), l, "run", nil); !errors.Is(err, ErrTooLarge) || !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	l := load(Group{At: "f:2", Count: 10, Name: "a", Pod: pod, Every: math.MaxInt})
	l.Stages[0].PerNamespace = math.MaxInt
	if p := compile(t, l); p.Len() != 1+10 {
		t.Errorf("%d objects", p.Len())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compile(ctx, l, "run", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func BenchmarkBody(b *testing.B) {
	p, err := Compile(b.Context(), load(Group{At: "f:2", Count: 1000, Template: json.RawMessage(webTemplate), File: "t.json"}), "r", nil)
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		p.Body(2 + i%4000)
		i++
	}
}

// TestPodsOfJobs tests that a Job never runs more pods at once than it still has to complete.
func TestPodsOfJobs(t *testing.T) {
	for text, want := range map[string]int{
		`{}`: 1, `{"parallelism":5}`: 5, `{"parallelism":5,"completions":2}`: 2, `{"parallelism":2,"completions":6}`: 2, `{"completions":6}`: 1, `{"parallelism":5,"completions":null}`: 5, `{"parallelism":0,"completions":3}`: 0,
	} {
		p, err := Compile(t.Context(), load(Group{At: "f:2", Count: 1, Manifest: json.RawMessage(`{"kind":"Job","apiVersion":"batch/v1","metadata":{"name":"j"},"spec":` + text + `}`)}), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := p.Pods(p.Len() - 1); n != want {
			t.Errorf("%s: %d pods, want %d", text, n, want)
		}
	}
}
