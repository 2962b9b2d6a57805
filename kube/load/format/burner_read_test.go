package format

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/kube/load/plan"
)

func read(text string) (notes []string, err error) {
	l, err := ReadKubeBurner("dir/c.yml", []byte(text), Options{Read: files})
	if err != nil {
		return nil, err
	}
	return l.Notes, nil
}

func files(name string) ([]byte, error) {
	text, ok := map[string]string{
		"dir/t/pod.yml":    "apiVersion: v1\nkind: Pod\nmetadata: {name: 'p-{{.Replica}}'}\n",
		"dir/t/patch.json": `[{"op":"add","path":"/metadata/labels/a","value":"b{{.Iteration}}"}]`,
		"dir/t/patch.yml":  "kind: Pod\napiVersion: v1\nmetadata: {labels: {a: '{{.Iteration}}'}}\n",
		"dir/t/env.yml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'p-{{.Replica}}'}\ndata: {a: '{{env \"A\"}}', f: {{ReadFile .from | quote}}, t: '{{template \"t\" .}}'}\n",
		"dir/t/a.tpl":      `{{define "t"}}helped {{.Replica}}{{end}}`,
		"dir/t/text":       "content",
		"vars.yml":         "N: 3\nNAME: own\nDEEP: {LIST: [1, 2.5]}\n",
	}[name]
	if ok {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// sample has the shape of kube-burner's own examples.
const sample = `global:
  gc: true
  requestTimeout: 60s
  measurements:
  - {name: podLatency, thresholds: [{conditionType: Ready, metric: P99, threshold: 2s}, {conditionType: Initialized, metric: P99, threshold: 2s}]}
  - name: serviceLatency
metricsEndpoints: []
jobs:
- name: density
  jobIterations: 6
  iterationsPerNamespace: 4
  qps: 20
  burst: 20
  namespacedIterations: true
  namespace: density
  podWait: false
  waitWhenFinished: true
  maxWaitTimeout: 2m
  jobPause: 10s
  jobIterationDelay: 250ms
  cleanup: true
  preLoadImages: false
  namespaceLabels: {team: a}
  objects:
  - objectTemplate: t/pod.yml
    replicas: 3
    inputVars: {image: pause, size: 7}
- name: two
  jobIterations: 8
  namespace: one
  namespacedIterations: false
  waitWhenFinished: false
  churnConfig: {percent: 10}
  objects:
  - objectTemplate: t/pod.yml
  - {objectTemplate: t/pod.yml, repeatEveryNIterations: 4, wait: false}
  - {objectTemplate: t/pod.yml, runOnce: true}
  - {objectTemplate: t/pod.yml, replicas: 0}
`

func TestRead(t *testing.T) {
	l, err := ReadKubeBurner("dir/c.yml", []byte(sample), Options{Read: files})
	if err != nil {
		t.Fatal(err)
	}
	s := l.Stages[0]
	if s.Namespaces() != 2 || s.Prefix != "density-" || s.Iterations != 6 || s.PerNamespace != 4 || s.Rate != 20 || s.Wait != 2*time.Minute || s.WaitEach != 0 ||
		s.After != 10*time.Second || s.Between != 250*time.Millisecond || s.Labels["team"] != "a" || s.Groups[0].Count != 3 || s.Groups[0].Name != "density" || string(s.Groups[0].Variables) != `{"image":"pause","size":7}` {
		t.Errorf("%+v", s)
	}
	if s := l.Stages[1]; s.Namespaces() != 1 || !s.Single || s.Prefix != "one" || s.Iterations != 8 || s.Rate != defaultQPS || s.Wait != 0 || len(s.Groups) != 3 || s.Groups[0].Count != 1 || s.Groups[0].Every > 1 || s.Groups[0].NoWait {
		t.Errorf("%+v", s)
	}
	made := []int{0, 0, 0}
	for i := range 8 {
		for g := range made {
			if l.Stages[1].Groups[g].Made(i) {
				made[g]++
			}
		}
	}
	if made[0] != 8 || made[1] != 2 || made[2] != 1 || !l.Stages[1].Groups[1].NoWait {
		t.Errorf("%v", made)
	}
	if !l.Cleanup || len(l.Gates) != 1 || l.Gates[0].Text != "ready p99 <= 2s" || l.Wait != 0 {
		t.Errorf("%v %+v", l.Cleanup, l.Gates)
	}
	// requestTimeout, the other threshold, serviceLatency, metricsEndpoints, cleanup, no qps,
	// no replicas
	if len(l.Notes) != 7 {
		t.Errorf("%q", l.Notes)
	}
	l, err = ReadKubeBurner("dir/c.yml", []byte(strings.Replace(sample, "gc: true", "waitWhenFinished: true", 1)), Options{Read: files})
	if err != nil || l.Cleanup || l.Wait != burnerDefaultWait || l.Stages[0].Wait != 0 {
		t.Errorf("%v %+v", err, l)
	}
}

func TestBurnerMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"jobs: []": " contains no jobs",
		"jobs: [{name: a, namespace: n, churnConfig: {cycles: 2}, objects: [{objectTemplate: t/pod.yml}]}]":                                                                                         ": churn is not supported; remove it, and use kubectl fettle load undo and run instead",
		"jobs: [{name: a, namespace: n, incrementalLoad: {startIterations: 2}, objects: [{objectTemplate: t/pod.yml}]}]":                                                                            ": incrementalLoad is not supported; remove it, and use podWait: true with waitWhenFinished: false and jobIterationDelay, or one job per step with its own namespace",
		"jobs: [{name: a, namespace: n, objects: [{objectTemplate: t/pod.yml, group: {id: 1}}]}]":                                                                                                   ": group is not supported, objects are created in order; remove it, or use one job per group",
		"{global: {functionTemplates: [x.tpl]}, jobs: [{name: a, namespace: n, objects: [{objectTemplate: t/pod.yml}]}]}":                                                                           "x.tpl not found",
		"{global: {measurements: [{name: podLatency, thresholds: [{conditionType: Ready, metric: P98, threshold: 2s}]}]}, jobs: [{name: a, namespace: n, objects: [{objectTemplate: t/pod.yml}]}]}": "want P50, P95, P99, Max or Avg",
		"jobs: [{name: a, namespace: n, churn: true, objects: [{objectTemplate: t/pod.yml}]}]":                                                                                                      ": churn is not supported; remove it, and use kubectl fettle load undo and run instead",
		"jobs: [{name: a, namespace: n, objects: [{objectTemplate: no.yml}]}]":                                                                                                                      "no.yml not found in the working directory or next to dir/c.yml",
		"jobs: [{name: a, namespace: n, objects: [{objectTemplate: 'https://x/y'}]}]":                                                                                                               "templates can only be read from files",
		"jobs: [{name: A_b, namespace: n, objects: [{objectTemplate: t/pod.yml}]}]":                                                                                                                 "want at most 63 lowercase letters, digits, - and .",
		"jobs: [{name: a, namespace: n, objects: [{objectTemplate: t/pod.yml}]}, {name: a, namespace: m, objects: [{objectTemplate: t/pod.yml}]}]":                                                  "duplicate name; the other job is at dir/c.yml:1",
		"jobs: [{name: a, namespace: n, iterations: 3, objects: []}]":                                                                                                                               `unknown field "iterations"`,
		"jobs: [{name: a, namespace: n, qps: -1, objects: [{objectTemplate: t/pod.yml}]}]":                                                                                                          "want a number of 0 or more",
		"jobs: [{name: a, namespace: n, jobIterations: 0, objects: [{objectTemplate: t/pod.yml}]}]":                                                                                                 "want a whole number of 1 or more",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestOtherWork tests that work of kube-burner's jobs other than creating objects is an error with
// its position, its name and the advice, and that such a job causes no further error.
func TestOtherWork(t *testing.T) {
	const head = "jobs:\n- name: a\n  namespace: n\n  objects: [{objectTemplate: t/pod.yml}]\n"
	const churn = ": churn is not supported; remove it, and use kubectl fettle load undo and run instead"
	for text, want := range map[string]string{
		head + "- name: b\n  jobType: delete\n  objects: [{kind: Pod}]\n":                                                                                                                      "dir/c.yml:7: job b: an object has no labelSelector",
		head + "- name: b\n  jobType: delete\n  objects: [{labelSelector: {a: b}}]\n":                                                                                                          "dir/c.yml:7: job b: an object has no kind",
		head + "- name: b\n  jobType: patch\n  objects: [{kind: Pod, labelSelector: {a: b}, patchType: json}]\n":                                                                               `patchType: want application/json-patch+json`,
		head + "- name: b\n  jobType: patch\n  objects: [{kind: Pod, labelSelector: {a: b}, patchType: application/apply-patch+yaml, objectTemplate: t/patch.json}]\n":                         "a JSON template needs one of the patchTypes",
		head + "- name: b\n  jobType: patch\n  objects: [{kind: Pod, labelSelector: {a: b}, patchType: application/json-patch+json, objectTemplate: t/patch.yml}]\n":                           "a YAML template needs one of",
		head + "- name: b\n  jobType: patch\n  executionMode: serial\n  objects: [{kind: Pod, labelSelector: {a: b}, patchType: application/merge-patch+json, objectTemplate: t/patch.yml}]\n": `executionMode: want parallel or sequential, found "serial"`,
		head + "- name: b\n  jobType: kubevirt\n  objects: [{kubeVirtOp: start}]\n":                                                                                                            "dir/c.yml:6: job b: jobType kubevirt is not supported (only create, patch, delete and read); remove the job: the objects of a run have the label fettle.dev/load-run, by which virtctl can select them",
		head + "  jobType: creat\n":                               `dir/c.yml:5: job a: jobType: want create, patch, delete or read, found "creat" (did you mean "create"?)`,
		head + "  churn: true\n  churnCycles: 2\n":                "dir/c.yml:5: job a: churn" + churn,
		head + "  churnConfig:\n    percent: 10\n    cycles: 2\n": "dir/c.yml:7: job a: churnConfig.cycles" + churn,
		head + "  churnConfig: {percent: 10, duration: 2h}\n":     "dir/c.yml:5: job a: churnConfig.duration" + churn,
		head + "  churnConfig: &x {cycles: 0, duration: 1m}\n- name: b\n  namespace: m\n  objects: [{objectTemplate: t/pod.yml}]\n  churnConfig: *x\n": "dir/c.yml:5: job a: churnConfig.duration" + churn + "\ndir/c.yml:5: job b: churnConfig.duration" + churn,
		head + "  incrementalLoad:\n    startIterations: 2\n":                                                              "dir/c.yml:5: job a: incrementalLoad is not supported; remove it, and use podWait: true with waitWhenFinished: false and jobIterationDelay, or one job per step with its own namespace",
		head[:len(head)-1] + "\n  jobType: create\n  churn: false\n  churnConfig: {cycles: 0, duration: 0s, percent: 5}\n": "",
	} {
		_, err := read(text)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s\n%v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestVariables tests that the user's file has types and overrides the environment, and that UUID
// is the same in the configuration and in templates.
func TestVariables(t *testing.T) {
	const text = "jobs:\n- name: {{.NAME}}-{{.UUID}}\n  namespace: n\n  jobIterations: {{if ne .N 0}}{{add .N (len .DEEP.LIST)}}{{end}}\n  objects: [{objectTemplate: t/pod.yml, replicas: {{.R}}}]\n"
	o := Options{Read: files, Env: []string{"R=2", "NAME=environment"}, UserData: "vars.yml", UUID: "1-2", Set: []string{"jobs.0.qps=7", "jobs.0.objects.0.replicas=5", "global.gc=true", "jobs.0.namespaceLabels.a=b"}}
	l, err := ReadKubeBurner("dir/c.yml", []byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	s := l.Stages[0]
	if s.Name != "own-1-2" || s.Iterations != 5 || s.Groups[0].Count != 5 || s.Rate != 7 || !l.Cleanup || s.Labels["a"] != "b" || l.UUID != "1-2" {
		t.Errorf("%+v", l)
	}
	if l, err := ReadKubeBurner("dir/c.yml", []byte("jobs: [{name: 'a-{{.UUID}}', namespace: n, objects: [{objectTemplate: t/pod.yml}]}]"), Options{Read: files}); err != nil || l.Stages[0].Name != "a-"+l.UUID || len(l.UUID) != 36 {
		t.Errorf("%+v %v", l, err)
	}
	for text, want := range map[string]struct {
		o    Options
		says string
		not  string
	}{
		"a: 1\njobs: {{.NO}}":             {Options{}, "c.yml:2:", "environment variables are strings"},
		"jobs: {{.NO}}":                   {Options{}, "NO=VALUE kubectl fettle load", ""},
		"{{if ne .N 0}}{{end}}jobs: []":   {Options{Env: []string{"N=1"}}, "use --user-data FILE for other types", "not in the environment"},
		"jobs: {{noSuch .N}}":             {Options{Env: []string{"N=1"}}, `function "noSuch" not defined`, "not in the environment"},
		"jobs: [{name: '{{randint 1 2}}'": {Options{}, `did you mean "randInt"?`, ""},
		"jobs: {{getHostByName .N}}":      {Options{Env: []string{"N=1"}}, "a plan does not use the network", ""},
		"jobs: [{x: {{.A}}}]":             {Options{UserData: "no.yml"}, "--user-data: ", ""},
		"jobs: [{name: a}]":               {Options{Set: []string{"jobs.3.name=b"}}, "want a number below 1", ""},
		"jobs: [{name: b}]":               {Options{Set: []string{"x"}}, "want KEY=VALUE", ""},
	} {
		want.o.Read = files
		_, err := ReadKubeBurner("c.yml", []byte(text), want.o)
		if err == nil || !strings.Contains(err.Error(), want.says) || want.not != "" && strings.Contains(err.Error(), want.not) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ReadKubeBurner("dir/c.yml", []byte("jobs: [{name: a, namespace: '{{.NO}}n', objects: [{objectTemplate: t/pod.yml}]}]"), Options{Read: files, AllowMissing: true}); err != nil {
		t.Errorf("missing allowed: %v", err)
	}
}

// TestWaits tests that global.waitWhenFinished overrides the job's, and that the job's overrides
// podWait.
func TestWaits(t *testing.T) {
	for fields, want := range map[string][3]time.Duration{ // each iteration, stage, load
		"":                                       {0, burnerDefaultWait, 0},
		"podWait: true":                          {0, burnerDefaultWait, 0},
		"podWait: true, waitWhenFinished: true":  {0, burnerDefaultWait, 0},
		"podWait: true, waitWhenFinished: false": {burnerDefaultWait, 0, 0},
		"waitWhenFinished: false":                {0, 0, 0},
		"waitWhenFinished: true, maxWaitTimeout: 1m": {0, time.Minute, 0},
		"podWait: true, waitWhenFinished: false #":   {0, 0, burnerDefaultWait},
		"podWait: true #": {0, 0, burnerDefaultWait},
	} {
		fields, global, _ := strings.Cut(fields, "#")
		text := "jobs: [{name: a, namespace: n, objects: [{objectTemplate: t/pod.yml}], " + fields + "}]\n"
		if strings.HasSuffix(fields, " ") && global == "" && want[2] > 0 {
			text += "global: {waitWhenFinished: true}\n"
		}
		l, err := ReadKubeBurner("dir/c.yml", []byte(text), Options{Read: files})
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]time.Duration{l.Stages[0].WaitEach, l.Stages[0].Wait, l.Wait}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestActions tests the fields of patch, delete and read jobs.
func TestActions(t *testing.T) {
	const text = `jobs:
- {name: a, namespace: n, objects: [{objectTemplate: t/pod.yml}], preLoadImages: false, qps: 1}
- {name: p, jobType: patch, jobIterations: 3, qps: 9, objects: [{kind: Pod, labelSelector: {kube-burner.io/job: a}, patchType: application/json-patch+json, objectTemplate: t/patch.json}]}
- {name: s, jobType: patch, executionMode: sequential, objectDelay: 2s, qps: 9, objects: [{kind: Pod, labelSelector: {b: c}, patchType: application/apply-patch+yaml, objectTemplate: t/patch.yml, wait: false}], waitWhenFinished: false}
- {name: r, jobType: read, jobIterations: 2, qps: 9, objects: [{kind: Deployment, apiVersion: apps/v1, labelSelector: {b: c}}]}
- {name: d, jobType: delete, jobIterations: 7, qps: 9, objects: [{kind: Pod, labelSelector: {b: c}}]}
- {name: k, jobType: delete, waitForDeletion: false, qps: 9, objects: [{kind: Pod, labelSelector: {b: c}}]}
`
	l, err := ReadKubeBurner("dir/c.yml", []byte(text), Options{Read: files})
	if err != nil || len(l.Notes) != 0 || len(l.Unread) != 0 {
		t.Fatalf("%v %q %+v", err, l.Notes, l.Unread)
	}
	p, s, r, d, k := l.Stages[1], l.Stages[2], l.Stages[3], l.Stages[4], l.Stages[5]
	if a := p.Actions[0]; !p.Parallel || p.Iterations != 3 || p.Wait != burnerDefaultWait || a.Do != plan.Patch || !a.JSON || a.APIVersion != "v1" || a.Labels["kube-burner.io/job"] != "a" || a.File != "dir/t/patch.json" {
		t.Errorf("%+v", p)
	}
	if a := s.Actions[0]; s.Parallel || s.Wait != 0 || a.After != 2*time.Second || a.JSON || !a.NoWait {
		t.Errorf("%+v", s)
	}
	if a := r.Actions[0]; r.Parallel || r.Iterations != 2 || a.Do != plan.Get || a.APIVersion != "apps/v1" || a.Gone != 0 {
		t.Errorf("%+v", r)
	}
	if a := d.Actions[0]; d.Iterations != 1 || d.Wait != 0 || a.Do != plan.Remove || a.Gone != burnerDefaultWait {
		t.Errorf("%+v", d)
	}
	if a := k.Actions[0]; a.Gone != 0 {
		t.Errorf("%+v", k)
	}
}

// TestUnread tests that an unsupported field that would change the load is distinguished from one
// that is only noted.
func TestUnread(t *testing.T) {
	const text = `jobs:
- name: a
  namespace: n
  hooks: [{cmd: ["true"], when: beforeDeployment}]
  watchers: [{kind: Pod}]
  objects:
  - {objectTemplate: t/pod.yml, waitOptions: {customStatusPaths: [{key: x, value: y}]}}
  - {objectTemplate: t/pod.yml, wait: false, waitOptions: {kind: Pod}}
- {name: b, namespace: n, hooks: [], watchers: , objects: [{objectTemplate: t/pod.yml, waitOptions: {}}]}
`
	l, err := ReadKubeBurner("dir/c.yml", []byte(text), Options{Read: files})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range l.Unread {
		got = append(got, u.At+" "+u.Field)
	}
	if want := "dir/c.yml:4 hooks,dir/c.yml:5 watchers,dir/c.yml:7 waitOptions"; strings.Join(got, ",") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

// TestInputs tests that the environment variables and files that templates read are stored with the
// load.
func TestInputs(t *testing.T) {
	const text = "global: {functionTemplates: [t/a.tpl]}\njobs: [{name: a, namespace: n, objects: [{objectTemplate: t/env.yml, inputVars: {from: %s}}]}]\n"
	read := func(from string) (*plan.Load, error) {
		return ReadKubeBurner("dir/c.yml", []byte(strings.ReplaceAll(text, "%s", from)), Options{Read: files, Env: []string{"A=1", "OTHER=secret"}})
	}
	l, err := read("t/text")
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Env) != 1 || l.Env["A"] != "1" || len(l.Files) != 1 || l.Files["t/text"] != "content" {
		t.Errorf("%v %v", l.Env, l.Files)
	}
	p, err := plan.Compile(t.Context(), l, "run", nil)
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ Data map[string]string }
	if err := json.Unmarshal(p.Body(1), &o); err != nil || o.Data["a"] != "1" || o.Data["f"] != "content" || o.Data["t"] != "helped 1" {
		t.Errorf("%v %v", o, err)
	}
	for from, want := range map[string]string{"/etc/passwd": "copy the file there", "../x": "copy the file there", "t/no": "t/no not found"} {
		if _, err := read(from); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", from, err)
		}
	}
}

func FuzzBurnerRead(f *testing.F) {
	f.Add([]byte(sample))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = read(string(text)) })
}

// TestIterationsOfOneNamespace tests that namespacedIterations: false also applies without a
// namespace.
func TestIterationsOfOneNamespace(t *testing.T) {
	for fields, want := range map[string]plan.Stage{
		"":                            {},
		"namespace: n":                {Prefix: "n-"},
		"namespacedIterations: false": {Single: true},
		"namespacedIterations: true":  {},
		"namespacedIterations: null":  {},
		"namespace: n, namespacedIterations: false": {Prefix: "n", Single: true},
	} {
		l, err := ReadKubeBurner("dir/c.yml", []byte("jobs: [{name: a, objects: [{objectTemplate: t/pod.yml}], "+fields+"}]\n"), Options{Read: files})
		if err != nil {
			t.Fatal(err)
		}
		if s := l.Stages[0]; s.Prefix != want.Prefix || s.Single != want.Single {
			t.Errorf("%s: %q %t", fields, s.Prefix, s.Single)
		}
	}
}
