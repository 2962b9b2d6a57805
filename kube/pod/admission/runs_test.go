package admission

import (
	"encoding/json"
	"fmt"
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
