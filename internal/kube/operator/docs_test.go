package operator

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/kube/metric"
)

const manual = "../../../docs/150-kubernetes-tuned.md"

// TestManual holds the manual's table of metrics against the operator's.
func TestManual(t *testing.T) {
	b, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- begin metrics -->\n", "<!-- end metrics -->"
	head, rest, ok := strings.Cut(string(b), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no marks for the metrics", manual)
	}
	text := head + begin + "\n" + metric.Table(Metrics) + "\n" + end + tail
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
