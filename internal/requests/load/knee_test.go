package load

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// server holds up to a rate, with configurable noise.
type server struct {
	holds  func(rate float64) bool
	able   float64 // what the generator can do
	stages []Purpose
	rates  []float64
}

func (s *server) stage(rate float64, for_ Purpose) (Verdict, error) {
	s.stages, s.rates = append(s.stages, for_), append(s.rates, rate)
	switch {
	case s.able > 0 && rate > s.able:
		return KneeLimited, nil
	case s.holds(rate):
		return Holds, nil
	}
	return Fails, nil
}

func upTo(rate float64) func(float64) bool { return func(r float64) bool { return r <= rate } }

func TestAnswers(t *testing.T) {
	flaky := 0
	for name, c := range map[string]struct {
		server
		low, high float64
		want      Answer
		least     float64 // of the rate
		most      float64
	}{
		"found":            {server{holds: upTo(437)}, 10, 1e6, Found, 428, 437},
		"at the lowest":    {server{holds: upTo(10)}, 10, 1e6, Found, 10, 10},
		"fails":            {server{holds: upTo(9)}, 10, 1e6, FailsAtLowest, 0, 0},
		"fails, one rate":  {server{holds: upTo(9)}, 10, 10, FailsAtLowest, 0, 0},
		"highest":          {server{holds: upTo(1e9)}, 10, 5000, HoldsAtHighest, 5000, 5000},
		"one rate":         {server{holds: upTo(1e9)}, 10, 10, HoldsAtHighest, 10, 10},
		"generator":        {server{holds: upTo(1e9), able: 3000}, 10, 1e6, GeneratorFirst, 2940, 3000},
		"generator's none": {server{holds: upTo(1e9), able: 5}, 10, 1e6, GeneratorFirst, 0, 0},
		// The generator's limit at 3000 is not the answer: the server's is lower.
		"both": {server{holds: upTo(2100), able: 3000}, 10, 1e6, Found, 2058, 2100},
		// Slow while it sleeps between requests.
		"quick when busy": {server{holds: func(r float64) bool { return r > 15 && r < 1000 }}, 10, 1e6, KneeNonMonotonic, 0, 0},
		// A hole, as of a cache that is thrown away at some rates.
		"hole": {server{holds: func(r float64) bool { return r < 300 || r > 325 && r < 900 }}, 155, 1e6, KneeNonMonotonic, 0, 0},
		"gets worse": {server{holds: func(r float64) bool {
			flaky++
			return r <= 100 && flaky < 14
		}}, 10, 1e6, KneeNonMonotonic, 0, 0},
	} {
		s := search{Lowest: c.low, Highest: c.high, Stage: c.stage}
		got, err := s.Run()
		if err != nil || got.Answer != c.want || got.Rate < c.least || got.Rate > c.most {
			t.Errorf("%s: %+v %v, want %s between %v and %v", name, got, err, c.want, c.least, c.most)
		}
		if got.Answer == Found && (got.Failed <= got.Rate || got.Failed > got.Rate*(1+precision)+1e-9) {
			t.Errorf("%s: %v failed, %v held", name, got.Failed, got.Rate)
		}
		if last := len(c.stages) - 1; got.Rate > 0 && (c.stages[last] != Confirm || c.rates[last] != got.Rate) {
			t.Errorf("%s: the last stage is %s at %v, and the answer %v", name, c.stages[last], c.rates[last], got.Rate)
		}
	}
}

// TestBusyGenerator tests a generator that is sometimes at its limit: stages that the server itself
// failed still count as failed.
func TestBusyGenerator(t *testing.T) {
	n := 0
	s := search{Lowest: 10, Highest: 1e6, Stage: func(rate float64, _ Purpose) (Verdict, error) {
		switch n++; {
		case rate <= 437:
			return Holds, nil
		case n%2 == 0:
			return KneeLimited, nil
		}
		return Fails, nil
	}}
	if got, err := s.Run(); err != nil || got.Answer != Found || got.Rate < 428 || got.Rate > 437 {
		t.Errorf("%+v %v", got, err)
	}
}

// TestEveryKnee tests that without noise the answer is always within the precision, and that the
// search is short.
func TestEveryKnee(t *testing.T) {
	for i := range 2000 {
		knee := 10 * math.Pow(1.005, float64(i))
		c := server{holds: upTo(knee)}
		s := search{Lowest: 10, Highest: 1e7, Stage: c.stage}
		got, err := s.Run()
		if err != nil || got.Answer != Found || got.Rate > knee || got.Rate < knee/(1+precision)-1e-9 {
			t.Fatalf("knee at %v: %+v %v", knee, got, err)
		}
		// One for each doubling, seven halvings at most, each failure twice, and three.
		if most := int(math.Log2(knee/10)) + 2 + 2*7 + 3; len(c.stages) > most {
			t.Errorf("knee at %v: %d stages, want %d at most", knee, len(c.stages), most)
		}
	}
}

// TestNoise counts false answers for a server whose stages hold by chance near the knee, and fail
// by chance anywhere. An answer is false if it is more than a tenth below the knee, or above it by
// more than the noise.
func TestNoise(t *testing.T) {
	const searches = 4000
	for _, c := range []struct {
		width  float64 // of the knee: at 1 + width as many as 27 % hold
		chance float64 // of a failure anywhere
		wrong  int     // the most of searches
		silent int     // the most without a rate
	}{
		{0.01, 0, 0, 20},
		{0.01, 0.01, 4, 40},
		{0.03, 0.02, 30, 600},
		{0.03, 0.05, 60, 700},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		wrong, silent := 0, 0
		for range searches {
			knee := 20 * math.Exp(7*r.Float64())
			holds := func(rate float64) bool {
				p := 1 / (1 + math.Exp((rate/knee-1)/c.width))
				return r.Float64() < p && r.Float64() >= c.chance
			}
			s := server{holds: holds}
			search := search{Lowest: 10, Highest: 1e7, Stage: s.stage}
			got, err := search.Run()
			switch {
			case err != nil:
				t.Fatal(err)
			case got.Answer == KneeNonMonotonic:
				silent++
			case got.Answer != Found || got.Rate < 0.9*knee || got.Rate > knee*(1+4*c.width):
				wrong++
			}
		}
		t.Logf("width %v, chance %v: of %d searches %d wrong, %d not monotone", c.width, c.chance, searches, wrong, silent)
		if wrong > c.wrong || silent > c.silent {
			t.Errorf("width %v, chance %v: %d wrong (want %d at most), %d not monotone (want %d at most)", c.width, c.chance, wrong, c.wrong, silent, c.silent)
		}
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("gone")
	for n := range 12 {
		c, i := server{holds: upTo(100)}, 0
		s := search{Lowest: 60, Highest: 1e6, Stage: func(rate float64, for_ Purpose) (Verdict, error) {
			if i++; i > n {
				return "", broken
			}
			return c.stage(rate, for_)
		}}
		if got, err := s.Run(); !errors.Is(err, broken) || i != n+1 {
			t.Errorf("after %d stages: %+v %v, %d were made", n, got, err, i)
		}
	}
}
