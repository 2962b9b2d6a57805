// Package noise generates the noise of machines for the simulations of experiments and searches.
package noise

import (
	"math"
	"math/rand/v2"
)

// Model is a kind of noise. Begin returns the logarithm of the time of each consecutive run of the
// same work, relative to its usual time.
type Model struct {
	Name  string
	Begin func(r *rand.Rand) func(run int) float64
}

// Sigma is the noise of a run where a model does not say more.
const Sigma = 0.02

// Models are the models with which the methods were chosen and are tested.
var Models = []Model{
	{"independent", func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return Sigma * r.NormFloat64() }
	}},
	{"linear drift of 6 % in 40 runs", func(r *rand.Rand) func(int) float64 {
		return func(i int) float64 { return 0.06*float64(i)/40 + Sigma*r.NormFloat64() }
	}},
	{"random walk, 0.8 % a run", func(r *rand.Rand) func(int) float64 {
		at := 0.0
		return func(int) float64 { at += 0.008 * r.NormFloat64(); return at + Sigma*r.NormFloat64() }
	}},
	{"autocorrelated, 0.7", func(r *rand.Rand) func(int) float64 {
		at := 0.0
		return func(int) float64 { at = 0.7*at + Sigma*r.NormFloat64(); return at }
	}},
	{"a step of 8 %", func(r *rand.Rand) func(int) float64 {
		when := r.IntN(120)
		return func(i int) float64 {
			if i >= when {
				return 0.08 + Sigma*r.NormFloat64()
			}
			return Sigma * r.NormFloat64()
		}
	}},
	{"spikes: every tenth run 10 to 50 % longer", func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return spike(r) + Sigma*r.NormFloat64() }
	}},
	{"a period of two runs", func(r *rand.Rand) func(int) float64 {
		return func(i int) float64 { return 0.05*float64(i%2) + Sigma*r.NormFloat64() }
	}},
	{"two modes, 6 % apart", func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return 0.06*float64(r.IntN(2)) + Sigma*r.NormFloat64() }
	}},
	{"a coarse clock: four values, mostly one", func(r *rand.Rand) func(int) float64 {
		steps := []float64{0, 0, 0, 0, 0.01, 0.01, -0.01, 0.03}
		return func(int) float64 { return steps[r.IntN(len(steps))] }
	}},
	{"a period of four runs", func(r *rand.Rand) func(int) float64 {
		return func(i int) float64 { return 0.1*float64(i/2%2) + 0.002*r.NormFloat64() }
	}},
	{"ten times the noise after the first verdict", func(r *rand.Rand) func(int) float64 {
		return func(i int) float64 {
			if i < 26 {
				return 0.002 * r.NormFloat64()
			}
			return 0.02 * r.NormFloat64()
		}
	}},
	{"a period of four runs that begins after the first verdict", func(r *rand.Rand) func(int) float64 {
		return func(i int) float64 {
			if i < 26 {
				return 0.002 * r.NormFloat64()
			}
			return 0.1*float64(i/2%2) + 0.002*r.NormFloat64()
		}
	}},
	{"all at once", func(r *rand.Rand) func(int) float64 {
		walk, auto, when := 0.0, 0.0, r.IntN(120)
		return func(i int) float64 {
			walk += 0.008 * r.NormFloat64()
			auto = 0.7*auto + Sigma*r.NormFloat64()
			at := walk + auto + spike(r) + 0.06*float64(i)/40 + 0.05*float64(i%2) + 0.06*float64(r.IntN(2))
			if i >= when {
				at += 0.08
			}
			return at
		}
	}},
}

func spike(r *rand.Rand) float64 {
	if r.Float64() < 0.1 {
		return math.Log(1.1 + 0.4*r.Float64())
	}
	return 0
}
