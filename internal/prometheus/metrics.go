// metrics reads what a program says of itself in Prometheus's text format.

package prometheus

import (
	"math"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Metrics is the samples of a page.
type Metrics struct {
	// Values are the samples by their name; those with several sets of labels are
	// added up.
	Values map[string]float64
	// Labels are those of the last sample of a name that has some.
	Labels map[string]map[string]string
	// Histograms are by their name, and by the label To of those that tell the
	// members of a cluster apart.
	Histograms map[string]map[string]Buckets
}

// Buckets are how many observations were at most so large, by the bound.
type Buckets map[float64]float64

var (
	sample = text.LazyRegexp(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)`)
	label  = text.LazyRegexp(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// maxSamples is more than a program has of itself.
const maxSamples = 100000

// ParseMetrics reads a page; lines that are no samples are left out.
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
