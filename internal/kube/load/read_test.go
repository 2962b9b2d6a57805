package load

import (
	"strings"
	"testing"
)

// TestReadText: what a text is named by stands in the message, with what was found.
func TestReadText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "standard input: want one document, found 0",
		"hello":                           `standard input:1: want ClusterLoader (with projects) or kube-burner's jobs at the top, found "hello"`,
		"# a list\n- a":                   "standard input:2: want ClusterLoader (with projects) or kube-burner's jobs at the top, found a list",
		"kind: Pod":                       "kube-burner's jobs at the top",
		"jobs: [{name: a}]\nqps: 5":       `standard input:2: there is no field "qps": it belongs below jobs[]`,
		"ClusterLoader: 5":                "standard input:1: ClusterLoader: want fields, found 5 (int)",
		"{\"ClusterLoader\": {\"a\": 1}}": `standard input:1: ClusterLoader: there is no field "a"`,
	} {
		if _, err := ReadText("standard input", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if l, err := ReadText("standard input", []byte("ClusterLoader: {projects: [{num: 1, basename: p}]}")); err != nil || l.File != "standard input" || len(l.Stages) != 1 {
		t.Errorf("%+v %v", l, err)
	}
}
