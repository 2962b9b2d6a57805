package stats

import "slices"

// Holm says which of several hypotheses, with these p-values, can be rejected when
// the chance of one wrong rejection among all is to be at most alpha (Holm 1979).
func Holm(p []float64, alpha float64) []bool {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	rejected := make([]bool, len(p))
	for i, at := range order {
		if p[at] > alpha/float64(len(p)-i) {
			break
		}
		rejected[at] = true
	}
	return rejected
}
