package search

import (
	"math"
	"math/rand/v2"
	"testing"

	"fettle.dev/fettle/internal/measure/prove"
)

// TestFit fits one weight, with an error of the default's level of 1 %.
func TestFit(t *testing.T) {
	observe := func(n int, weight, noise float64) (obs []observation) {
		r := rand.New(rand.NewPCG(1, 1))
		for i := range n {
			x := float64(i%5)/2 - 1
			obs = append(obs, observation{[]float64{x}, weight*x + 0.01 + noise*r.NormFloat64()})
		}
		return obs
	}
	for name, x := range map[string]struct {
		obs         []observation
		mean        float64 // of the weight, within 0.01
		least, most float64 // share of the draws of the weight that are beyond 2 %
	}{
		"clear":                      {observe(60, 0.1, 0.02), 0.1, 0.99, 1},
		"nothing, many quiet runs":   {observe(200, 0, 0.005), 0, 0, 0.01},
		"nothing, twelve noisy runs": {observe(12, 0, 0.06), 0, 0.05, 0.7}, // nothing is known
	} {
		m, r, beyond := fit(x.obs, 1, 0), rand.New(rand.NewPCG(2, 2)), 0
		for range 1000 {
			if math.Abs(m.sample(r)[0]) > 0.02 {
				beyond++
			}
		}
		if share := float64(beyond) / 1000; math.Abs(m.mean[0]-x.mean) > 0.01 || share < x.least || share > x.most {
			t.Errorf("%s: mean %.4f, %.3f of the draws beyond 2 %%", name, m.mean[0], share)
		}
	}
}

// TestDamagedRecord: runs without a value are not replayed.
func TestDamagedRecord(t *testing.T) {
	d := Design{Space: newSurface(rand.New(rand.NewPCG(1, 1)), 4, true).Space, Runs: 12, Margin: 0.02}
	for _, v := range []Sample{{Value: 0}, {Value: math.Inf(1)}, {Value: -1}, {Value: 1, TookS: math.NaN()}} {
		v.Step = Begin(d).Next()
		if _, err := Replay(d, prove.Metric{Name: "time"}, []Sample{v}); err == nil {
			t.Errorf("%+v is replayed", v)
		}
	}
}
