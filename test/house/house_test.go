// Package house holds no code: its tests keep the order and the size of the districts.
package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "fettle.dev/fettle"

// district is a folder at the top of the house with the packages below it. Its packages
// may import each other, districts of lower layers, and of the same layer those that stand
// before it in the table.
type district struct {
	path   string
	layer  int
	budget budget
}

// budget is what a district may be: packages, lines of its Go files without tests, and
// exported names at their top level. Whoever adds code raises the budget of the district
// in the same commit, and says why.
type budget struct{ packages, lines, exported int }

// testSupport is the layer of packages that only tests import.
const testSupport = 100

// districts are the house, from the ground up.
var districts = []district{
	{path: "internal/unit", layer: 0, budget: budget{1, 750, 36}},
	{path: "internal/stats", layer: 0, budget: budget{1, 1150, 31}},
	{path: "internal/text", layer: 0, budget: budget{1, 430, 23}},
	{path: "internal/host", layer: 0, budget: budget{1, 8680, 111}},
	{path: "internal/ui", layer: 0, budget: budget{2, 2860, 93}},
	{path: "internal/peak", layer: 0, budget: budget{1, 190, 3}},
	{path: "internal/resident", layer: 0, budget: budget{1, 110, 2}},
	{path: "profiles", layer: 0, budget: budget{1, 80, 3}},
	{path: "rules", layer: 0, budget: budget{1, 10, 1}},
	{path: "scenarios", layer: 0, budget: budget{1, 10, 1}},
	{path: "kube/deploy", layer: 0, budget: budget{1, 20, 1}},
	{path: "packaging", layer: 0, budget: budget{1, 50, 5}},
	{path: "internal/kuberelease", layer: 1, budget: budget{1, 1290, 34}},
	{path: "internal/prometheus", layer: 1, budget: budget{1, 410, 8}},
	{path: "internal/ssh", layer: 1, budget: budget{1, 210, 8}},
	{path: "internal/setting", layer: 1, budget: budget{1, 2570, 59}},
	{path: "internal/systemd", layer: 1, budget: budget{1, 1210, 15}},
	{path: "internal/fact", layer: 1, budget: budget{5, 10950, 156}},
	{path: "internal/evidence", layer: 1, budget: budget{1, 1140, 29}},
	{path: "internal/logformat", layer: 1, budget: budget{1, 7780, 81}},
	{path: "internal/engine", layer: 2, budget: budget{15, 36150, 438}},
	{path: "internal/product", layer: 2, budget: budget{16, 22980, 190}},
	{path: "internal/requests", layer: 3, budget: budget{12, 26740, 414}},
	{path: "internal/guide", layer: 3, budget: budget{13, 20660, 242}},
	{path: "internal/measure", layer: 3, budget: budget{14, 27840, 508}},
	{path: "internal/daemon", layer: 4, budget: budget{4, 6170, 66}},
	{path: "internal/update", layer: 4, budget: budget{1, 600, 13}},
	{path: "internal/audit", layer: 4, budget: budget{1, 790, 23}},
	{path: "internal/cliutil", layer: 4, budget: budget{4, 4050, 90}},
	{path: "kube", layer: 4, budget: budget{26, 44300, 930}},
	{path: "internal/cli", layer: 5, budget: budget{1, 13250, 34}},
	{path: "kube/cli", layer: 5, budget: budget{1, 7900, 21}},
	{path: "packaging/man", layer: 6, budget: budget{1, 50, 0}},
	{path: "cmd", layer: 6, budget: budget{1, 20, 0}},
	{path: "kube/cmd", layer: 6, budget: budget{1, 20, 0}},
	{path: "internal/testkit", layer: testSupport, budget: budget{13, 7230, 158}},
	{path: "kube/testkit", layer: testSupport, budget: budget{1, 130, 2}},
	{path: "test", layer: testSupport, budget: budget{4, 310, 0}},
}

// noMachine are packages that must not see a machine, and why.
var noMachine = map[string]string{
	"internal/guide/rule": "rules are pure: they see facts, not the machine",
	"kube/pod/admission":  "a prediction is made of values: it sees no machine",
}

// find returns the district of a package, or -1.
func find(pkg string) int {
	at, longest := -1, -1
	for i, d := range districts {
		if (pkg == d.path || strings.HasPrefix(pkg, d.path+"/")) && len(d.path) > longest {
			at, longest = i, len(d.path)
		}
	}
	return at
}

// complaint says what is wrong with pkg importing imported, or nothing.
func complaint(pkg, imported string) string {
	i, j := find(pkg), find(imported)
	if i < 0 {
		return pkg + " is in no district: move it into one, or add a line to districts in test/house/house_test.go"
	}
	if j < 0 {
		return "" // said for that package itself
	}
	from, to := districts[i], districts[j]
	switch {
	case imported == "internal/host" && noMachine[pkg] != "":
		return pkg + " must not import " + imported + ": " + noMachine[pkg]
	case to.layer == testSupport && from.layer != testSupport:
		return pkg + " must not import " + imported + ": only tests may"
	case i == j, to.layer < from.layer, to.layer == from.layer && j < i:
		return ""
	}
	return fmt.Sprintf("%s (%s, layer %d) must not import %s (%s, layer %d): imports go down", pkg, from.path, from.layer, imported, to.path, to.layer)
}

// source is one Go file of the repository that is not a test.
type source struct {
	pkg     string
	imports []string
	// lines are those that a person writes; a file has these or generated ones.
	lines, generated int
	// exported are the names at the top level that begin with a capital letter.
	exported int
	// notRecorded is set where the file names the error of a host that cannot answer.
	notRecorded bool
}

// sources returns the Go files of the tree, without tests and the modules below test/.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var tree = sync.OnceValues(func() (all []source, err error) {
	const root = "../.."
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "dist") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root && name != "kube" {
				return fs.SkipDir // a module below test/ has its own order
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		s, err := parse(root, path)
		if err == nil {
			all = append(all, s)
		}
		return err
	})
	return all, err
})

func parse(root, path string) (source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	dir, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return source{}, err
	}
	s := source{pkg: filepath.ToSlash(dir), notRecorded: bytes.Contains(text, []byte("ErrNotRecorded"))}
	if lines := bytes.Count(text, []byte("\n")); ast.IsGenerated(file) {
		s.generated = lines
	} else {
		s.lines = lines
	}
	for _, spec := range file.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		s.imports = append(s.imports, target)
	}
	for _, d := range file.Decls {
		s.exported += exported(d)
	}
	return s, nil
}

// exported counts the exported names of a declaration; methods do not count.
func exported(d ast.Decl) (n int) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.IsExported() {
			return 1
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					n++
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						n++
					}
				}
			}
		}
	}
	return n
}

func TestImportsGoDown(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if find(s.pkg) < 0 && !seen[s.pkg] {
			t.Error(complaint(s.pkg, s.pkg))
		}
		seen[s.pkg] = true
		for _, target := range s.imports {
			if inside, ok := strings.CutPrefix(target, module+"/"); ok {
				if c := complaint(s.pkg, inside); c != "" && find(s.pkg) >= 0 {
					t.Error(c)
				}
			}
		}
	}
	if !seen["internal/host"] {
		t.Fatal("internal/host was not found: this test looks at the wrong directory")
	}
}

// TestAdmissionStandsAlone: test/admission builds the prediction with each release of Kubernetes, so
// it must not link libraries that need the newest one.
func TestAdmissionStandsAlone(t *testing.T) {
	const admission = "kube/pod/admission"
	for _, s := range sources(t) {
		if s.pkg != admission && !strings.HasPrefix(s.pkg, admission+"/") {
			continue
		}
		for _, target := range s.imports {
			inside, ours := strings.CutPrefix(target, module+"/kube/")
			ours = ours && inside != "strict" && !strings.HasPrefix("kube/"+inside+"/", admission+"/")
			if ours || strings.HasPrefix(target, "sigs.k8s.io/controller-runtime") || strings.HasPrefix(target, "k8s.io/client-go") {
				t.Errorf("%s must not import %s: test/admission builds it with older releases of Kubernetes", s.pkg, target)
			}
		}
	}
}

func TestBudgets(t *testing.T) {
	is := make([]budget, len(districts))
	generated := 0
	seen := map[string]bool{}
	for _, s := range sources(t) {
		i := find(s.pkg)
		if i < 0 {
			continue
		}
		if !seen[s.pkg] {
			is[i].packages++
		}
		seen[s.pkg] = true
		is[i].lines += s.lines
		generated += s.generated
		is[i].exported += s.exported
	}
	t.Logf("%d lines of generated code, which no budget counts", generated)
	for i, d := range districts {
		if got, may := is[i], d.budget; got.packages > may.packages || got.lines > may.lines || got.exported > may.exported {
			t.Errorf("%s has %d packages, %d lines and %d exported names, and may have %d, %d and %d: take something out, or raise its budget (districts in test/house/house_test.go) in this commit and say why",
				d.path, got.packages, got.lines, got.exported, may.packages, may.lines, may.exported)
		}
		if testing.Verbose() {
			t.Logf("%-24s %3d packages %6d lines %4d exported", d.path, is[i].packages, is[i].lines, is[i].exported)
		}
	}
}

// kubernetes are libraries that the host module must not even name.
var kubernetes = []string{"k8s.io/", "github.com/openshift/", "github.com/Masterminds/"}

// Callers ask host.Unknown, NotFound, Why and File what an error says: where each compares
// errors itself, what a copy does not record is soon taken for what a machine lacks.
func TestFewNameTheErrorOfTheUnknown(t *testing.T) {
	const most = 2
	outside := 0
	for _, s := range sources(t) {
		if s.notRecorded && s.pkg != "internal/host" {
			outside++
		}
	}
	if outside > most {
		t.Errorf("%d files outside of internal/host name host.ErrNotRecorded, want at most %d", outside, most)
	}
}

// TestHostModuleNamesNoKubernetes: building fettle alone fetches nothing of Kubernetes.
func TestHostModuleNamesNoKubernetes(t *testing.T) {
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, library := range kubernetes {
			if bytes.Contains(text, []byte(library)) {
				t.Errorf("%s names %s: what needs it belongs into the module kube/", file, library)
			}
		}
	}
}

func TestComplaints(t *testing.T) {
	for _, c := range []struct{ pkg, imported, want string }{
		{"internal/engine/tune", "internal/engine/journal", ""},
		{"internal/engine/override", "internal/setting", ""},
		{"internal/engine/plugin/cpu", "internal/engine/plugin/device", ""},
		{"internal/guide/rule", "internal/fact", ""},
		{"internal/guide/rule", "internal/host", "internal/guide/rule must not import internal/host: rules are pure: they see facts, not the machine"},
		{"internal/product/etcd", "internal/engine/tune", ""},
		{"internal/engine/tune", "internal/product/etcd", "internal/engine/tune (internal/engine, layer 2) must not import internal/product/etcd (internal/product, layer 2): imports go down"},
		{"internal/fact", "internal/engine/tune", "internal/fact (internal/fact, layer 1) must not import internal/engine/tune (internal/engine, layer 2): imports go down"},
		{"internal/cli", "internal/testkit/root", "internal/cli must not import internal/testkit/root: only tests may"},
		{"internal/new", "internal/host", "internal/new is in no district: move it into one, or add a line to districts in test/house/house_test.go"},
	} {
		if got := complaint(c.pkg, c.imported); got != c.want {
			t.Errorf("%s -> %s:\n got %q\nwant %q", c.pkg, c.imported, got, c.want)
		}
	}
}

// tooHeavy are packages that the static binary must not link, and why.
var tooHeavy = map[string]string{
	module + "/kube":             "Kubernetes is kubectl-fettle's",
	"testing":                    "test support must not reach the user",
	module + "/internal/testkit": "test support must not reach the user",
	"github.com/google/go-cmp":   "it is for tests",
	"runtime/cgo":                "the binary is static",
}

// linked has how many packages of ours each program links, itself included.
var linked = map[string]int{"cmd/fettle": 106, "kube/cmd/kubectl-fettle": 106}

// TestLinked counts what the programs link, by the imports of all files that are not tests.
func TestLinked(t *testing.T) {
	imports := map[string][]string{}
	for _, s := range sources(t) {
		imports[s.pkg] = append(imports[s.pkg], s.imports...)
	}
	for program, want := range linked {
		links := map[string]bool{}
		for todo := []string{program}; len(todo) > 0; todo = todo[1:] {
			if links[todo[0]] {
				continue
			}
			links[todo[0]] = true
			for _, target := range imports[todo[0]] {
				if inside, ok := strings.CutPrefix(target, module+"/"); ok {
					todo = append(todo, inside)
				}
			}
		}
		if len(links) != want {
			t.Errorf("%s links %d of our packages, and may link %d: untie what it does not need, or change the budget (linked in test/house/house_test.go) in this commit and say why", program, len(links), want)
		}
	}
}

func TestFettleLinksOnlyWhatItNeeds(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./cmd/fettle")
	list.Dir = "../.."
	list.Env = append(list.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, pkg := range strings.Fields(string(out)) {
		for heavy, why := range tooHeavy {
			if pkg == heavy || strings.HasPrefix(pkg, heavy+"/") && heavy != "testing" {
				t.Errorf("fettle links %s: %s (go list -deps shows through which package)", pkg, why)
			}
		}
	}
}
