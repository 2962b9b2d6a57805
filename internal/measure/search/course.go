package search

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"fettle.dev/fettle/internal/stats"
)

// Design is decided before the first run and does not change.
type Design struct {
	Space
	Runs    int     `json:"runs"`     // at most, 12 to 1,000; runs with the default included
	BudgetS float64 `json:"budget_s"` // no run begins after this time; 0: no limit
	// Margin is the smallest gain that matters, as a difference of logarithms, above 0.
	Margin float64 `json:"margin"`
	Seed   uint64  `json:"seed"`
}

// Bounds of the number of runs of a search. Each run is compared with all earlier ones.
const (
	FewestRuns = 12
	MostRuns   = 1000
)

// Check returns an error unless the search can be made.
func (d Design) Check() error {
	errs := []error{d.Space.Check()}
	if d.Runs < FewestRuns || d.Runs > MostRuns {
		errs = append(errs, fmt.Errorf("want %d to %d runs, not %d", FewestRuns, MostRuns, d.Runs))
	}
	if d.Margin <= 0 || d.BudgetS < 0 {
		errs = append(errs, errors.New("want a margin and a budget above 0"))
	}
	if d.Allowed != nil && !d.Allowed(d.Default()) {
		errs = append(errs, errors.New("the rules of the space do not permit the present values"))
	}
	return errors.Join(errs...)
}

// Phase is a part of a search.
type Phase string

// Phases: Explore looks for good points. Race repeats the best of them, with the default, in
// rounds, and drops those that fall behind.
const (
	Explore Phase = "explore"
	Race    Phase = "race"
	Done    Phase = "done"
)

// Step is a run to make.
type Step struct {
	Phase Phase `json:"phase"`
	Run   int   `json:"run"` // from 0
	Point Point `json:"point"`
}

// taken is a run that was made.
type taken struct {
	Step
	cost    float64 // logarithm; less is better
	stopped bool    // by a brake; then cost is meaningless
}

// Course is the state of a search. Next returns the run to make; Took or Stopped records it. An
// interrupted search continues in a new Course that takes the old runs again: the same design and
// the same runs lead to the same next run.
type Course struct {
	design Design
	taken  []taken
	spent  float64 // seconds
	next   Step
	racing []Point // those still in the race
	all    bool    // the race began with all combinations
	queue  []Point // the rest of this round
	round  int
	ended  Ending
}

// Ending is the reason why no more runs are made.
type Ending string

// The endings.
const (
	EndedRuns Ending = "runs" // or time
	EndedFlat Ending = "flat" // hardly any point can gain the margin
	EndedLead Ending = "lead" // besides the default, one point is left
)

// exploring is the share of the runs, or of the time, until the race.
const exploring = 0.7

// defaultEvery is how often the default is run while exploring: costs are compared with it, so
// that drift of the machine does not count.
const defaultEvery = 4

// fewestTried is the number of runs other than the default before a search may end as flat.
const fewestTried = 12

// Begin starts a search with a checked design.
func Begin(d Design) *Course {
	c := &Course{design: d}
	// With few combinations each is measured, and nothing has to be modeled.
	if limit := d.Runs / 3; len(d.Knobs) <= 3 && d.Size(limit+1) <= limit {
		c.racing, c.all = d.all(), true
	}
	c.advance()
	return c
}

// Next returns the run to make, or a step with phase Done.
func (c *Course) Next() Step { return c.next }

// Ended returns the reason why the search ended, or "".
func (c *Course) Ended() Ending { return c.ended }

// Runs returns how many runs were made.
func (c *Course) Runs() int { return len(c.taken) }

// Took records the cost of the run from Next, a logarithm of which less is better, and its time.
func (c *Course) Took(cost, seconds float64) {
	c.take(taken{Step: c.next, cost: cost}, seconds)
	c.advance()
}

// Stopped records that a brake stopped the run from Next. Its point is not tried again, nor is any
// point beyond it.
func (c *Course) Stopped(seconds float64) {
	c.take(taken{Step: c.next, stopped: true}, seconds)
	c.racing = slices.DeleteFunc(c.racing, func(p Point) bool { return !c.permits(p) })
	c.queue = slices.DeleteFunc(c.queue, func(p Point) bool { return !c.permits(p) })
	c.advance()
}

func (c *Course) take(t taken, seconds float64) {
	c.taken = append(c.taken, t)
	c.spent += seconds
}

// progress returns the used share of the runs or the time, whichever is larger.
func (c *Course) progress() float64 {
	p := float64(len(c.taken)) / float64(c.design.Runs)
	if c.design.BudgetS > 0 {
		p = max(p, c.spent/c.design.BudgetS)
	}
	return p
}

// advance decides the next run.
func (c *Course) advance() {
	c.next = Step{Phase: Done, Run: len(c.taken)}
	if c.ended != "" {
		return
	}
	r := rand.New(rand.NewPCG(c.design.Seed, uint64(len(c.taken))))
	if c.racing == nil {
		if c.progress() < exploring {
			if c.flat() {
				c.ended = EndedFlat
				return
			}
			p := c.propose(r)
			if len(c.taken)%defaultEvery == 0 || !p.Equal(c.design.Default()) {
				c.next.Phase, c.next.Point = Explore, p
				return
			}
			// Brakes exclude all that could be tried.
		}
		c.racing = c.candidates()
	}
	if len(c.queue) == 0 {
		c.drop()
		c.round++
		c.queue = slices.Clone(c.racing)
		r.Shuffle(len(c.queue), func(i, j int) { c.queue[i], c.queue[j] = c.queue[j], c.queue[i] })
		if len(c.taken) == 0 {
			// The default first: work that always fails must not seem to fail because of a value.
			at := slices.IndexFunc(c.queue, c.design.Default().Equal)
			c.queue[0], c.queue[at] = c.queue[at], c.queue[0]
		}
	}
	switch {
	case c.progress() >= 1:
		c.ended = EndedRuns
		if c.all && c.outrun() {
			c.ended = EndedFlat
		}
		return
	case len(c.racing) <= 1:
		c.ended = EndedRuns // only the default is left
		if c.all {
			c.ended = EndedFlat
		}
		return
	case len(c.racing) == 2 && c.round > fewestRounds:
		c.ended = EndedLead
		return
	}
	c.next.Phase, c.next.Point = Race, c.queue[0]
	c.queue = c.queue[1:]
}

// permits reports whether a point may be run.
func (c *Course) permits(p Point) bool {
	if c.design.Allowed != nil && !c.design.Allowed(p) {
		return false
	}
	return !slices.ContainsFunc(c.taken, func(t taken) bool { return t.stopped && c.design.beyond(p, t.Point) })
}

// propose returns the next point to explore. Every fourth point is the default. For the others it
// draws a model at random from the posterior (Thompson sampling). Half of them are the best point
// of that model; the other half take only two knobs from it, and all others from the best point so
// far.
func (c *Course) propose(r *rand.Rand) Point {
	if len(c.taken)%defaultEvery == 0 {
		return c.design.Default()
	}
	obs := c.observations()
	m := fit(obs, c.width(), leastPrior)
	incumbent := c.incumbent(m)
	for range 50 {
		w := m.sample(r)
		p := c.best(w)
		if r.IntN(2) == 0 {
			q := slices.Clone(incumbent)
			for _, i := range r.Perm(len(q))[:min(2, len(q))] {
				q[i] = p[i]
			}
			p = q
		}
		if !p.Equal(c.design.Default()) && c.permits(p) {
			return p
		}
	}
	return c.random(m.sample(r), r)
}

// leastPrior is the least prior scale of the weights while exploring.
const leastPrior = 0.01

// random returns the best by the weights of many permitted random points, or the default.
func (c *Course) random(w []float64, r *rand.Rand) Point {
	best, least := c.design.Default(), math.Inf(1)
	for range 500 {
		p := make(Point, len(c.design.Knobs))
		for i, k := range c.design.Knobs {
			p[i] = r.IntN(len(k.Levels))
		}
		if cost := dot(c.design.features(p), w); cost < least && !p.Equal(c.design.Default()) && c.permits(p) {
			best, least = p, cost
		}
	}
	return best
}

// width returns the number of features of a point.
func (c *Course) width() int { return len(c.design.features(c.design.Default())) }

// best returns the point with the least cost by a model's weights, permitted or not. The model is
// a sum over the knobs, so each is chosen by itself.
func (c *Course) best(w []float64) Point {
	p := c.design.Default()
	for i, k := range c.design.Knobs {
		n, least := len(k.features(k.Default)), 0.0
		for l := range k.Levels {
			if cost := dot(k.features(l), w[:n]); cost < least {
				p[i], least = l, cost
			}
		}
		w = w[n:]
	}
	return p
}

// incumbent returns the tried point that the model expects to be the best; it may be the default.
func (c *Course) incumbent(m *model) Point {
	best, least := c.design.Default(), 0.0
	for _, t := range c.taken {
		if cost := dot(c.design.features(t.Point), m.mean); cost < least && c.permits(t.Point) {
			best, least = t.Point, cost
		}
	}
	return best
}

// observations returns the runs other than the default, each with its cost minus that of the
// default at that time.
func (c *Course) observations() (obs []observation) {
	var costs []float64
	for _, t := range c.taken {
		if t.stopped || t.Point.Equal(c.design.Default()) {
			continue
		}
		y := t.cost - c.level(t.Run)
		obs = append(obs, observation{c.design.features(t.Point), y})
		costs = append(costs, y)
	}
	// A run that another program disturbed is slower, never faster.
	if len(obs) >= 8 {
		most := stats.Median(costs) + 4*stats.MAD(costs)
		for i := range obs {
			obs[i].y = min(obs[i].y, most)
		}
	}
	return obs
}

// level returns the cost of the default around a run: the weighted median of all runs with the
// default. A run weighs more the nearer it is.
func (c *Course) level(run int) float64 {
	type weighted struct{ cost, weight float64 }
	var all []weighted
	sum := 0.0
	for _, t := range c.taken {
		if !t.stopped && t.Point.Equal(c.design.Default()) {
			w := math.Exp(-math.Abs(float64(t.Run-run)) / (2 * defaultEvery))
			all = append(all, weighted{t.cost, w})
			sum += w
		}
	}
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.cost, b.cost) })
	below := 0.0
	for _, a := range all {
		if below += a.weight; below >= sum/2 {
			return a.cost
		}
	}
	return 0
}

// flat reports whether, by what is known, hardly any point can gain the margin. It asks for at
// least twelve runs other than the default.
func (c *Course) flat() bool {
	if len(c.taken)%defaultEvery != 0 {
		return false
	}
	bound, ok := c.Bound()
	return ok && bound < c.design.Margin
}

// Bound returns the gain, as a difference of logarithms, that no point exceeds with a probability
// of 95 %, by the model. Points that brakes or rules exclude count too. ok is false after fewer
// than twelve runs other than the default. It is also false if each combination was measured: that
// needs no model.
func (c *Course) Bound() (gain float64, ok bool) {
	obs := c.observations()
	if c.all || len(obs) < fewestTried {
		return 0, false
	}
	r := rand.New(rand.NewPCG(c.design.Seed, uint64(len(c.taken))))
	m := fit(obs, c.width(), 0)
	gains := make([]float64, 200)
	for i := range gains {
		w := m.sample(r)
		gains[i] = -dot(c.design.features(c.best(w)), w)
	}
	return stats.Quantile(gains, 0.95), true
}
