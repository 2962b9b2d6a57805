package clusterloader

import (
	"strings"
	"testing"
)

// TestNoFile: a file that is looked for in two places which are one is named once.
func TestNoFile(t *testing.T) {
	const text = "ClusterLoader:\n  projects:\n  - num: 1\n    basename: p\n    templates: [{num: 1, file: no.json}]\n"
	for name, want := range map[string]string{"test.yaml": "there is no file no.json", "./test.yaml": "there is no file no.json", "dir/test.yaml": "there is no file no.json, nor dir/no.json"} {
		if _, err := Read(name, []byte(text), from(nil)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q at the end", name, err, want)
		}
	}
}
