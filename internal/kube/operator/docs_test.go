package operator

import (
	"testing"

	"fettle.dev/fettle/internal/kube/metric"
	"fettle.dev/fettle/internal/testroot"
)

// TestManual holds the manual's table of metrics against the operator's.
func TestManual(t *testing.T) {
	testroot.Manual(t, "150-kubernetes-tuned.md", testroot.Generated{Name: "metrics", Text: metric.Table(Metrics)})
}
