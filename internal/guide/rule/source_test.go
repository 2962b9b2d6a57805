package rule

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/rules"
)

// TestSources holds the table of documents against the rules and the code that cite them.
func TestSources(t *testing.T) {
	text, err := rules.FS.ReadFile(sourcesFile)
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]document{}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&table); err != nil {
		t.Fatal(err)
	}
	titles := map[string]string{}
	for key, d := range table {
		if d.Title == "" || titles[d.Title] != "" {
			t.Errorf("%s: title %q: want one of its own (%s)", key, d.Title, titles[d.Title])
		}
		titles[d.Title] = key
		if d.URL != "" && !strings.HasPrefix(d.URL, "https://") {
			t.Errorf("%s: url %q", key, d.URL)
		}
	}
	cited := map[string]bool{}
	cites := func(file string, form *regexp.Regexp) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range form.FindAllStringSubmatch(string(text), -1) {
			key := strings.Trim(m[1], `"`)
			cited[key] = true
			if table[key].Title == "" {
				t.Errorf("%s cites %q, which is not in rules/%s", file, key, sourcesFile)
			}
		}
	}
	root := filepath.Join("..", "..", "..")
	files, _ := filepath.Glob(filepath.Join(root, "rules", "*.yaml"))
	if len(files) < 20 {
		t.Fatalf("%d files of rules", len(files))
	}
	for _, file := range files {
		cites(file, regexp.MustCompile(`document: ("[^"]*"|[^,}\n]*)`))
	}
	for _, dir := range []string{"internal", "kube"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				cites(path, regexp.MustCompile(`rule\.Cite\("([^"]*)"`))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for key := range table {
		if !cited[key] {
			t.Errorf("rules/%s: nothing cites %s", sourcesFile, key)
		}
	}
}

func TestSourceWords(t *testing.T) {
	s := Cite("satellite-tuning", "5.2.4")
	if s := Cite("linux", "Documentation/admin-guide/cgroup-v2.rst; oom_kill"); s.URL != "https://docs.kernel.org/admin-guide/cgroup-v2.html" {
		t.Errorf("%s", s.URL)
	}
	if s.String() != "Satellite 6.12 Tuning Guide, 5.2.4" || !strings.HasPrefix(s.URL, "https://docs.redhat.com/") {
		t.Errorf("%s <%s>", s, s.URL)
	}
	own := Cite("our handbook", "4.2")
	own.Says = "128"
	if got := SourceWords([]Source{s, own}); got != "Satellite 6.12 Tuning Guide, 5.2.4; our handbook, 4.2 (says 128)" {
		t.Error(got)
	}
}
