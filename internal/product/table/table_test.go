package table

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

// proofs are what TestServices has shown of products under the real systemd;
// `make proofs` makes the file anew.
const proofs = "testdata/proofs.txt"

// readProofs are the proofs of each product.
func readProofs(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(proofs)
	if err != nil {
		t.Fatal(err)
	}
	proved := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 || f[3] != "internal/product/table.TestServices" || plugin.Ground(f[0]) != plugin.QEMU {
			t.Fatalf("%s: %q is no proof of TestServices; run make proofs", proofs, line)
		}
		if f[1] != "unit" && !slices.ContainsFunc(All, func(p product.Product) bool { return p.Name == f[1] }) {
			t.Errorf("%s: there is no product %q any more; run make proofs", proofs, f[1])
		}
		proved[f[1]] = append(proved[f[1]], f[2])
	}
	return proved
}

// The manual's list of products is made from this one.
func TestManual(t *testing.T) {
	var b strings.Builder
	b.WriteString("| product | what it is | written | under systemd (QEMU) |\n|---|---|---|---|\n")
	options := "\nThe options that rules ask for:\n\n"
	proved := readProofs(t)
	for _, p := range All {
		written := "no"
		if p.Kind != nil {
			written = "`" + p.Name + ":OPTION`"
		}
		var names []string
		for _, o := range p.Parameters {
			names = append(names, "`"+o.Name+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, root.Cell(p.Doc), written, strings.Join(proved[p.Name], ", "))
		options += fmt.Sprintf("- **%s**: %s\n", p.Name, strings.Join(names, ", "))
	}
	root.Manual(t, "products.md", root.Generated{Name: "products", Text: b.String() + options})
}
