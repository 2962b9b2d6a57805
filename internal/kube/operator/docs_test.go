package operator

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const manual = "../../../docs/150-kubernetes-tuned.md"

// TestManual holds the manual's table of metrics against the operator's.
func TestManual(t *testing.T) {
	b, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	var w strings.Builder
	w.WriteString("\n| metric | type | labels | |\n|---|---|---|---|\n")
	for _, m := range Metrics {
		labels := ""
		for i, l := range m.Labels {
			if i > 0 {
				labels += ", "
			}
			labels += "`" + l + "`"
		}
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, labels, m.Doc)
	}
	w.WriteString("\n")
	const begin, end = "<!-- begin metrics -->\n", "<!-- end metrics -->"
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks for the metrics", manual)
	}
	text := head + begin + w.String() + end + tail
	if os.Getenv("FETTLE_UPDATE_GOLDEN") == "1" {
		if err := os.WriteFile(manual, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(text, string(b)); d != "" {
		t.Errorf("%s is not what the table says; run make golden (-want +got):\n%s", manual, d)
	}
}
