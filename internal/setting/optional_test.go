package setting_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// Every interface of this package beside Kind is one that a kind may have. All
// are in one file, and CONTRIBUTING.md names each.
func TestOptionalInterfacesAreListed(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join(root.Module(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if _, ok := spec.Type.(*ast.InterfaceType); !ok || spec.Name.Name == "Kind" {
				return true
			}
			found++
			if name != "optional.go" {
				t.Errorf("%s: %s belongs into optional.go", name, spec.Name)
			}
			if !strings.Contains(string(manual), "| `"+spec.Name.Name+"` |") {
				t.Errorf("CONTRIBUTING.md does not name %s among what a kind may be", spec.Name)
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("found %d interfaces, want those of optional.go", found)
	}
}
