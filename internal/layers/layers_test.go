// Package layers holds no code: its test keeps the order of the packages.
package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "fettle.dev/fettle"

// place is where a package stands. It imports packages of lower layers, and of
// its own layer only those listed. A path that ends in "/..." stands for the
// packages below that directory; these may import each other.
type place struct {
	path  string
	layer int
	// also lists packages of the same layer that may be imported.
	also []string
	// never lists packages that must not be imported though they are lower,
	// and says why.
	never map[string]string
}

// testSupport is the layer of packages that only tests import.
const testSupport = 100

// table is the project's layers as data. A new package gets a line here, in the
// lowest layer that its imports allow.
var table = []place{
	{path: "cmd/...", layer: 6},
	{path: "packaging/man", layer: 6}, // makes the manual from the commands
	{path: "internal/cli", layer: 5},
	{path: "internal/kubecli", layer: 5},
	{path: "internal/command", layer: 4, also: []string{"internal/report", "internal/ui"}},
	{path: "internal/daemon", layer: 4},
	{path: "internal/daemon/schedule", layer: 3},
	{path: "internal/daemon/...", layer: 4, also: []string{"internal/daemon"}},
	{path: "internal/kube/admission", layer: 4, never: map[string]string{
		"internal/host": "a prediction is made of values: it sees no machine",
	}},
	{path: "internal/kube/admission/explain", layer: 4, also: []string{"internal/kube/admission", "internal/report", "internal/ui"}},
	{path: "internal/kube/admission/...", layer: 4, also: []string{"internal/kube/admission"}},
	{path: "internal/kube/pinning", layer: 4, also: []string{"internal/kube/admission", "internal/kube/cgroup"}, never: map[string]string{
		"internal/host": "it judges values: it sees no machine",
	}},
	{path: "internal/kube/pinning/live", layer: 4, also: []string{"internal/kube/pinning", "internal/kube/admission", "internal/kube/admission/...", "internal/kube/cgroup"}},
	{path: "internal/kube/machine", layer: 4},
	{path: "internal/kube/etcd", layer: 4, never: map[string]string{
		"internal/host": "it asks over the network: it sees no machine",
	}},
	{path: "internal/kube/audit", layer: 4, also: []string{"internal/kube/etcd", "internal/kube/machine", "internal/kube/health", "internal/platform", "internal/platform/..."}},
	{path: "internal/kube/survey", layer: 4, also: []string{"internal/kube/audit", "internal/kube/etcd", "internal/kube/machine", "internal/platform/openshift"}, never: map[string]string{
		"internal/host": "it asks the API server: it sees no machine",
	}},
	{path: "internal/kube/health", layer: 4, also: []string{"internal/kube/machine", "internal/kube/kubeletconfig"}, never: map[string]string{
		"internal/host": "it judges values: it sees no machine",
	}},
	{path: "internal/kube/health/around", layer: 4, also: []string{"internal/kube/machine", "internal/kube/health"}},
	{path: "internal/kube/health/control", layer: 4, also: []string{"internal/kube/machine", "internal/kube/health", "internal/kube/health/around", "internal/kube/coalesce", "internal/kube/metric", "internal/kube/nodecache"}},
	{path: "internal/kube/scale/carry", layer: 4, also: []string{"internal/kube/machine", "internal/kube/scale", "internal/kube/kubelet/drain"}},
	{path: "internal/kube/scale", layer: 4, also: []string{"internal/kube/machine", "internal/kube/health"}, never: map[string]string{
		"internal/host": "a plan is made of values: it sees no machine",
	}},
	{path: "internal/kube/kubelet", layer: 4, also: []string{"internal/kube/admission"}, never: map[string]string{
		"internal/host": "what is wanted is decided from values: it sees no machine",
	}},
	{path: "internal/kube/kubelet/preview", layer: 4, also: []string{"internal/kube/kubelet", "internal/kube/kubelet/drain", "internal/kube/kubeletconfig", "internal/kube/rollout", "internal/kube/rollout/seen"}},
	{path: "internal/kube/rollout/seen", layer: 4, also: []string{"internal/kube/kubeletconfig", "internal/kube/rollout"}},
	{path: "internal/kube/kubelet/...", layer: 4, also: []string{"internal/kube/kubelet", "internal/kube/kubelet/...", "internal/kube/admission"}},
	{path: "internal/kube/kubeletconfig", layer: 4, also: []string{"internal/kube/kubelet"}},
	{path: "internal/kube/kubeletoperator", layer: 4, also: []string{"internal/kube/coalesce", "internal/kube/kubelet", "internal/kube/kubeletconfig", "internal/kube/metric", "internal/kube/nodecache", "internal/kube/rollout", "internal/kube/rollout/seen"}, never: map[string]string{
		"internal/host": "it tells agents what to do: it sees no machine",
	}},
	{path: "internal/kube/kubeletagent", layer: 4, also: []string{"internal/kube/admission/node", "internal/kube/kubelet", "internal/kube/kubelet/...", "internal/kube/kubeletconfig"}},
	{path: "internal/kube/api", layer: 1},
	{path: "internal/kube/corestate", layer: 1},
	{path: "internal/kube/deepcopy", layer: 1},
	{path: "internal/kube/deepcopy/deepcopytest", layer: testSupport},
	{path: "internal/kube/operator", layer: 4, also: []string{"internal/kube/kubeletconfig", "internal/kube/metric", "internal/kube/nodecache", "internal/kube/recommend", "internal/kube/tuned"}},
	{path: "internal/kube/removal", layer: 4, also: []string{"internal/kube/kubeletconfig", "internal/kube/kubeletoperator", "internal/kube/tuned"}},
	{path: "internal/kube/strict", layer: 1},
	{path: "internal/kube/...", layer: 4},
	{path: "internal/platform", layer: 4},
	{path: "internal/platform/...", layer: 4, also: []string{"internal/platform"}},
	{path: "internal/report", layer: 4, also: []string{"internal/ui"}}, // its tables are for a terminal
	{path: "internal/report/page", layer: 4, also: []string{"internal/ui"}},
	{path: "internal/ui", layer: 0, also: []string{"internal/wording"}},
	{path: "internal/component", layer: 3, also: []string{"internal/component/program"}},
	{path: "internal/component/conf/conftest", layer: testSupport},
	{path: "internal/component/producttest", layer: testSupport, also: []string{"internal/testroot", "internal/host/hosttest", "internal/component/conf/conftest"}},
	{path: "internal/component/puppetserver/puppettest", layer: testSupport, also: []string{"internal/host/hosttest", "internal/component/producttest"}},
	{path: "internal/component/puma/register", layer: testSupport, also: []string{"internal/host/hosttest", "internal/component/producttest"}},
	{path: "internal/component/etcd/client", layer: 1, never: map[string]string{
		"internal/host": "it asks over the network: it sees no machine",
	}},
	{path: "internal/component/...", layer: 3, also: []string{"internal/component"}},
	{path: "internal/sizing", layer: 3},
	{path: "internal/sizing/sizingtest", layer: testSupport},
	{path: "internal/sizing/...", layer: 3, also: []string{"internal/sizing"}},
	{path: "internal/compare", layer: 3},
	{path: "internal/profile", layer: 2},
	{path: "internal/profile/...", layer: 2, also: []string{"internal/profile"}},
	{path: "internal/rhel6", layer: 2, also: []string{"internal/profile"}},
	{path: "internal/plugin/plugintest", layer: testSupport, also: []string{"internal/testroot"}},
	{path: "internal/plugin/undotest", layer: testSupport, also: []string{"internal/host/hosttest", "internal/plugin/plugintest"}},
	{path: "internal/plugin", layer: 2, also: []string{"internal/plugin/...", "internal/profile"}},
	{path: "internal/plugin/...", layer: 2, also: []string{"internal/plugin", "internal/profile"}},
	{path: "internal/tune", layer: 2, also: []string{"internal/profile", "internal/profile/...", "internal/plugin", "internal/plugin/..."}},
	{path: "internal/rule", layer: 2, never: map[string]string{
		"internal/journal": "rules are pure",
		"internal/host":    "rules are pure: they see facts, not the machine",
	}},
	{path: "internal/bench/...", layer: 2},
	{path: "internal/logs", layer: 2, also: []string{"internal/logs/..."}},
	{path: "internal/logs/puppetrun", layer: 2, also: []string{"internal/logs", "internal/logs/..."}},
	{path: "internal/logs/request", layer: 2, also: []string{"internal/logs/format"}},
	{path: "internal/logs/...", layer: 2},
	{path: "internal/load", layer: 2, also: []string{"internal/load/...", "internal/logs"}},
	{path: "internal/load/replay", layer: 2, also: []string{"internal/load/...", "internal/logs/..."}},
	{path: "internal/load/...", layer: 2},
	{path: "internal/prove", layer: 2, also: []string{"internal/tune", "internal/plugin"}},
	{path: "internal/prove/running", layer: 2, also: []string{"internal/prove", "internal/logs/..."}},
	{path: "internal/fact", layer: 1},
	{path: "internal/setting", layer: 1},
	{path: "internal/claim", layer: 1, also: []string{"internal/setting"}},
	{path: "internal/journal", layer: 1, also: []string{"internal/setting"}},
	{path: "internal/prometheus", layer: 1},
	{path: "internal/remote", layer: 1},
	{path: "internal/evidence", layer: 1, also: []string{"internal/fact"}},
	{path: "internal/host", layer: 0, also: []string{"internal/lazyregexp", "internal/unit"}},
	{path: "internal/host/hosttest", layer: testSupport},
	{path: "internal/kuberelease", layer: 0, also: []string{"internal/spell"}},
	{path: "internal/lazyregexp", layer: 0},
	{path: "internal/peak", layer: 0},
	{path: "internal/plaintext", layer: 0},
	{path: "internal/resident", layer: 0}, // of this process, not of the machine
	{path: "internal/spell", layer: 0},
	{path: "internal/unit", layer: 0},
	{path: "internal/stats", layer: 0},
	{path: "internal/wording", layer: 0},
	{path: "rules/...", layer: 0},
	{path: "rules", layer: 0},
	{path: "profiles", layer: 0},
	{path: "deploy", layer: 0}, // what is applied to a cluster, as data
	{path: "packaging", layer: 0},
	{path: "internal/testroot", layer: testSupport},
	{path: "internal/testbrowser", layer: testSupport, also: []string{"internal/testroot"}},
	{path: "internal/testvm", layer: testSupport, also: []string{"internal/testroot", "internal/testvm/..."}},
	{path: "internal/testvm/...", layer: testSupport},
	{path: "internal/layers", layer: testSupport},
	{path: "test/...", layer: testSupport, also: []string{"internal/testroot", "internal/testvm", "internal/plugin/plugintest"}},
}

// matches says whether a path of the table stands for a package.
func matches(pattern, pkg string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(pkg, dir+"/")
	}
	return pattern == pkg
}

func find(pkg string) *place {
	for i := range table {
		if matches(table[i].path, pkg) {
			return &table[i]
		}
	}
	return nil
}

// complaint says what is wrong with pkg importing imported, or nothing.
func complaint(pkg, imported string) string {
	from, to := find(pkg), find(imported)
	switch {
	case from == nil:
		return pkg + " is in no layer: add a line for it to table in internal/layers/layers_test.go, in the lowest layer that its imports allow"
	case to == nil:
		return "" // told once, for that package itself
	case from.never[imported] != "":
		return pkg + " must not import " + imported + ": " + from.never[imported]
	case to.layer == testSupport && from.layer != testSupport:
		return pkg + " must not import " + imported + ": only tests may"
	case to.layer < from.layer:
		return ""
	case to.layer > from.layer:
		return pkg + " (layer " + strconv.Itoa(from.layer) + ") must not import " + imported + " (layer " + strconv.Itoa(to.layer) + "): imports go downwards"
	case from == to && strings.HasSuffix(from.path, "/..."):
		return ""
	case slices.ContainsFunc(from.also, func(pattern string) bool { return matches(pattern, imported) }):
		return ""
	}
	return pkg + " must not import " + imported + ": both are in layer " + strconv.Itoa(from.layer) + ", and the table lists no such exception"
}

// imports are the direct imports of every package of the tree below root, its
// tests not included.
func imports(t *testing.T, root string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "dist") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root {
				return fs.SkipDir // a nested module has its own order
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(dir)
		if _, ok := all[pkg]; !ok {
			all[pkg] = nil
		}
		for _, spec := range file.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(all[pkg], target) {
				all[pkg] = append(all[pkg], target)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImportsGoDownwards(t *testing.T) {
	all := imports(t, "../..")
	if _, ok := all["internal/host"]; !ok {
		t.Fatal("internal/host was not found: this test looks at the wrong directory")
	}
	for pkg, targets := range all {
		if find(pkg) == nil {
			t.Error(complaint(pkg, pkg))
			continue
		}
		for _, target := range targets {
			inside, ok := strings.CutPrefix(target, module+"/")
			if !ok {
				continue
			}
			if c := complaint(pkg, inside); c != "" {
				t.Error(c)
			}
		}
	}
}

// kubernetes are the libraries that only kubectl-fettle links, and those who may
// import them.
var (
	kubernetes = []string{"k8s.io/", "sigs.k8s.io/", "github.com/openshift/", "github.com/Masterminds/"}
	ofKube     = []string{"internal/kube/...", "internal/kubecli", "cmd/kubectl-fettle"}
)

func isKubernetes(imported string) bool {
	return slices.ContainsFunc(kubernetes, func(prefix string) bool { return strings.HasPrefix(imported, prefix) })
}

func TestKubernetesIsImportedByKubeOnly(t *testing.T) {
	seen := 0
	for pkg, targets := range imports(t, "../..") {
		for _, target := range targets {
			switch {
			case !isKubernetes(target):
			case slices.ContainsFunc(ofKube, func(pattern string) bool { return matches(pattern, pkg) }):
				seen++
			default:
				t.Errorf("%s must not import %s: fettle links no Kubernetes library; only %s may", pkg, target, strings.Join(ofKube, ", "))
			}
		}
	}
	if seen == 0 {
		t.Error("nobody imports Kubernetes: this test looks at the wrong places")
	}
}

func TestComplaints(t *testing.T) {
	for _, c := range []struct{ pkg, imported, want string }{
		{"internal/tune", "internal/journal", ""},
		{"internal/tune", "internal/profile", ""},
		{"internal/claim", "internal/setting", ""},
		{"internal/plugin/cpu", "internal/plugin/disk", ""},
		{"internal/rule", "internal/fact", ""},
		{"internal/rule", "internal/journal", "internal/rule must not import internal/journal: rules are pure"},
		{"internal/journal", "internal/tune", "internal/journal (layer 1) must not import internal/tune (layer 2): imports go downwards"},
		{"internal/profile", "internal/tune", "internal/profile must not import internal/tune: both are in layer 2, and the table lists no such exception"},
		{"internal/cli", "internal/testroot", "internal/cli must not import internal/testroot: only tests may"},
		{"internal/new", "internal/host", "internal/new is in no layer: add a line for it to table in internal/layers/layers_test.go, in the lowest layer that its imports allow"},
	} {
		if got := complaint(c.pkg, c.imported); got != c.want {
			t.Errorf("%s -> %s:\n got %q\nwant %q", c.pkg, c.imported, got, c.want)
		}
	}
}

// tooHeavy are packages that the static binary must not link, and why.
var tooHeavy = map[string]string{
	module + "/internal/kube/":   "Kubernetes is kubectl-fettle's",
	module + "/internal/kubecli": "Kubernetes is kubectl-fettle's",
	"testing":                    "test support must not reach the user",
	module + "/internal/test":    "test support must not reach the user",
	"github.com/google/go-cmp":   "it is for tests",
	"runtime/cgo":                "the binary is static",
}

func TestFettleLinksOnlyWhatItNeeds(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./cmd/fettle")
	list.Dir = "../.."
	list.Env = append(list.Environ(), "CGO_ENABLED=0")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if isKubernetes(pkg) {
			t.Errorf("fettle links %s: Kubernetes is kubectl-fettle's (go list -deps shows through whom)", pkg)
		}
		for heavy, why := range tooHeavy {
			if pkg == heavy || strings.HasSuffix(heavy, "/") && strings.HasPrefix(pkg, heavy) ||
				strings.HasPrefix(heavy, module) && strings.HasPrefix(pkg, heavy) {
				t.Errorf("fettle links %s: %s (go mod why -m, or go list -deps, shows through whom)", pkg, why)
			}
		}
	}
}
