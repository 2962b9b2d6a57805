package kube

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/kube/cluster"
)

// MetricTable returns the manual's table of metrics.
func MetricTable(all []cluster.Metric) string {
	var w strings.Builder
	w.WriteString("| metric | type | labels | |\n|---|---|---|---|\n")
	for _, m := range all {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&w, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, labels, m.Doc)
	}
	return w.String()
}
