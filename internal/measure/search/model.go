package search

import (
	"math"
	"math/rand/v2"
)

// model is a Bayesian linear regression through the origin: cost = features * weights + noise,
// with independent normal priors on the weights and normal noise. Their two scales are chosen
// where the observed costs are the most probable (empirical Bayes), so that a space in which
// nothing matters gets small weights.
type model struct {
	mean   []float64
	factor [][]float64 // lower Cholesky factor of the posterior precision
}

// observation is a measured point: its features, and its cost minus that of the default.
type observation struct {
	x []float64
	y float64
}

// Scales that are tried, as differences of logarithms: from below the noise of any machine to a
// factor of e.
var scales = []float64{0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.4}

// fit returns the posterior. The weights' scale is at least least, so that a search that has seen
// little still looks around.
func fit(obs []observation, width int, least float64) *model {
	gram, moment, square := sums(obs, width)
	best, at := math.Inf(-1), (*model)(nil)
	for _, noise := range scales[:len(scales)-1] {
		for _, prior := range scales {
			if prior < least {
				continue
			}
			precision := make([][]float64, width)
			right := make([]float64, width)
			for i := range precision {
				precision[i] = make([]float64, width)
				for j := range precision[i] {
					precision[i][j] = gram[i][j] / (noise * noise)
				}
				precision[i][i] += 1 / (prior * prior)
				right[i] = moment[i] / (noise * noise)
			}
			l := cholesky(precision)
			mean := backward(l, forward(l, right))
			n := float64(len(obs))
			evidence := -n*math.Log(noise) - float64(width)*math.Log(prior) - square/(2*noise*noise)
			for i := range mean {
				evidence += mean[i]*right[i]/2 - math.Log(l[i][i])
			}
			if evidence > best {
				best, at = evidence, &model{mean, l}
			}
		}
	}
	return at
}

// sums returns X'X, X'y and y'y.
func sums(obs []observation, width int) (gram [][]float64, moment []float64, square float64) {
	gram, moment = make([][]float64, width), make([]float64, width)
	for i := range gram {
		gram[i] = make([]float64, width)
	}
	for _, o := range obs {
		square += o.y * o.y
		for i, xi := range o.x {
			if xi == 0 {
				continue
			}
			moment[i] += xi * o.y
			for j, xj := range o.x {
				gram[i][j] += xi * xj
			}
		}
	}
	return gram, moment, square
}

// sample draws weights from the posterior.
func (m *model) sample(r *rand.Rand) []float64 {
	z := make([]float64, len(m.mean))
	for i := range z {
		z[i] = r.NormFloat64()
	}
	w := backward(m.factor, z)
	for i := range w {
		w[i] += m.mean[i]
	}
	return w
}

// cholesky returns the lower factor L of a positive definite matrix A = LL'.
func cholesky(a [][]float64) [][]float64 {
	l := make([][]float64, len(a))
	for i := range a {
		l[i] = make([]float64, len(a))
		for j := 0; j <= i; j++ {
			sum := a[i][j]
			for k := range j {
				sum -= l[i][k] * l[j][k]
			}
			if i == j {
				l[i][i] = math.Sqrt(sum)
			} else {
				l[i][j] = sum / l[j][j]
			}
		}
	}
	return l
}

// forward solves Lx = b.
func forward(l [][]float64, b []float64) []float64 {
	x := make([]float64, len(b))
	for i := range b {
		x[i] = b[i]
		for k := range i {
			x[i] -= l[i][k] * x[k]
		}
		x[i] /= l[i][i]
	}
	return x
}

// backward solves L'x = b.
func backward(l [][]float64, b []float64) []float64 {
	x := make([]float64, len(b))
	for i := len(b) - 1; i >= 0; i-- {
		x[i] = b[i]
		for k := i + 1; k < len(b); k++ {
			x[i] -= l[k][i] * x[k]
		}
		x[i] /= l[i][i]
	}
	return x
}

func dot(x, w []float64) (sum float64) {
	for i := range x {
		sum += x[i] * w[i]
	}
	return sum
}
