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

// maySkip are the functions that skip outside short mode, each with the reason.
// Everything else that is missing ends in testroot.Missing, which fails where
// all components are required.
var maySkip = map[string]string{
	"internal/testkit/root/etcd.go Etcd":                "the slow matrix builds the servers",
	"internal/testkit/root/gate.go Missing":             "fails under FETTLE_TEST_REQUIRE=1",
	"internal/testkit/vm/testvm_hardware.go build":      "the slow matrix",
	"test/peers/bench_test.go TestBench":                "make bench runs it: a measurement",
	"test/peers/effect_test.go":                         "the slow matrix",
	"test/peers/guest_random_test.go":                   "runs in a virtual machine of the slow matrix",
	"test/peers/saptune_test.go needSaptune":            "no package of Debian: FETTLE_TEST_SAPTUNE names one",
	"internal/cli/check_probe_test.go":                  "the slow matrix: Puppet Server",
	"internal/cli/fix_products_test.go":                 "the slow matrix: Puppet Server",
	"internal/cli/size_puppet_live_test.go":             "the slow matrix: Puppet Server",
	"internal/product/puppetserver/":                    "the slow matrix: Puppet Server",
	"internal/testkit/product/puppettest_test.go":       "the slow matrix: Puppet Server",
	"kube/cli/operator_test.go TestOperatorSizeMany":    "the slow matrix",
	"internal/product/prometheus/live_test.go":          "no package of Debian's release: FETTLE_TEST_PROMETHEUS names one",
	"internal/daemon/bus/cockpit_test.go":               "the slow matrix",
	"internal/requests/puppetrun/apply_test.go":         "the slow matrix: Puppet",
	"internal/requests/puppetrun/stored_test.go":        "the slow matrix: Puppet Server",
	"internal/engine/plugin/kernel/rtentsk_key_test.go": "runs in a virtual machine of the slow matrix",
	"internal/engine/plugin/table/vm_test.go onlyIn":    "runs in a virtual machine of the slow matrix",
	"test/etcd-releases/table_test.go servers":          "the slow matrix builds the servers",
	"test/kubelet-releases/table_test.go missing":       "fails under FETTLE_TEST_REQUIRE=1",
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
					t.Errorf("%s skips outside short mode: call testroot.Missing, which fails where every component is required", set.Position(at))
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

// skipsOf finds the calls of Skip, Skipf and SkipNow that are not below a
// condition on testing.Short.
func skipsOf(n ast.Node) []token.Pos {
	var out []token.Pos
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if mentions(n.Cond, "Short") {
				if n.Else != nil {
					out = append(out, skipsOf(n.Else)...)
				}
				return false
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Skip" || sel.Sel.Name == "Skipf" || sel.Sel.Name == "SkipNow") {
				out = append(out, n.Pos())
			}
		}
		return true
	})
	return out
}

func mentions(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return !found
	})
	return found
}
