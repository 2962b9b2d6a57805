// This file parses Prometheus's text format for metrics.

package prometheus

import (
	"math"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Metrics holds the samples of a metrics page.
type Metrics struct {
	// Values holds the samples by name, summed over all label sets.
	Values map[string]float64
	// Labels holds the labels of the last sample with labels, by name.
	Labels map[string]map[string]string
	// Histograms holds the histograms by name and by the label To, which distinguishes the
	// members of an etcd cluster.
	Histograms map[string]map[string]Buckets
}

// Buckets maps upper bounds to cumulative counts.
type Buckets map[float64]float64

var (
	sample = text.LazyRegexp(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)`)
	label  = text.LazyRegexp(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// maxSamples is the maximum number of samples, far above the number of metrics of one program.
const maxSamples = 100000

// ParseMetrics parses a metrics page. It ignores invalid lines.
func ParseMetrics(text string) Metrics {
	m := Metrics{map[string]float64{}, map[string]map[string]string{}, map[string]map[string]Buckets{}}
	n := 0
	for line := range strings.Lines(text) {
		f := sample().FindStringSubmatch(line)
		if f == nil || f[1] == "" || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := strconv.ParseFloat(f[3], 64)
		if n++; err != nil || n > maxSamples {
			continue
		}
		labels := map[string]string{}
		for _, l := range label().FindAllStringSubmatch(f[2], -1) {
			labels[l[1]] = l[2]
		}
		histogram, ok := strings.CutSuffix(f[1], "_bucket")
		le, bound := labels["le"]
		if !ok || !bound {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				m.Values[f[1]] += v
			}
			if len(labels) > 0 {
				m.Labels[f[1]] = labels
			}
			continue
		}
		limit, err := strconv.ParseFloat(le, 64)
		if err != nil || math.IsNaN(limit) || math.IsInf(limit, -1) || math.IsNaN(v) {
			continue
		}
		which := labels["To"]
		if m.Histograms[histogram] == nil {
			m.Histograms[histogram] = map[string]Buckets{}
		}
		if m.Histograms[histogram][which] == nil {
			m.Histograms[histogram][which] = Buckets{}
		}
		m.Histograms[histogram][which][limit] = v
	}
	return m
}
