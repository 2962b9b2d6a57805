package load

import (
	"strings"
	"testing"
)

// TestReadText tests that an error names the text, and what was found in it.
func TestReadText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "standard input is empty; want ",
		"hello":                           `standard input:1: want the top-level key ClusterLoader (with projects) or jobs (kube-burner), found "hello"`,
		"# a list\n- a":                   "standard input:2: want the top-level key ClusterLoader (with projects) or jobs (kube-burner), found a list",
		"kind: Pod":                       ": want the top-level key ClusterLoader (with projects) or jobs (kube-burner)",
		"jobs: [{name: a}]\nqps: 5":       `standard input:2: unknown field "qps": this field belongs below jobs[]`,
		"ClusterLoader: 5":                "standard input:1: ClusterLoader: want fields, found 5 (int)",
		"{\"ClusterLoader\": {\"a\": 1}}": `standard input:1: ClusterLoader: unknown field "a"`,
	} {
		if _, err := ReadText("standard input", []byte(text), ReadOptions{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if l, err := ReadText("standard input", []byte("ClusterLoader: {projects: [{num: 1, basename: p}]}"), ReadOptions{}); err != nil || l.File != "standard input" || len(l.Stages) != 1 {
		t.Errorf("%+v %v", l, err)
	}
}

// TestOtherLoader tests that files of ClusterLoader2 are recognized as such, with and without its
// functions, and with comments that name other loaders. Files of kube-burner and Cluster Loader are
// not.
func TestOtherLoader(t *testing.T) {
	for text, other := range map[string]bool{
		"{{$n := DefaultParam .N 2}}\nname: t\nsteps: []":                    true,
		"# ClusterLoader2 configuration\n{{$n := MultiplyInt 2 3}}\nname: t": true,
		"name: t\nnamespace: {number: 1}\ntuningSets: []\nsteps:\n- name: a": true,
		"# used by ClusterLoader: 2\nsteps:\n- module: {path: x.yaml}":       true,
		"{{if IncludeFile \"x\"}}{{end}}a: 1":                                true,
		"jobs: [{name: '{{ .MaxInt }}', steps: 1}]":                          false,
		"jobs: [{name: a, namespace: n, objects: []}]\nsteps: []":            false,
		"ClusterLoader:\n  projects: [{num: 1, basename: p}]":                false,
		"jobs: [{name: '{{ \"RandInt\" }}', namespace: n, objects: []}]":     false,
	} {
		_, err := ReadText("f", []byte(text), ReadOptions{})
		if got := err != nil && strings.Contains(err.Error(), ": ClusterLoader2 (kubernetes/perf-tests) is not supported; use OpenShift's ClusterLoader (with projects) or kube-burner jobs, or write a load like a cluster with kubectl fettle load mirror --write DIR"); got != other {
			t.Errorf("%s\n%v", text, err)
		}
	}
}
