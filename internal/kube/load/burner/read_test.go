package burner

import (
	"io/fs"
	"strings"
	"testing"
	"time"
)

func read(text string) (notes []string, err error) {
	l, err := Read("dir/c.yml", []byte(text), Files{Read: files})
	if err != nil {
		return nil, err
	}
	return l.Notes, nil
}

func files(name string) ([]byte, error) {
	if name == "dir/t/pod.yml" {
		return []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: 'p-{{.Replica}}'}\n"), nil
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
	l, err := Read("dir/c.yml", []byte(sample), Files{Read: files})
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
	// requestTimeout, the other threshold, serviceLatency, metricsEndpoints, cleanup,
	// preLoadImages, no qps, no replicas
	if len(l.Notes) != 8 {
		t.Errorf("%q", l.Notes)
	}
	l, err = Read("dir/c.yml", []byte(strings.Replace(sample, "gc: true", "waitWhenFinished: true", 1)), Files{Read: files})
	if err != nil || l.Cleanup || l.Wait != defaultWait || l.Stages[0].Wait != 0 {
		t.Errorf("%v %+v", err, l)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"jobs: []": "there are no jobs",
		"jobs: [{name: a, namespace: n, churnConfig: {cycles: 2}, objects: [{objectTemplate: t/pod.yml}]}]":                                                                                         "churn is not read here",
		"jobs: [{name: a, namespace: n, incrementalLoad: {startIterations: 2}, objects: [{objectTemplate: t/pod.yml}]}]":                                                                            "incrementalLoad is not read here",
		"jobs: [{name: a, namespace: n, objects: [{objectTemplate: t/pod.yml, group: {id: 1}}]}]":                                                                                                   "group is not read here",
		"{global: {functionTemplates: [x.tpl]}, jobs: [{name: a, namespace: n, objects: [{objectTemplate: t/pod.yml}]}]}":                                                                           "functionTemplates are not read here",
		"{global: {measurements: [{name: podLatency, thresholds: [{conditionType: Ready, metric: P98, threshold: 2s}]}]}, jobs: [{name: a, namespace: n, objects: [{objectTemplate: t/pod.yml}]}]}": "want P50, P95, P99, Max or Avg",
		"jobs: [{name: a, namespace: n, churn: true, objects: [{objectTemplate: t/pod.yml}]}]":                                                                                                      "churn is not read here",
		"jobs: [{name: a, namespace: n, objects: [{objectTemplate: no.yml}]}]":                                                                                                                      "there is no file no.yml, neither here nor beside dir/c.yml",
		"jobs: [{name: a, namespace: n, objects: [{objectTemplate: 'https://x/y'}]}]":                                                                                                               "templates are read from files only",
		"jobs: [{name: a, namespace: n, iterations: 3, objects: []}]":                                                                                                                               `there is no field "iterations"`,
		"jobs: [{name: a, namespace: n, qps: -1, objects: [{objectTemplate: t/pod.yml}]}]":                                                                                                          "want a number of 0 or more",
		"jobs: [{name: a, namespace: n, jobIterations: 0, objects: [{objectTemplate: t/pod.yml}]}]":                                                                                                 "want a whole number of 1 or more",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestOtherWork: what kube-burner's jobs do beside the creation of objects is an error that
// says where it stands, what it is, and what to do; of a job of another sort nothing else is
// told.
func TestOtherWork(t *testing.T) {
	const head = "jobs:\n- name: a\n  namespace: n\n  objects: [{objectTemplate: t/pod.yml}]\n"
	const churn = ": churn is not read here; take it out: kubectl fettle load undo, and run again, make all of it anew"
	for text, want := range map[string]string{
		head + "- name: b\n  jobType: delete\n  objects: [{kind: Pod, labelSelector: {a: b}}]\n":  "dir/c.yml:6: job b: jobType delete: only create jobs are read; take the job out: gc: true in global removes everything at the end, kubectl fettle load undo at any time",
		head + "- name: b\n  jobType: patch\n  objects: [{kind: Pod, objectTemplate: no.json}]\n": "dir/c.yml:6: job b: jobType patch: only create jobs are read; take the job out: what a run has made has the label fettle.dev/load-run, by which something else can patch it",
		head + "- name: b\n  jobType: read\n  objects: [{kind: Pod}]\n":                           "dir/c.yml:6: job b: jobType read: only create jobs are read; take the job out: kubectl get -l fettle.dev/load-run reads what runs have made",
		head + "- name: b\n  jobType: kubevirt\n  objects: [{kubeVirtOp: start}]\n":               "dir/c.yml:6: job b: jobType kubevirt: only create jobs are read; take the job out: what a run has made has the label fettle.dev/load-run, by which virtctl can be told of it",
		head + "  jobType: creat\n":                               `dir/c.yml:5: job a: jobType: want create, found "creat" (did you mean "create"?)`,
		head + "  churn: true\n  churnCycles: 2\n":                "dir/c.yml:5: job a: churn" + churn,
		head + "  churnConfig:\n    percent: 10\n    cycles: 2\n": "dir/c.yml:7: job a: churnConfig.cycles" + churn,
		head + "  churnConfig: {percent: 10, duration: 2h}\n":     "dir/c.yml:5: job a: churnConfig.duration" + churn,
		head + "  churnConfig: &x {cycles: 0, duration: 1m}\n- name: b\n  namespace: m\n  objects: [{objectTemplate: t/pod.yml}]\n  churnConfig: *x\n": "dir/c.yml:5: job a: churnConfig.duration" + churn + "\ndir/c.yml:5: job b: churnConfig.duration" + churn,
		head + "  incrementalLoad:\n    startIterations: 2\n":                                                              "dir/c.yml:5: job a: incrementalLoad is not read here; take it out: podWait: true waits after each iteration and jobIterationDelay pauses, or make a job of each step, with a namespace of its own",
		head[:len(head)-1] + "\n  jobType: create\n  churn: false\n  churnConfig: {cycles: 0, duration: 0s, percent: 5}\n": "",
	} {
		_, err := read(text)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s\n%v", text, err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestExpand(t *testing.T) {
	text, err := Expand("c.yml", []byte("jobs: {{.COUNT}}"), []string{"COUNT=3"})
	if err != nil || string(text) != "jobs: 3" {
		t.Errorf("%s %v", text, err)
	}
	if _, err := Expand("c.yml", []byte("a\njobs: {{.NO}}"), nil); err == nil || !strings.Contains(err.Error(), "c.yml:2:") || !strings.Contains(err.Error(), "no such variable") {
		t.Errorf("%v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(sample))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = read(string(text)) })
}
