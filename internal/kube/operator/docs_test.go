package operator

import (
	"testing"

	"fettle.dev/fettle/internal/kube/cluster"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestManual holds the manual's table of metrics against the operator's.
func TestManual(t *testing.T) {
	root.Manual(t, "150-kubernetes-tuned.md", root.Generated{Name: "metrics", Text: cluster.Table(Metrics)})
}
