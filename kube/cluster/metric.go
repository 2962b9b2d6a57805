// metric has what the long-running verbs of kubectl fettle have in common of
// their metrics: how one is described, where all are served, and who may see them.

package cluster

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric describes a metric: for Prometheus, and for the manual.
type Metric struct {
	// Name is in Prometheus' form: the unit, in base units, and _total of a counter at
	// its end (prometheus.io, practices/naming).
	Name string
	// Type is gauge, counter or histogram.
	Type   string
	Labels []string
	// Doc is the help text.
	Doc string
}

// Descriptions are what Prometheus' library wants to know of metrics, by name.
func Descriptions(all []Metric) map[string]*prometheus.Desc {
	out := map[string]*prometheus.Desc{}
	for _, m := range all {
		out[m.Name] = prometheus.NewDesc(m.Name, m.Doc, m.Labels, nil)
	}
	return out
}

// Table is the manual's table of metrics.
func Table(all []Metric) string {
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
