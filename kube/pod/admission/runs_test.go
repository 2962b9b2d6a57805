package admission

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/kuberelease"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestRunsPage compares the page about the tested releases with the records of the runs
// (test/admission/run, test/cluster), the releases whose types are read, and the versions of
// OpenShift.
func TestRunsPage(t *testing.T) {
	parts := []root.Generated{
		{Name: "releases", Text: releasesTable(t)},
		{Name: "cluster", Text: clusterTable(t)},
	}
	for _, part := range parts {
		for line := range strings.Lines(part.Text) {
			if len(line) > 81 {
				t.Errorf("%d columns: %s", len(line)-1, line)
			}
		}
	}
	root.Manual(t, "kubernetes-releases.md", parts...)
}

// recorded reads a file of the repository, as JSON unless into is nil.
func recorded(t *testing.T, name string, into any) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root.Module(t), name))
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// releasesTable lists the knowledge about each release, and the managers that were run.
func releasesTable(t *testing.T) string {
	var runs []struct {
		Release, Module, Date string
		Compared              map[string]int
	}
	recorded(t, "test/admission/runs.json", &runs)
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
	for _, m := range regexp.MustCompile(`(?m)^release (\S+) v(\S+) `).FindAllStringSubmatch(recorded(t, "internal/kuberelease/releases.txt", nil), -1) {
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
	return table.String()
}

// subjects are the tests of test/cluster with their subjects; the manual lists only those in
// runs.json.
var subjects = []struct{ what, tests string }{
	{"installation, removal", "TestDeploy TestUninstall TestRemovalWarns TestContainerfile TestKustomize TestHelm TestHelmNode"},
	{"operator", "TestOperator TestOperatorMany TestNulls"},
	{"agent", "TestAgent TestAgentPod TestAgentReboot TestTuning TestSource002"},
	{"settings of kubelets", "TestKubeletRollout TestKubeletManagers TestKubeletDeployed TestKubeletSettings TestKubeletKilled TestKubeletEnds TestKubeletPlan TestKubeletRival TestKubeletPools TestKubeletPoolsMany"},
	{"pods", "TestPinned TestPinnedByGate TestDevices"},
	{"checks", "TestCheck TestCheckKubelet TestEtcdShown"},
	{"load", "TestLoadKilled TestLoadPods TestLoadActions TestLoadJob TestLoadProve TestLoadRate TestLoadMirror TestLoadMany TestLoadManyKilled"},
	{"machines", "TestMachineHealth TestMachineHealthMany TestMachineRollOut TestScale"},
	{"the test cluster itself", "TestControlPlane TestNode TestKwok TestImage"},
}

// clusterTable has a row for each test that has passed on a real cluster, with the day for each
// release.
func clusterTable(t *testing.T) string {
	var runs []struct {
		Release, Kubernetes, Etcd string
		Tests                     map[string]string
	}
	recorded(t, "test/cluster/runs.json", &runs)
	var table strings.Builder
	heads, rules := "| what | test |", "|---|---|"
	left := map[string]bool{}
	for _, run := range runs {
		heads += fmt.Sprintf(" %s |", strings.TrimPrefix(run.Kubernetes, "v"))
		rules += "---|"
		for test := range run.Tests {
			left[test] = true
		}
	}
	table.WriteString(heads + "\n" + rules + "\n")
	row := func(what, test string, of func(i int) string) {
		fmt.Fprintf(&table, "| %s | %s |", what, test)
		for i := range runs {
			fmt.Fprintf(&table, " %s |", of(i))
		}
		table.WriteByte('\n')
	}
	for _, s := range subjects {
		what := s.what
		for test := range strings.FieldsSeq(s.tests) {
			if !left[test] {
				continue
			}
			row(what, test, func(i int) string { return runs[i].Tests[test] })
			what = ""
			delete(left, test)
		}
	}
	row("etcd", "", func(i int) string { return strings.TrimPrefix(runs[i].Etcd, "v") })
	if len(left) > 0 {
		t.Errorf("test/cluster/runs.json has tests of no subject: %v", slices.Sorted(maps.Keys(left)))
	}
	return table.String()
}

// TestOverlay checks the files that test/admission replaces for the API of Kubernetes before 1.34:
// each exists and declares the same names as its replacement. Otherwise the releases before 1.34
// would not compile, which is detected only when one of them is run.
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
