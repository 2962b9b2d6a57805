package format

import (
	"encoding/json"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/kube/load/plan"
)

// from are files in memory.
func from(files map[string]string) Files {
	return Files{
		Read: func(name string) ([]byte, error) {
			text, ok := files[name]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return []byte(text), nil
		},
		Env: func(name string) (string, bool) { return "of the environment", name == "THERE" },
	}
}

const aTemplate = `{"kind":"Template","apiVersion":"v1","parameters":[{"name":"IDENTIFIER"},{"name":"ENV_VALUE"},{"name":"THERE"},{"name":"NOT_THERE","value":"own"}],
	"objects":[{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m${IDENTIFIER}"}}]}`

const aPod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"ignored","labels":{"app":"x"},"annotations":{"a":"b"}},
	"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"MODE","value":"slow"}]}]}}`

// TestSource002 tests the example file of the OpenShift guide.
func TestSource002(t *testing.T) {
	text, err := os.ReadFile("testdata/source002.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, name := range []string{"cakephp-mysql.json", "dancer-mysql.json", "django-postgresql.json", "quickstarts/nodejs-mongodb.json", "rails-postgresql.json"} {
		files["dir/"+name] = aTemplate
	}
	l, err := ReadClusterLoader("dir/test.yaml", text, from(files))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range l.Stages {
		got = append(got, s.Prefix+" "+s.IfExists+" "+s.Groups[0].File)
		if s.Namespaces() != 1 || len(s.Groups) != 1 || s.Groups[0].Count != 1 || s.Groups[0].Pace != nil {
			t.Errorf("%+v", s)
		}
	}
	want := []string{
		"clusterloader-cakephp-mysql reuse dir/cakephp-mysql.json",
		"clusterloader-dancer-mysql reuse dir/dancer-mysql.json",
		"clusterloader-django-postgresql reuse dir/django-postgresql.json",
		"clusterloader-nodejs-mongodb reuse dir/quickstarts/nodejs-mongodb.json",
		"clusterloader-rails-postgresql fail dir/rails-postgresql.json",
	}
	if d := cmp.Diff(want, got); d != "" || !l.Cleanup {
		t.Errorf("cleanup %v\n%s", l.Cleanup, d)
	}
}

// TestEveryField tests that each field of tables 5.1 to 5.7 has its meaning.
func TestEveryField(t *testing.T) {
	l, err := ReadClusterLoader("test.yaml", []byte(`
provider: local
ClusterLoader:
  cleanup: false
  projects:
  - num: 2
    basename: p
    tuning: fast
    ifexists: delete
    labels: {team: a}
    nodeselector: zone=x
    configmaps: [{cm: cm.txt}, {cn: cm.txt}]
    secrets: {s: cm.txt}
    templates:
    - num: 3
      file: t.json
      parameters: [{env_value: "1 2"}, {THERE: }, {NOT_THERE: }]
    pods:
    - num: 4
      image: other
      basename: pods
      file: pod.json
      parameters: {MODE: fast}
      sync:
        server: {enabled: true, port: 9099}
        running: true
        succeeded: yes
        selectors: [{purpose: test}, {app: x}]
        timeout: 1m30s
    - {num: 1, basename: plain, image: registry/pause}
  tuningsets:
  - name: fast
    pods: {stepping: {stepsize: 5, pause: 10 s, timeout: 1 min}, rate_limit: {delay: 250}}
    templates: {stepping: {stepsize: 2, pause: 3}, ratelimit: {delay: 0 ms}}
  sync: {server: {enabled: true}, timeout: 0}
`), from(map[string]string{"cm.txt": "text", "t.json": aTemplate, "pod.json": aPod}))
	if err != nil {
		t.Fatal(err)
	}
	s := l.Stages[0]
	if s.Namespaces() != 2 || s.Prefix != "p" || s.IfExists != plan.Delete || s.Labels["team"] != "a" || s.Annotations["openshift.io/node-selector"] != "zone=x" || len(s.Groups) != 6 {
		t.Fatalf("%+v", s)
	}
	cm, secret, template, pods, plain := s.Groups[0], s.Groups[2], s.Groups[3], s.Groups[4], s.Groups[5]
	if string(cm.Manifest) != `{"apiVersion":"v1","data":{"cm":"text"},"kind":"ConfigMap","metadata":{"name":"cm"}}` {
		t.Errorf("%s", cm.Manifest)
	}
	if !strings.Contains(string(secret.Manifest), `"data":{"s":"dGV4dA=="}`) {
		t.Errorf("%s", secret.Manifest)
	}
	if d := cmp.Diff(map[string]string{"ENV_VALUE": "1 2", "THERE": "of the environment"}, template.Parameters); d != "" || template.Count != 3 {
		t.Errorf("%d %s", template.Count, d)
	}
	if d := cmp.Diff(&plan.Pace{Step: 2, Pause: 3 * time.Second, Timeout: defaultTimeout}, template.Pace); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&plan.Pace{Step: 5, Pause: 10 * time.Second, Timeout: time.Minute, Delay: 250 * time.Millisecond}, pods.Pace); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&plan.SyncPoint{At: pods.Sync.At, Server: true, Port: 9099, Running: true, Succeeded: true, Selectors: map[string]string{"purpose": "test", "app": "x"}, Timeout: 90 * time.Second}, pods.Sync); d != "" {
		t.Error(d)
	}
	if want := `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"a":"b"},"labels":{"app":"x","purpose":"test"}},"spec":{"containers":[{"env":[{"name":"MODE","value":"fast"}],"image":"i","name":"c"}]}}`; string(pods.Pod) != want {
		t.Errorf("got  %s\nwant %s", pods.Pod, want)
	}
	if !strings.Contains(string(plain.Pod), `"image":"registry/pause","name":"test-container"`) || !strings.Contains(string(plain.Pod), `"restartPolicy":"Never"`) {
		t.Errorf("%s", plain.Pod)
	}
	if l.Sync == nil || l.Sync.Port != 9090 || l.Sync.Timeout != defaultTimeout {
		t.Errorf("%+v", l.Sync)
	}
	if len(l.Notes) != 2 || !strings.Contains(l.Notes[0], "NOT_THERE has no value") || !strings.Contains(l.Notes[1], "image is ignored; the images come from pod.json") {
		t.Errorf("%q", l.Notes)
	}
}

// TestPublished tests forms of real files that Cluster Loader's documentation does not have.
func TestPublished(t *testing.T) {
	files := from(map[string]string{"t.json": aTemplate, "pod.json": aPod})
	for name, text := range map[string]string{
		"ratelimit, quotas":      "ClusterLoader: {projects: [{num: 99, basename: clusterproject, tuning: default, ifexists: delete, pods: [{num: 5, image: pause, basename: pausepods, file: pod.json}]}], tuningsets: [{name: default, pods: {stepping: {stepsize: 20, pause: 5 s}, ratelimit: {delay: 250 ms}}}], quotas: [{name: default}]}",
		"without ifexists":       "ClusterLoader: {cleanup: true, projects: [{num: 3, basename: c, templates: [{num: 3, file: ./t.json, parameters: [{ENV_VALUE: a}]}]}]}",
		"ifexists above":         "ClusterLoader: {ifexists: delete, projects: [{num: 3, basename: c, templates: [{num: 3, file: t.json}]}]}",
		"basename with a hyphen": "ClusterLoader: {projects: [{num: 1, basename: node-affinity-, ifexists: delete, pods: [{num: 2, basename: p, file: pod.json, total: 3, storage: [{type: none}]}]}]}",
		"the earlier loader":     "projects: [{num: 1, basename: c, tuning: d, templates: [{num: 1, file: t.json}]}]\ntuningsets: [{name: d, templates: {stepping: {stepsize: 5, pause: 0 min}}}]\nquotas: []",
		"other case":             "clusterloader: {Projects: [{Num: 1, baseName: c, ifExists: reuse, templates: [{num: 1, file: t.json}]}]}",
	} {
		if _, err := ReadClusterLoader("test.yaml", []byte(text), files); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClusterLoaderMistakes(t *testing.T) {
	files := from(map[string]string{"t.json": aTemplate, "pod.json": aPod, "broken.json": "{", "bare.json": `{"kind":"Template","apiVersion":"v1","objects":[]}`, "list.yaml": "- a", "text.yaml": "hello", "old.yaml": "kind: Pod\napiVersion: v2"})
	project := func(more string) string { return "ClusterLoader:\n  projects:\n  - num: 1\n    basename: p\n" + more }
	for text, want := range map[string]string{
		"":                                   "want one document",
		"a: 1":                               `test.yaml:1: unknown field "a": known fields are provider, ClusterLoader`,
		"provider: local":                    "has no top-level key ClusterLoader",
		"ClusterLoader: {project: []}":       `test.yaml:1: ClusterLoader: unknown field "project" (did you mean "projects"?)`,
		"ClusterLoader: {projects: []}":      "test.yaml:1: ClusterLoader has no projects",
		project("    ifexists: remove"):      `test.yaml:5: ClusterLoader.projects[0].ifexists: want reuse or delete or fail, found "remove"`,
		project("    tuning: x"):             `unknown tuning set "x"`,
		project("    num: 2"):                `"num" is given twice`,
		project("    templates: [{num: 1}]"): "test.yaml:5: a template has no file",
		project("    templates: [{num: 1, file: no.json}]"):                                  "test.yaml:5: no.json not found",
		project("    templates: [{num: 1, file: broken.json}]"):                              "broken.json:",
		project("    templates: [{num: 1, file: t.json, parameters: {X: 1}}]"):               "the template has no parameter X",
		project("    templates: [{num: many, file: t.json}]"):                                `want a whole number of 0 or more, found "many"`,
		project("    templates: [{num: -1, file: t.json}]"):                                  "want a whole number of 0 or more",
		project("    pods: [{num: 1, basename: a}]"):                                         "test.yaml:5: pods have neither file nor image",
		project("    pods: [{num: 1, basename: A_B, image: x}]"):                             "cannot begin a pod name; want lower-case letters, digits and -",
		project("    pods: [{num: 1, basename: a, file: list.yaml}]"):                        "test.yaml:5: list.yaml:1: want an object with its apiVersion and kind, found a list",
		project("    pods: [{num: 1, basename: a, file: text.yaml}]"):                        `test.yaml:5: text.yaml:1: want an object with its apiVersion and kind, found "hello"`,
		project("    pods: [{num: 1, basename: a, file: old.yaml}]"):                         "test.yaml:5: old.yaml: want a Pod of v1, found Pod of v2",
		project("    rate: 5/s"):                                                             `test.yaml:5: ClusterLoader.projects[0]: unknown field "rate": this field belongs below ClusterLoader`,
		project("    stepsize: 5"):                                                           `test.yaml:5: ClusterLoader.projects[0]: unknown field "stepsize": this field belongs below ClusterLoader.tuningsets[].pods.stepping, or below ClusterLoader.tuningsets[].templates.stepping`,
		"rate: 5/s\nClusterLoader: {projects: [{num: 1, basename: p}]}":                      `test.yaml:1: unknown field "rate": this field belongs below ClusterLoader`,
		project("    pods: [{num: 1, basename: a, file: t.json}]"):                           "want a Pod of v1, found Template of v1",
		project("    pods: [{num: 1, basename: a, file: pod.json, parameters: {OTHER: 1}}]"): "has no environment variable OTHER, only MODE",
		project("    configmaps: {a: }"):                                                     "ConfigMap a has no file",
		project("    configmaps: [a]"):                                                       "want NAME: TEXT",
		project("  tuningsets: [{name: a, pods: {stepping: {stepsize: 1, pause: soon}}}]"):   "want a whole number (of s), or a time with its unit",
		project("  tuningsets: [{name: a, pods: {stepping: {pause: 1}}}]\n"):                 "stepping has no stepsize",
		project("  tuningsets: [{name: a, pods: {rate_limit: {delay: -1}}}]"):                "want a whole number (of ms)",
		project("  tuningsets: [{name: a}, {name: a}]"):                                      `tuning set "a" is already defined at test.yaml:5`,
		project("  sync: {running: true, timeout: 5}"):                                       "want a time with its unit, such as 250ms, 10s or 2m",
		project("  inflight: 100000000"):                                                     "test.yaml:2: inflight: want 1 to 5,000, found 100,000,000",
		"ClusterLoader: {projects: [{num: 1, basename: " + strings.Repeat("a", 62) + "}]}":   "has 62 characters, at most 58 allowed",
		project("    pods: [{num: 1, basename: " + strings.Repeat("a", 62) + ", image: x}]"): "has 62 characters, at most 58 allowed",
		project("  rate: fast"):                                                              "want a rate such as",
		"ClusterLoader: {projects: [{num: 1, basename: a}, {num: 1, basename: a}]}":          `basename "a" is already used by the project at test.yaml:1`,
		"ClusterLoader: {projects: [{num: 1, basename: Big}]}":                               `"Big" cannot begin a namespace name`,
		"ClusterLoader: [": "test.yaml:1:",
	} {
		if strings.Contains(text, "pause: 1}}") {
			text = strings.Replace(text, "basename: p\n", "basename: p\n    tuning: a\n    pods: [{num: 1, basename: x, image: i}]\n", 1)
		}
		if _, err := ReadClusterLoader("test.yaml", []byte(text), files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	// Next to the file of the load is another place, or none.
	for file, want := range map[string]string{"test.yaml": "test.yaml:5: no.json not found", "dir/test.yaml": "dir/test.yaml:5: no.json and dir/no.json not found"} {
		if _, err := ReadClusterLoader(file, []byte(project("    templates: [{num: 1, file: no.json}]")), files); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestBuiltIn(t *testing.T) {
	l, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Stages) != 5 || !l.Cleanup || l.Format != "built-in" {
		t.Errorf("%+v", l)
	}
}

func FuzzClusterLoaderRead(f *testing.F) {
	text, err := os.ReadFile("testdata/source002.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("ClusterLoader: {projects: [{num: 1, basename: a, configmaps: &x [{a: pod.json}], secrets: *x, pods: [{num: 2, basename: b, file: pod.json, parameters: {MODE: }}], objects: [{num: 1, file: pod.json}]}]}"))
	files := from(map[string]string{"t.json": aTemplate, "pod.json": aPod, "cakephp-mysql.json": aTemplate})
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ReadClusterLoader("test.yaml", text, files)
		if err != nil {
			if !strings.Contains(err.Error(), "test.yaml") {
				t.Errorf("no file in: %v", err)
			}
			return
		}
		// It is kept as JSON, and read again as it was.
		kept, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var again plan.Load
		if err := json.Unmarshal(kept, &again); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTotal tests that an entry with only a total creates no pod, and that the numbers of the
// others are percentages of the total (openshift/svt, openshift_scalability/utils.py, pod_handler).
func TestTotal(t *testing.T) {
	for total, want := range map[string][]int{"100": {30, 40, 35}, "35": {10, 14, 12}, "0": {0, 0, 0}} {
		l, err := ReadClusterLoader("c.yaml", []byte("projects:\n- num: 2\n  basename: p\n  pods:\n  - total: "+total+"\n  - {num: 30, basename: a, image: i, storage: [{type: none}]}\n  - {num: 40, basename: b, image: i}\n  - {num: 35, basename: c, image: i}\n"), Files{Read: Here.Read})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, g := range l.Stages[0].Groups {
			got = append(got, g.Count)
		}
		if total != "0" && !slices.Equal(got, want) {
			t.Errorf("of %s: %v, want %v", total, got, want)
		}
	}
	for _, pods := range []string{"[{total: many}, {num: 1, basename: a, image: i}]", "[{num: 1, image: i, total: 3}]", "[{num: 1, basename: a, image: i}, {total: 3}]"} {
		if _, err := ReadClusterLoader("c.yaml", []byte("projects: [{num: 2, basename: p, pods: "+pods+"}]"), Files{Read: Here.Read}); err == nil {
			t.Errorf("%s is read", pods)
		}
	}
}
