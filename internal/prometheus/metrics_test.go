package prometheus

import (
	"maps"
	"math"
	"testing"
)

const page = `# HELP x y
h_bucket{le="0.001"} 0
h_bucket{le="0.002"} 900
h_bucket{le="0.004"} 980
h_bucket{le="0.008"} 1000
h_bucket{le="+Inf"} 1000
few_bucket{le="0.1"} 5
few_bucket{le="+Inf"} 5
peer_bucket{To="a",le="0.1"} 0
peer_bucket{To="a",le="+Inf"} 200
info{version="3.5.9",other="a \\"b\\""} 1
sum{type="a"} 2
sum{type="b"} 3.5 1700000000
alone 4e2
nan NaN
broken
`

func TestRead(t *testing.T) {
	p := ParseMetrics(page)
	for name, want := range map[string]float64{"sum": 5.5, "alone": 400, "info": 1} {
		if p.Values[name] != want {
			t.Errorf("%s: %v", name, p.Values[name])
		}
	}
	if _, ok := p.Values["nan"]; ok || p.Labels["info"]["version"] != "3.5.9" {
		t.Errorf("%+v", p)
	}
	for _, c := range []struct {
		name, to string
		want     Buckets
	}{
		{"h", "", Buckets{0.001: 0, 0.002: 900, 0.004: 980, 0.008: 1000, math.Inf(1): 1000}}, {"few", "", Buckets{0.1: 5, math.Inf(1): 5}},
		{"peer", "a", Buckets{0.1: 0, math.Inf(1): 200}}, {"none", "", nil},
	} {
		if got := p.Histograms[c.name][c.to]; !maps.Equal(got, c.want) {
			t.Errorf("%s %s: %v, want %v", c.name, c.to, got, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(page)
	f.Add("a_bucket{le=\"NaN\"} 1\na_bucket{le=\"+Inf\"} NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, all := range ParseMetrics(text).Histograms {
			for _, b := range all {
				for bound, n := range b {
					if math.IsNaN(bound) || math.IsInf(bound, -1) || math.IsNaN(n) {
						t.Errorf("%s: %v of %v", name, n, bound)
					}
				}
			}
		}
	})
}
