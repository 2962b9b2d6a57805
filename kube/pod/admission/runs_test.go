package admission

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestRunsPage holds the page that says which releases were run how against the records of
// the runs (test/admission/run), the releases whose types are read, and the versions of
// OpenShift.
func TestRunsPage(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(root.Module(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var runs []struct {
		Release, Module, Date string
		Compared              map[string]int
	}
	if err := json.Unmarshal(read("test/admission/runs.json"), &runs); err != nil {
		t.Fatal(err)
	}
	openshift := map[string]string{}
	for minor := 16; minor <= 22; minor++ {
		version := fmt.Sprintf("4.%d", minor)
		r, ok := kuberelease.OfOpenShift(version)
		if !ok {
			t.Fatalf("OpenShift %s is not known", version)
		}
		openshift[r.String()] = version
	}
	types := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^release (\S+) v(\S+) `).FindAllStringSubmatch(string(read("internal/kuberelease/releases.txt")), -1) {
		types[m[1]] = m[2]
	}
	var table strings.Builder
	table.WriteString("| Kubernetes | OpenShift | types of | run | machines | pods | day |\n|---|---|---|---|---|---|---|\n")
	for r := Oldest; r <= Newest; r++ {
		name := r.String()
		if types[name] == "" {
			t.Errorf("%s has no types in releases.txt", name)
		}
		version, machines, pods, day := "only read", "", "", ""
		for _, run := range runs {
			if run.Release == name {
				_, version, _ = strings.Cut(run.Module, " v")
				machines, pods, day = fmt.Sprint(run.Compared["machines"]), fmt.Sprint(run.Compared["pods"]), run.Date
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s | %s |\n", name, openshift[name], types[name], version, machines, pods, day)
	}
	for line := range strings.Lines(table.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	root.Manual(t, "158-kubernetes-releases.md", root.Generated{Name: "releases", Text: table.String()})
}

// TestOverlay holds the files that test/admission replaces for the API of Kubernetes before
// 1.34: each exists and declares what its replacement declares. Otherwise the releases before
// 1.34 do not compile, which shows only when one of them is run.
func TestOverlay(t *testing.T) {
	dir := filepath.Join(root.Module(t), "test/admission")
	text, err := os.ReadFile(filepath.Join(dir, "testdata/overlay.json"))
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		t.Fatal(err)
	}
	if len(overlay.Replace) == 0 {
		t.Error("overlay.json replaces nothing")
	}
	for file, by := range overlay.Replace {
		has := functions(t, filepath.Join(dir, file))
		for name := range functions(t, filepath.Join(dir, by)) {
			if !has[name] {
				t.Errorf("%s declares %s, and %s does not", by, name, file)
			}
		}
	}
}

// functions returns the names of the functions that a Go file declares.
func functions(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
		}
	}
	return names
}
