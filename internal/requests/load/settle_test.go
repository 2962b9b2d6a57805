package load

import (
	"math"
	"math/rand/v2"
	"testing"
)

// noisy returns n latencies around the level of each second, with some percent of noise.
func noisy(seed uint64, n int, percent float64, level func(i int) float64) []float64 {
	r := rand.New(rand.NewPCG(seed, 3))
	x := make([]float64, n)
	for i := range x {
		x[i] = level(i) * (1 + percent/100*r.NormFloat64())
	}
	return x
}

// TestSettle tests that a warm-up is detected and excluded, and that noise and stalls are not, at
// any position.
func TestSettle(t *testing.T) {
	flat := func(int) float64 { return 0.01 }
	stall := func(from, to int) func(int) float64 {
		return func(i int) float64 {
			if i >= from && i < to {
				return 2
			}
			return 0.01
		}
	}
	warming := func(tau float64) func(int) float64 {
		return func(i int) float64 { return 0.01 * (1 + 4*math.Exp(-float64(i)/tau)) }
	}
	for name, c := range map[string]struct {
		n           int
		level       func(int) float64
		least, most int
		state       State
	}{
		"steady":            {60, flat, 0, 0, Settled},
		"steady, short":     {10, flat, 0, 0, Settled},
		"too short":         {9, warming(2), 0, 0, Unknown},
		"stall":             {60, stall(30, 34), 0, 0, Settled},
		"early stall":       {60, stall(4, 8), 0, 0, Settled},
		"stall of a second": {60, stall(0, 1), 0, 1, Settled},
		"late stall":        {60, stall(52, 56), 0, 0, Settled},
		"warms up":          {60, warming(4), 6, 25, Settled},
		"warms up slowly":   {300, warming(20), 40, 120, Settled},
		"one slow second":   {30, func(i int) float64 { return map[bool]float64{true: 0.1, false: 0.01}[i < 2] }, 1, 3, Settled},
		"a step":            {40, func(i int) float64 { return map[bool]float64{true: 0.02, false: 0.01}[i < 12] }, 11, 13, Settled},
		"warm too late":     {30, warming(20), 0, 15, Unsettled},
		"faster throughout": {60, func(i int) float64 { return 0.02 - 0.0002*float64(i) }, 0, 30, Unsettled},
		"slower throughout": {60, func(i int) float64 { return 0.01 + 0.001*float64(i) }, 0, 0, Worsening},
	} {
		for seed := range uint64(20) {
			cut, state := settle(noisy(seed, c.n, 2, c.level))
			if cut < c.least || cut > c.most || state != c.state {
				t.Errorf("%s, seed %d: %d cut, %s; want %d to %d, %s", name, seed, cut, state, c.least, c.most, c.state)
			}
		}
	}
	// What is steady is seldom called something else, also where it is noisy.
	wrong := 0
	for seed := range uint64(1000) {
		if cut, state := settle(noisy(seed, 30, 10, flat)); cut > 0 || state != Settled {
			wrong++
		}
	}
	if wrong > 30 {
		t.Errorf("%d of 1000 steady courses were taken for something else", wrong)
	}
	// Exactly the same each second, as of a machine that does nothing else.
	if cut, state := settle(noisy(1, 30, 0, flat)); cut != 0 || state != Settled {
		t.Errorf("without noise: %d %s", cut, state)
	}
}
