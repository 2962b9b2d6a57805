package setting_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every interface of this package except Kind is one that a kind may have. All
// are in kind_optional.go, whose first comment lists each.
func TestOptionalInterfacesAreListed(t *testing.T) {
	text, err := os.ReadFile("kind_optional.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	list, _, _ := strings.Cut(string(text), "\ntype ")
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
			if name != "kind_optional.go" {
				t.Errorf("%s: move %s to kind_optional.go", name, spec.Name)
			}
			if !strings.Contains(list, "//\t"+spec.Name.Name+" ") {
				t.Errorf("the list at the top of kind_optional.go lacks %s", spec.Name)
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("found %d interfaces, want those of kind_optional.go", found)
	}
}
