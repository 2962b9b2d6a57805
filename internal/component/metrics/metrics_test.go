package metrics

import (
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
	p := Read(page)
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
		q, want  float64
		ok       bool
	}{{"h", "", 0.99, 0.006, true}, {"h", "", 0.9, 0.002, true}, {"h", "", 1, 0.008, true}, {"few", "", 0.99, 0, false}, {"peer", "a", 0.99, 0.1, true}, {"none", "", 0.99, 0, false}} {
		if v, ok := p.Histograms[c.name][c.to].Quantile(c.q); ok != c.ok || math.Abs(v-c.want) > 1e-9 {
			t.Errorf("%s %g: %v %v, want %v", c.name, c.q, v, ok, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(page)
	f.Add("a_bucket{le=\"NaN\"} 1\na_bucket{le=\"+Inf\"} NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, all := range Read(text).Histograms {
			for _, b := range all {
				if v, ok := b.Quantile(0.99); ok && math.IsNaN(v) {
					t.Errorf("%s: %v of %v", name, v, b)
				}
			}
		}
	})
}
