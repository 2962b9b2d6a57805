// knee searches the highest rate at which something holds, by asking of one rate
// after the other whether it does. It knows nothing of requests: a stage is a function.
//
// The rate is doubled until it fails, and what lies between is halved until the two ends
// are Precision apart. A stage can fail by chance; so a rate counts as failed only if it
// fails twice, or twice of three times. Then a rate a little above has to fail too, and a
// fresh stage at the rate found has to hold: that one alone is the answer.

package load

import (
	"math"
)

// Verdict is what came of a stage.
type Verdict string

// The verdicts.
const (
	Holds Verdict = "holds"
	Fails Verdict = "fails"
	// KneeLimited is a stage that the generator could not do, so it says nothing of the server.
	KneeLimited Verdict = "generator-limited"
)

// Purpose is what a stage is for.
type Purpose string

// The purposes.
const (
	Seek    Purpose = "search"
	Beyond  Purpose = "above" // whether what lies above fails too
	Confirm Purpose = "confirmation"
)

// Answer is what a search has found.
type Answer string

// The answers.
const (
	Found          Answer = "found"
	FailsAtLowest  Answer = "fails-at-lowest"
	HoldsAtHighest Answer = "holds-at-highest"
	GeneratorFirst Answer = "generator-first" // above Rate nothing is known of the server
	NotMonotone    Answer = "not-monotone"    // a rate above one that failed holds, or one that held does not again
)

// Precision is how far apart, as a share, the rate found and one that failed are.
const Precision = 0.02

const (
	factor = 2.0
	// beyond is how far above the failed rate it has to fail too: near enough that one
	// failure by chance shows, and far enough that the noise at the knee does not.
	beyond = 1.1
	// retreat is where a second confirmation is tried: at the knee itself a stage holds
	// or fails by chance.
	retreat = 0.95
)

// Search is a search from one rate to another.
type Search struct {
	Lowest, Highest float64 // requests a second
	// Stage measures at a rate.
	Stage func(rate float64, for_ Purpose) (Verdict, error)
}

// KneeResult is the answer with its rates; 0 is none.
type KneeResult struct {
	Answer Answer
	Rate   float64 // that held in a fresh stage
	Failed float64 // the lowest rate above it that failed, or that the generator could not do
	// Odd is the rate of NotMonotone that holds above Failed, or has held and does not again.
	Odd float64
}

// Run searches. It ends with the first error of a stage.
func (s *Search) Run() (KneeResult, error) {
	low, high := 0.0, 0.0 // that held, that did not
	var why Verdict
	for rate := s.Lowest; ; rate = min(rate*factor, s.Highest) {
		v, err := s.decide(rate, Seek)
		if err != nil {
			return KneeResult{}, err
		}
		if v != Holds {
			high, why = rate, v
			break
		}
		if low = rate; rate >= s.Highest {
			break
		}
	}
	if low == 0 {
		return s.none(why)
	}
	for high > low*(1+Precision) {
		rate := between(low, high)
		v, err := s.decide(rate, Seek)
		if err != nil {
			return KneeResult{}, err
		}
		if v == Holds {
			low = rate
		} else {
			high, why = rate, v
		}
	}
	if above := min(high*beyond, s.Highest); why == Fails && above > high {
		if again, err := s.twice(above); err != nil || again {
			return KneeResult{Answer: NotMonotone, Failed: high, Odd: above}, err
		}
	}
	return s.confirm(low, high, why)
}

// none is the answer where the lowest rate does not hold: also of a server that is quick
// only when it is busy.
func (s *Search) none(why Verdict) (KneeResult, error) {
	if why == KneeLimited {
		return KneeResult{Answer: GeneratorFirst, Failed: s.Lowest}, nil
	}
	if above := min(s.Lowest*factor, s.Highest); above > s.Lowest {
		if again, err := s.twice(above); err != nil || again {
			return KneeResult{Answer: NotMonotone, Failed: s.Lowest, Odd: above}, err
		}
	}
	return KneeResult{Answer: FailsAtLowest, Failed: s.Lowest}, nil
}

// confirm measures the rate found once more.
func (s *Search) confirm(low, high float64, why Verdict) (KneeResult, error) {
	answer := Found
	switch {
	case high == 0:
		answer = HoldsAtHighest
	case why == KneeLimited:
		answer = GeneratorFirst
	}
	for _, rate := range []float64{low, max(s.Lowest, round(low*retreat))} {
		v, err := s.decide(rate, Confirm)
		if err != nil {
			return KneeResult{}, err
		}
		if v == Holds {
			return KneeResult{Answer: answer, Rate: rate, Failed: high}, nil
		}
		// What held in the search has failed now: the answer is below it, or none.
		if answer, high = Found, rate; v == KneeLimited {
			answer = GeneratorFirst
		}
	}
	return KneeResult{Answer: NotMonotone, Failed: low, Odd: low}, nil
}

// decide measures a rate. A stage that holds is believed: an overload does not hold by
// chance. One that does not is measured again, and the majority counts. Of two that do not
// one that the server has failed by itself tells of the server.
func (s *Search) decide(rate float64, for_ Purpose) (Verdict, error) {
	why := KneeLimited
	for held, not := 0, 0; ; {
		v, err := s.Stage(rate, for_)
		if err != nil {
			return "", err
		}
		if v == Holds {
			held++
		} else {
			not++
			if v == Fails {
				why = Fails
			}
		}
		switch {
		case held > not, held == 2:
			return Holds, nil
		case not == 2:
			return why, nil
		}
	}
}

// twice says whether a rate holds twice in a row.
func (s *Search) twice(rate float64) (bool, error) {
	for range 2 {
		if v, err := s.Stage(rate, Beyond); err != nil || v != Holds {
			return false, err
		}
	}
	return true, nil
}

// between is a rate between two, at the same ratio to both, in round figures.
func between(low, high float64) float64 {
	rate := math.Sqrt(low * high)
	if r := round(rate); r > low && r < high {
		return r
	}
	return rate
}

// round keeps three digits: half a percent at most, a quarter of what is searched for.
func round(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return math.Round(rate/unit) * unit
}
