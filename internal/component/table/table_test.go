package table

import (
	"fmt"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/testroot"
)

// The manual's list of products is made from this one.
func TestManual(t *testing.T) {
	var b strings.Builder
	b.WriteString("| product | what it is | options that rules ask for | written |\n|---|---|---|---|\n")
	for _, p := range All {
		written := "no"
		if p.Kind != nil {
			written = "`" + p.Name + ":OPTION`"
		}
		var names []string
		for _, o := range p.Parameters {
			names = append(names, testroot.Cell(o.Name))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, testroot.Cell(p.Doc), strings.Join(names, ", "), written)
	}
	testroot.Manual(t, "090-check.md", testroot.Generated{Name: "products", Text: b.String()})
}
