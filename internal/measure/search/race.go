package search

import (
	"cmp"
	"math"
	"slices"

	"fettle.dev/fettle/internal/stats"
)

// fewestRounds is the number of rounds of a race before a point may be dropped.
const fewestRounds = 3

// candidates returns the points of the race: the best by the model, the two best of those tried,
// and the default.
func (c *Course) candidates() []Point {
	out := []Point{c.design.Default()}
	add := func(p Point) bool {
		if slices.ContainsFunc(out, p.Equal) || !c.permits(p) {
			return false
		}
		out = append(out, p)
		return true
	}
	obs := c.observations()
	if len(obs) == 0 {
		return out
	}
	m := fit(obs, c.width(), 0)
	add(c.best(m.mean))
	type tried struct {
		point Point
		costs []float64
		cost  float64
	}
	var all []tried
	for _, t := range c.taken {
		if t.stopped || t.Point.Equal(c.design.Default()) {
			continue
		}
		at := slices.IndexFunc(all, func(a tried) bool { return a.point.Equal(t.Point) })
		if at < 0 {
			at, all = len(all), append(all, tried{point: t.Point})
		}
		all[at].costs = append(all[at].costs, t.cost-c.level(t.Run))
	}
	// The expectation of the model and what was seen at the point itself, half each: a single
	// run is noisy, and the model knows no interactions.
	for i, a := range all {
		all[i].cost = (stats.Median(a.costs) + dot(c.design.features(a.point), m.mean)) / 2
	}
	slices.SortStableFunc(all, func(a, b tried) int { return cmp.Compare(a.cost, b.cost) })
	for _, a := range all {
		if len(out) == 4 {
			break
		}
		add(a.point)
	}
	return out
}

// rounds returns the costs of a point in the race, one for each round in which it and the default
// were run, minus the default's.
func (c *Course) rounds(p Point) (costs []float64) {
	var at, without float64
	var has, hasWithout bool
	for _, t := range c.taken {
		if t.Phase != Race || t.stopped {
			continue
		}
		isDefault := t.Point.Equal(c.design.Default())
		switch {
		case isDefault:
			without, hasWithout = t.cost, true
		case t.Point.Equal(p):
			at, has = t.cost, true
		}
		if has && hasWithout {
			costs = append(costs, at-without)
			has, hasWithout = false, false
		}
	}
	return costs
}

// drop ends a round: it drops the points that are clearly behind the leader.
func (c *Course) drop() {
	if c.round < fewestRounds {
		return
	}
	all := map[int][]float64{}
	leader, least := -1, math.Inf(1)
	for i, p := range c.racing {
		all[i] = make([]float64, c.round) // the default's difference from itself
		if !p.Equal(c.design.Default()) {
			all[i] = c.rounds(p)
		}
		if cost := center(all[i]); cost < least {
			leader, least = i, cost
		}
	}
	var scales []float64
	behind := func(i int) (d []float64) {
		for r := range min(len(all[i]), len(all[leader])) {
			d = append(d, all[i][r]-all[leader][r])
		}
		return d
	}
	for i := range c.racing {
		if i != leader {
			scales = append(scales, stats.SD(behind(i)))
		}
	}
	// One scale for all: each point has only a few runs. The median is safe from a single
	// disturbed run.
	limit := 2.5 * stats.Median(scales) / math.Sqrt(float64(c.round))
	var left []Point
	for i, p := range c.racing {
		if i == leader || p.Equal(c.design.Default()) || center(behind(i)) <= limit {
			left = append(left, p)
		}
	}
	c.racing = left
}

// outrun reports whether each point that is left in the race is worse than the default plus the
// margin, by twice its standard error.
func (c *Course) outrun() bool {
	for _, p := range c.racing {
		costs := c.rounds(p)
		if p.Equal(c.design.Default()) {
			continue
		}
		if len(costs) < fewestRounds || 2*stats.SD(costs)/math.Sqrt(float64(len(costs)))-center(costs) >= c.design.Margin {
			return false
		}
	}
	return true
}

// center returns a mean that a few disturbed runs move little: values far from the median count as
// if they were nearer.
func center(x []float64) float64 {
	middle, far := stats.Median(x), 3*stats.MAD(x)
	limited := make([]float64, len(x))
	for i, v := range x {
		limited[i] = min(max(v, middle-far), middle+far)
	}
	return stats.Mean(limited)
}

// Best returns the best point of the race, and the logarithm by which its cost was less than the
// default's. It is the default, with no gain, if no point gained the margin. The gain is
// overestimated, because the luckiest point wins.
func (c *Course) Best() (p Point, gain float64) {
	p = c.design.Default()
	for _, q := range c.racing {
		if costs := c.rounds(q); len(costs) > 0 && -center(costs) > max(gain, c.design.Margin) {
			p, gain = q, -center(costs)
		}
	}
	return p, gain
}
