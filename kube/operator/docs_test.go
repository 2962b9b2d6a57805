package operator

import (
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/kube/testkit"
)

// TestManual compares the manual's table of metrics with the operator's metrics.
func TestManual(t *testing.T) {
	root.Manual(t, "kubernetes-tuned.md", root.Generated{Name: "metrics", Text: kube.MetricTable(Metrics)})
}
