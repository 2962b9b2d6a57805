package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// maySkip are the functions that skip, each with the reason. What a newcomer's machine
// cannot or need not do ends in the Real and Nightly of internal/testkit/root, whatever is
// missing in its Missing, which fails where all components are required.
var maySkip = map[string]string{
	"internal/testkit/root/gate.go Missing":                   "fails under FETTLE_TEST_REQUIRE=1",
	"internal/testkit/root/gate.go Nightly":                   "the slow matrix",
	"internal/testkit/root/gate.go Real":                      "short mode; test/summary counts them",
	"test/cluster/operator_fleet_test.go":                     "make bench runs it: a measurement",
	"test/peers/bench_test.go TestBench":                      "make bench runs it: a measurement",
	"test/peers/log_formats_bench_test.go":                    "make bench runs it: a measurement",
	"test/peers/log_stream_bench_test.go":                     "make bench runs it: a measurement",
	"test/peers/log_workers_bench_test.go":                    "make bench runs it: a measurement",
	"test/peers/load_bench_test.go":                           "make bench runs it: a measurement",
	"test/peers/logs_bench_test.go":                           "make bench runs it: a measurement",
	"test/peers/numa_bench_test.go":                           "make bench runs it: a measurement",
	"test/peers/network_bench_test.go":                        "make bench runs it: a measurement",
	"test/peers/prove_bench_test.go":                          "make bench runs it: a measurement",
	"internal/measure/network/guest_vm_test.go TestNetem":     "runs in a virtual machine of the slow matrix",
	"internal/measure/network/tunnels_vm_test.go TestTunnels": "runs in a virtual machine of the slow matrix",
	"test/peers/logs_profile_test.go":                         "make profile runs it: a measurement",
	"test/proofs/proofs_test.go":                              "make experiments runs it: a measurement",
	"test/peers/guest_random_test.go":                         "runs in a virtual machine of the slow matrix",
	"test/peers/saptune_test.go needSaptune":                  "no package of Debian: FETTLE_TEST_SAPTUNE names one",
	"internal/product/puppetserver/":                          "the slow matrix: Puppet Server",
	"internal/testkit/product/puppettest_test.go":             "the slow matrix: Puppet Server",
	"internal/product/prometheus/live_test.go":                "no package of Debian's release: FETTLE_TEST_PROMETHEUS names one",
	"internal/engine/plugin/kernel/rtentsk_test.go TestKey":   "runs in a virtual machine of the slow matrix",
	"internal/engine/plugin/table/vm_test.go onlyIn":          "runs in a virtual machine of the slow matrix",
	"test/etcd-releases/table_test.go servers":                "the slow matrix builds the servers",
	"test/etcd-releases/table_test.go TestUpgrade":            "the slow matrix builds the servers",
	"test/cluster/pinned_gate_test.go":                        "a release without the gate: the slow matrix",
	"internal/testkit/root/inside.go Inside":                  "what is missing fails inside, see Missing",
	"test/kubelet-releases/table_test.go missing":             "fails under FETTLE_TEST_REQUIRE=1",
	"test/kubelet-releases/table_test.go TestTable":           "the slow matrix downloads the modules of all releases",
}

func TestNothingSkipsInSilence(t *testing.T) {
	const root = "../.."
	files, skips := 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		name, _ := filepath.Rel(root, path)
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			for _, at := range skipsOf(fn.Body) {
				skips++
				if !allowed(filepath.ToSlash(name) + " " + fn.Name.Name) {
					t.Errorf("%s skips: call Real, Nightly or Missing of internal/testkit/root, so that make test counts it and CI fails where a component is missing", set.Position(at))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 || skips < len(maySkip)-2 {
		t.Errorf("looked at %d files and saw %d skips: not the whole tree", files, skips)
	}
}

func allowed(place string) bool {
	for prefix := range maySkip {
		if strings.HasPrefix(place, prefix) {
			return true
		}
	}
	return false
}

// skipsOf finds the calls of Skip, Skipf and SkipNow.
func skipsOf(n ast.Node) []token.Pos {
	var out []token.Pos
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow") {
				out = append(out, call.Pos())
			}
		}
		return true
	})
	return out
}
