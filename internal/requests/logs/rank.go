package logs

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// Sorts lists the values of --sort: statistics by which groups are sorted, largest first.
var Sorts = []string{"total", "count", "mean", "max", "errors", "p50", "p90", "p95", "p99", "p99.9"}

var quantiles = []struct {
	name string
	q    float64
}{{"p50", .5}, {"p90", .9}, {"p95", .95}, {"p99", .99}, {"p99.9", .999}}

func byKey(t *Table) []int {
	all := make([]int, t.Len())
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(a, b int) int { return bytes.Compare(t.Text(a), t.Text(b)) })
	return all
}

// order returns the indices of a table's groups, sorted by a statistic of Sorts: largest
// first, equal ones by key. It returns only the first top groups, or all if top is 0.
func order(t *Table, by string, top int) []int {
	type ranked struct {
		i     int
		worth float64
	}
	before := func(a, b ranked) int {
		if c := cmp.Compare(b.worth, a.worth); c != 0 {
			return c
		}
		return bytes.Compare(t.Text(a.i), t.Text(b.i))
	}
	// Sorting hundreds of thousands of groups would take as long as reading a quarter of the
	// log, but only the first ones are needed.
	few := top > 0 && top <= 1000
	var best []ranked
	for i := range t.Len() {
		one := ranked{i, worth(t, i, by)}
		if !few {
			best = append(best, one)
			continue
		}
		if len(best) == top {
			if before(one, best[top-1]) > 0 {
				continue
			}
			best = best[:top-1]
		}
		at, _ := slices.BinarySearchFunc(best, one, before)
		best = slices.Insert(best, at, one)
	}
	if !few {
		slices.SortFunc(best, before)
	}
	if top > 0 {
		best = best[:min(len(best), top)]
	}
	out := make([]int, len(best))
	for k, b := range best {
		out[k] = b.i
	}
	return out
}

// worth returns the sort key of a group, or -1 if the group lacks the statistic.
func worth(t *Table, i int, by string) float64 {
	s := t.At(i)
	var value float64
	switch by {
	case "count":
		value = float64(s.Count)
	case "mean":
		value = s.Mean()
	case "max":
		value = float64(s.Max)
	case "errors":
		value = float64(s.Errors)
	case "total":
		value = float64(s.Sum)
		if s.Timed() == 0 {
			value = -1 / float64(s.Count+1) // no durations: sort by count
		}
	default:
		for _, q := range quantiles {
			if q.name == by {
				value = t.Quantiles(i, []float64{q.q})[0]
			}
		}
	}
	if math.IsNaN(value) {
		return -1
	}
	return value
}
