package prove

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/testkit/noise"
)

const sigma = noise.Sigma

// machine is a machine with one switch. While the switch is on, the work takes longer by a given
// logarithm. The machine has its own clock.
type machine struct {
	noise   func(sample int) float64
	effect  float64
	on      bool
	samples int
	clock   time.Time

	applied, undone int
	fail            func(sample int) error // of the work
	stuck           error                  // of Undo
	after           []float64              // by how much the samples after a switch take longer
	afterOn         bool                   // only where the switch is on
	since           int                    // samples since the last switch
	also            Values                 // measured in addition to the time
}

func (m *machine) Now() time.Time { return m.clock }

func (m *machine) switched() { m.since = 0; m.clock = m.clock.Add(50 * time.Millisecond) }

func (m *machine) Apply(context.Context) error { m.switched(); m.applied++; m.on = true; return nil }

func (m *machine) Undo(context.Context) error {
	if m.stuck != nil {
		return m.stuck
	}
	m.switched()
	m.undone++
	m.on = false
	return nil
}

func (m *machine) Holds(_ context.Context, a Arm) error {
	if m.on != (a == With) {
		return fmt.Errorf("arm %s, switch %v", a, m.on)
	}
	return nil
}

func (m *machine) Measure(context.Context, Step) (Measurement, error) {
	log := m.noise(m.samples)
	if m.on {
		log += m.effect
	}
	if m.since < len(m.after) && (m.on || !m.afterOn) {
		log += m.after[m.since]
	}
	m.since++
	m.samples++
	m.clock = m.clock.Add(time.Duration(math.Exp(log) * float64(time.Second)))
	if m.fail != nil {
		if err := m.fail(m.samples); err != nil {
			return Measurement{}, err
		}
	}
	v := Values{"time": math.Exp(log)}
	maps.Copy(v, m.also)
	return Measurement{Values: v}, nil
}

// experiment is an experiment on m that stores its record in memory.
func (m *machine) experiment(d Design, record *[]Sample) *Experiment {
	return &Experiment{Design: d, Change: m, Workload: m, Clock: m, Record: func(v Sample) error {
		if record != nil {
			*record = append(*record, v)
		}
		return nil
	}}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 99)) }

// simulate runs an experiment whose change makes the work longer by the logarithm effect. It
// returns the result, and whether the interval excluded the effect at any look.
func simulate(t *testing.T, d Design, n noise.Model, effect float64) (v Verdict, samples int, missed bool) {
	m := &machine{noise: n.Begin(newRand(d.Seed)), effect: effect}
	e := m.experiment(d, nil)
	e.Progress = func(c *Course, _ Sample) {
		if c.Counted() > 0 {
			missed = missed || !c.tracks[0].interval.Contains(effect)
		}
	}
	c, _, err := e.Run(t.Context(), nil)
	if err != nil || m.on {
		t.Errorf("switch %v, %v", m.on, err)
	}
	return c.Verdict(), m.samples, missed
}

// tally counts the results of several experiments.
type tally struct {
	words   map[Word]int
	missed  int
	samples []float64
	n       int
}

func (y tally) share(w Word) float64 { return 100 * float64(y.words[w]) / float64(y.n) }

func (y tally) String() string {
	return fmt.Sprintf("faster %.1f %%, slower %.1f %%, no effect %.1f %%, cannot tell %.1f %%; interval ever wrong %.1f %%; median of runs %.0f",
		y.share(Better), y.share(Worse), y.share(NoEffect), y.share(CannotTell), 100*float64(y.missed)/float64(y.n), stats.Median(y.samples))
}

// many runs n experiments with the same seeds in each run of the test.
func many(t *testing.T, d Design, model noise.Model, effect float64, n int) tally {
	t.Helper()
	y := tally{words: map[Word]int{}, n: n}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := w; i < n; i += runtime.GOMAXPROCS(0) {
				d := d
				d.Seed = uint64(i) + 1
				v, samples, missed := simulate(t, d, model, effect)
				mu.Lock()
				y.words[v.Word]++
				y.samples = append(y.samples, float64(samples))
				if missed {
					y.missed++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return y
}

var experiments = flag.Int("experiments", 0, "simulated experiments of each kind; 0: 2,000 at night, 400 by day, 200 with -short")

// count returns the number of experiments: a smaller one by day, and for -short one with which the
// tests detect only large errors.
func count() int {
	switch {
	case *experiments > 0:
		return *experiments
	case testing.Short():
		return 200
	case os.Getenv("FETTLE_TEST_NIGHTLY") == "1":
		return 2000
	}
	return 400
}

// mostWrong returns how many of n experiments may be wrong: one in twenty. The few experiments of a
// day may exceed that by two standard deviations.
func mostWrong(n int) int {
	most := float64(n) / 20
	if os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
		most += 2 * math.Sqrt(most*0.95)
	}
	return int(most)
}

// TestFalseAlarms tests that without an effect at most one experiment in twenty finds one, and that
// the interval is wrong at any look at most as often, under every noise model.
func TestFalseAlarms(t *testing.T) {
	for _, m := range noise.Models {
		y := many(t, Defaults(Metric{Name: "time", Unit: "s"}), m, 0, count())
		t.Logf("%s: %v", m.Name, y)
		if wrong := y.words[Better] + y.words[Worse]; wrong > mostWrong(y.n) {
			t.Errorf("%s: %d of %d are false alarms", m.Name, wrong, y.n)
		}
		if y.missed > mostWrong(y.n) {
			t.Errorf("%s: the interval excluded the truth in %d of %d", m.Name, y.missed, y.n)
		}
	}
}

// TestPower tests that an effect is found with the right sign, and that the answer respects the
// margin. The required shares are slightly below the observed ones.
func TestPower(t *testing.T) {
	for _, x := range []struct {
		model   string
		effect  float64 // of the time, in percent
		word    Word
		atLeast float64 // percent of the experiments
	}{
		{"independent", -2, Better, 95},
		{"independent", 5, Worse, 99},
		{"independent", 0, NoEffect, 93},
		{"linear drift of 6 % in 40 runs", -2, Better, 95},
		{"random walk, 0.8 % a run", -2, Better, 93},
		{"random walk, 0.8 % a run", 0, NoEffect, 92},
		{"autocorrelated, 0.7", -2, Better, 90},
		{"a step of 8 %", -2, Better, 93},
		{"spikes: every tenth run 10 to 50 % longer", -5, Better, 98},
		{"a period of two runs", -2, Better, 88}, // a longer warm-up can fall into step with it
		{"two modes, 6 % apart", 5, Worse, 98},
		{"a coarse clock: four values, mostly one", -5, Better, 99},
		{"all at once", -10, Better, 95},
		{"all at once", 0, CannotTell, 85}, // what a bad machine has to answer
	} {
		for _, m := range noise.Models {
			if m.Name != x.model {
				continue
			}
			y := many(t, Defaults(Metric{Name: "time", Unit: "s"}), m, math.Log1p(x.effect/100), count()/2)
			t.Logf("%s, %+.0f %%: %v", m.Name, x.effect, y)
			atLeast := x.atLeast
			if testing.Short() {
				atLeast -= 12
			}
			if got := y.share(x.word); got < atLeast {
				t.Errorf("%s, %+.0f %%: %q in %.1f %%, at least %.0f %% wanted", m.Name, x.effect, x.word, got, atLeast)
			}
		}
	}
}

// TestRunsNotRequests tests that runs count, not requests, if the requests of one run are alike.
// Comparing all requests as independent samples finds an effect in more than half of all
// experiments without one; the blocks do not.
func TestRunsNotRequests(t *testing.T) {
	const requests, share = 50, 0.8 // the share of the variance that lies between runs
	one := func(r *rand.Rand) []float64 {
		level := math.Sqrt(share) * r.NormFloat64()
		run := make([]float64, requests)
		for i := range run {
			run[i] = 0.05 * (level + math.Sqrt(1-share)*r.NormFloat64())
		}
		return run
	}
	y := many(t, Defaults(Metric{Name: "time", Unit: "s"}), noise.Model{Begin: func(r *rand.Rand) func(int) float64 {
		return func(int) float64 { return stats.Mean(one(r)) }
	}}, 0, count())
	t.Logf("by runs: %v", y)
	if wrong := y.words[Better] + y.words[Worse]; wrong > mostWrong(y.n) {
		t.Errorf("%d of %d are false alarms", wrong, y.n)
	}
	r := rand.New(rand.NewPCG(11, 12))
	naive := 0
	for range count() {
		var all [2][]float64
		var runs []stats.Summary
		for i := range 40 {
			run := one(r)
			runs = append(runs, stats.Summarize(run))
			all[i%2] = append(all[i%2], run...)
		}
		if math.Abs(welch(all[0], all[1])) > 1.96 {
			naive++
		}
		if b := stats.BetweenRuns(runs); b < 0.6 || b > 0.95 {
			t.Errorf("share between runs: %v", b)
		}
	}
	if share := float64(naive) / float64(count()); share < 0.5 {
		t.Errorf("requests as samples: %.1f %% false alarms; this test no longer shows what it is for", 100*share)
	}
}

// welch is Welch's t.
func welch(a, b []float64) float64 {
	va, vb := stats.SD(a), stats.SD(b)
	return (stats.Mean(a) - stats.Mean(b)) / math.Sqrt(va*va/float64(len(a))+vb*vb/float64(len(b)))
}

// TestTheUsualWay tests the usual method, which the manual describes: all runs without the change,
// then all with it, compared by Welch's t-test at 5 %.
func TestTheUsualWay(t *testing.T) {
	wrong := map[string]float64{}
	for _, m := range noise.Models {
		n := 0
		for i := range count() {
			run := m.Begin(rand.New(rand.NewPCG(uint64(i), 5)))
			var a, b []float64
			for k := range 40 {
				if v := run(k); k < 20 {
					a = append(a, v)
				} else {
					b = append(b, v)
				}
			}
			if math.Abs(welch(a, b)) > 2.02 { // t of 38 degrees of freedom
				n++
			}
		}
		wrong[m.Name] = 100 * float64(n) / float64(count())
		t.Logf("%s: %.0f %%", m.Name, wrong[m.Name])
	}
	for _, m := range []string{"linear drift of 6 % in 40 runs", "random walk, 0.8 % a run", "autocorrelated, 0.7"} {
		if wrong[m] < 25 {
			t.Errorf("%s: only %.0f %% false alarms", m, wrong[m])
		}
	}
}
