package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/testkit/noise"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// surface is the true cost of each point of a space: a few knobs matter, two of them together, and
// beyond one level of a knob the work is suddenly slow.
type surface struct {
	Space
	slope  []float64 // of each knob, at its best position
	best   []int
	pair   [2]int
	extra  float64 // gained if both knobs of the pair are at their best
	cliff  int
	height float64
}

func newSurface(r *rand.Rand, knobs int, flat bool) *surface {
	s := &surface{height: math.Log(1.3), cliff: -1}
	for i := range knobs {
		s.Knobs = append(s.Knobs, Knob{Name: fmt.Sprint("k", i), Settings: []string{fmt.Sprint("k", i)}, Levels: []string{"0", "1", "2", "3", "4"}, Default: 1 + r.IntN(3), Ordered: true})
		s.slope = append(s.slope, 0)
		s.best = append(s.best, 0)
	}
	if flat {
		return s
	}
	matter := r.Perm(knobs)
	for _, i := range matter[:min(knobs, 3+r.IntN(2))] {
		for s.best[i] = r.IntN(5); s.best[i] == s.Knobs[i].Default; {
			s.best[i] = r.IntN(5)
		}
		s.slope[i] = 0.02 + 0.06*r.Float64()
	}
	s.pair, s.extra = [2]int{matter[0], matter[min(1, knobs-1)]}, 0.03
	s.cliff = matter[min(2, knobs-1)]
	return s
}

// cost returns the true logarithm of a point, 0 at the default, and whether it is off the cliff.
func (s *surface) cost(p Point) (sum float64, off bool) {
	at := func(p Point) float64 {
		sum := 0.0
		for i := range s.Knobs {
			// A parabola: slope below 0 at the best level.
			d := float64(p[i]-s.best[i]) / 4
			sum += s.slope[i] * (16*d*d/4 - 1)
		}
		if p[s.pair[0]] == s.best[s.pair[0]] && p[s.pair[1]] == s.best[s.pair[1]] {
			sum -= s.extra
		}
		return sum
	}
	sum = at(p) - at(s.Default())
	if s.cliff >= 0 {
		far := 4
		if s.best[s.cliff] > s.Knobs[s.cliff].Default {
			far = 0 // away from the best
		}
		if p[s.cliff] == far {
			return sum + s.height, true
		}
	}
	return sum, false
}

// possible returns the lowest cost of all points.
func (s *surface) possible() float64 {
	p := s.Default()
	least := 0.0
	for range 3 { // coordinate by coordinate, then the pair
		for i := range s.Knobs {
			for l := range s.Knobs[i].Levels {
				q := append(Point{}, p...)
				q[i] = l
				if c, _ := s.cost(q); c < least {
					least, p = c, q
				}
			}
		}
	}
	q := append(Point{}, p...)
	q[s.pair[0]], q[s.pair[1]] = s.best[s.pair[0]], s.best[s.pair[1]]
	c, _ := s.cost(q)
	return min(least, c)
}

// found is the result of a simulated search with its proof.
type found struct {
	point    Point
	gain     float64 // true
	proved   bool
	unsafe   int
	runs     int
	ending   Ending
	disliked int     // not permitted
	bound    float64 // of the gain; 0: none is known
}

// simulate makes a search and the experiment that proves its result.
func simulate(s *surface, model noise.Model, runs, blocks int, seed uint64) (f found) {
	r := rand.New(rand.NewPCG(seed, 1))
	next, n := model.Begin(r), 0
	run := func(p Point) float64 {
		c, _ := s.cost(p)
		n++
		return c + next(n-1)
	}
	c := Begin(Design{Space: s.Space, Runs: runs, Margin: 0.02, Seed: seed})
	for c.Next().Phase != Done {
		p := c.Next().Point
		if _, off := s.cost(p); off {
			f.unsafe++
		}
		if s.Allowed != nil && !s.Allowed(p) {
			f.disliked++
		}
		c.Took(run(p), 1)
	}
	f.runs, f.ending = c.Runs(), c.Ended()
	f.bound, _ = c.Bound()
	f.point, _ = c.Best()
	if f.point.Equal(s.Default()) {
		return f
	}
	cost, _ := s.cost(f.point)
	f.gain = -cost
	d := prove.Defaults(prove.Metric{Name: "time", Unit: "s"})
	d.Most, d.Seed, d.Washout = blocks, seed, 0
	e := prove.Begin(d)
	for e.Next().Phase != prove.Done {
		p := s.Default()
		if e.Next().Arm == prove.With {
			p = f.point
		}
		if err := e.Took(prove.Values{"time": math.Exp(run(p))}); err != nil {
			panic(err)
		}
	}
	f.proved = e.Verdict().Word == prove.Better
	return f
}

// night reports whether make test-nightly runs the tests: with the number of searches that
// docs/search.md has figures of.
func night() bool { return os.Getenv("FETTLE_TEST_NIGHTLY") == "1" }

// TestSimulation makes searches with known surfaces. What it asks for is in docs/search.md.
func TestSimulation(t *testing.T) {
	t.Parallel()
	each := 12
	if night() {
		each = 96
	}
	for _, want := range []struct {
		knobs, runs int
		share       float64
	}{{10, 60, 0.6}, {20, 140, 0.6}, {2, 90, 0.6}} {
		for _, model := range noise.Models[:8] {
			t.Run(fmt.Sprintf("%d knobs, %d runs, %s", want.knobs, want.runs, model.Name), func(t *testing.T) {
				if want.knobs > 10 {
					testkitroot.Nightly(t, "a minute for each kind of noise")
				}
				t.Parallel()
				var share, unsafe, all float64
				proved, worse, above, known := 0, 0, 0, 0
				for i := range each {
					s := newSurface(rand.New(rand.NewPCG(uint64(i), 7)), want.knobs, false)
					f := simulate(s, model, want.runs, want.runs/3, uint64(i))
					share += f.gain / -s.possible() / float64(each)
					unsafe += float64(f.unsafe)
					all += float64(f.runs)
					if f.proved {
						proved++
					}
					if f.bound > 0 {
						known++
						if f.bound < -s.possible() {
							above++
						}
					}
					if f.proved && f.gain < 0 {
						worse++
					}
				}
				t.Logf("share of the gain %.2f, proved %d of %d, worse %d, unsafe %.1f %%, gain above the bound %d", share, proved, each, worse, 100*unsafe/all, above)
				if share < want.share-0.1 || worse > 0 || above > each/16+1 || known < each && want.knobs > 3 {
					t.Error("less than asked")
				}
			})
		}
	}
}

// TestFlat makes searches where nothing can be gained.
func TestFlat(t *testing.T) {
	t.Parallel()
	each := 10
	if night() {
		each = 200
	}
	for _, model := range noise.Models[:8] {
		t.Run(model.Name, func(t *testing.T) {
			t.Parallel()
			winners, proofs, runs := 0, 0, 0
			bounds := 0.0
			for i := range each {
				f := simulate(newSurface(rand.New(rand.NewPCG(uint64(i), 8)), 10, true), model, 60, 20, uint64(i))
				runs += f.runs
				bounds += f.bound
				if !f.point.Equal(newSurface(rand.New(rand.NewPCG(uint64(i), 8)), 10, true).Default()) {
					proofs++
				}
				if f.proved {
					winners++
				}
			}
			t.Logf("%d of %d went to the proof, %d winners; %.0f runs on average, bound %.3f", proofs, each, winners, float64(runs)/float64(each), bounds/float64(each))
			if bounds/float64(each) > 0.09 {
				t.Error("the bound says little")
			}
			if winners > each/20+2 {
				t.Errorf("%d of %d searches found a gain where there was none", winners, each)
			}
		})
	}
}

// TestFlatIsTrue makes searches with noise of up to 10 % a run where at least 5 % can be gained: hardly
// any may end by saying that nothing can be gained.
func TestFlatIsTrue(t *testing.T) {
	t.Parallel()
	each, most := 20, 6
	if night() {
		each, most = 200, 10
	}
	for knobs := 6; knobs <= most; knobs += 4 {
		for _, sigma := range []float64{0.02, 0.04, 0.1} {
			t.Run(fmt.Sprintf("%d settings, noise %g %%", knobs, 100*sigma), func(t *testing.T) {
				t.Parallel()
				loud := noise.Model{Name: "independent", Begin: func(r *rand.Rand) func(int) float64 {
					return func(int) float64 { return sigma * r.NormFloat64() }
				}}
				searches, wrong := 0, 0
				for i := range each {
					s := newSurface(rand.New(rand.NewPCG(uint64(i), 9)), knobs, false)
					if s.possible() > -0.05 {
						continue
					}
					searches++
					if simulate(s, loud, 60, 20, uint64(i)).ending == EndedFlat {
						wrong++
					}
				}
				t.Logf("%d of %d ended with nothing to gain although 5 %% could be gained", wrong, searches)
				if searches < each/2 || wrong > searches/20+1 {
					t.Error("too many, or too few searches")
				}
			})
		}
	}
}
