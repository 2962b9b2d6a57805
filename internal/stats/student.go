package stats

import "math"

// StudentQuantile returns the p-quantile (0.5 <= p < 1) of Student's t distribution with df
// degrees of freedom. df need not be a whole number.
func StudentQuantile(p, df float64) float64 {
	low, high := 0.0, 1.0
	for studentCDF(high, df) < p && high < 1e12 {
		high *= 2
	}
	return bisect(low, high, 1e-10*high, func(t float64) bool { return studentCDF(t, df) < p })
}

// studentCDF returns the probability of a value of at most t, for t >= 0 (Abramowitz and
// Stegun 26.7.1).
func studentCDF(t, df float64) float64 { return 1 - incompleteBeta(df/(df+t*t), df/2, 0.5)/2 }

// incompleteBeta returns the regularized incomplete beta function I_x(a, b),
// from its continued fraction (Abramowitz and Stegun 26.5.8) by Lentz's method.
func incompleteBeta(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2): // converges slowly there
		return 1 - incompleteBeta(1-x, b, a)
	}
	all, _ := math.Lgamma(a + b)
	first, _ := math.Lgamma(a)
	second, _ := math.Lgamma(b)
	front := math.Exp(all-first-second+a*math.Log(x)+b*math.Log1p(-x)) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := range 500 {
		m := float64(i / 2)
		term := 1.0
		switch {
		case i == 0:
		case i%2 == 0:
			term = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			term = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if d = 1 + term*d; math.Abs(d) < tiny {
			d = tiny
		}
		if c = 1 + term/c; math.Abs(c) < tiny {
			c = tiny
		}
		d = 1 / d
		f *= c * d
		if math.Abs(c*d-1) < 1e-14 {
			break
		}
	}
	return front * (f - 1)
}

// Welch returns the difference of two means, second minus first, and half the width of its
// confidence interval. It does not assume equal variances (Welch 1947, with Satterthwaite's
// degrees of freedom). The width is infinite if a sample has fewer than two values. Values
// must be independent.
func Welch(first, second []float64, alpha float64) (difference, half float64) {
	difference = Mean(second) - Mean(first)
	if len(first) < 2 || len(second) < 2 {
		return difference, math.Inf(1)
	}
	n, m := float64(len(first)), float64(len(second))
	a, b := SD(first)*SD(first)/n, SD(second)*SD(second)/m
	if a+b == 0 {
		return difference, 0
	}
	df := (a + b) * (a + b) / (a*a/(n-1) + b*b/(m-1))
	return difference, StudentQuantile(1-alpha/2, df) * math.Sqrt(a+b)
}
