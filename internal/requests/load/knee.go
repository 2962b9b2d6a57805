// search finds the highest rate at which a condition holds. It is independent of requests: a
// stage is a function.
//
// The rate is doubled until it fails. Then the interval is bisected until its width is within
// precision. A stage can fail by chance, so a rate counts as failed only after two failures in
// at most three attempts. Finally a slightly higher rate has to fail too, and a fresh stage at
// the rate found has to hold. Only that stage is the answer.

package load

import "math"

// Verdict is the result of one stage.
type Verdict string

// Verdicts of a stage.
const (
	Holds Verdict = "holds"
	Fails Verdict = "fails"
	// KneeLimited means that the generator could not keep the rate: the server's limit is unknown.
	KneeLimited Verdict = "generator-limited"
)

// Purpose is the purpose of a stage.
type Purpose string

// Purposes of a stage.
const (
	Seek    Purpose = "search"
	Beyond  Purpose = "above" // checks that rates above the knee fail too
	Confirm Purpose = "confirmation"
)

// Answer is the outcome of a search.
type Answer string

// Outcomes of a search.
const (
	Found            Answer = "found"
	FailsAtLowest    Answer = "fails-at-lowest"
	HoldsAtHighest   Answer = "holds-at-highest"
	GeneratorFirst   Answer = "generator-first" // the generator is at its limit at Rate; the server's limit is unknown
	KneeNonMonotonic Answer = "not-monotonic"   // a rate above a failed one holds, or a rate that held fails later
)

// precision is the maximum relative difference between the rate found and the failed rate.
const precision = 0.02

const (
	factor = 2.0
	// beyond is the factor of the failed rate at which a stage has to fail too: close enough
	// to reveal a failure by chance, far enough to be outside the noise at the knee.
	beyond = 1.1
	// retreat is the factor by which the second confirmation lowers the rate. At the knee
	// itself a stage holds or fails by chance.
	retreat = 0.95
)

// search is a search between a lowest and a highest rate.
type search struct {
	Lowest, Highest float64 // requests a second
	// Stage measures one rate, in requests a second, and returns its verdict.
	Stage func(rate float64, for_ Purpose) (Verdict, error)
}

// kneeResult is the outcome with its rates. A rate is 0 if none exists.
type kneeResult struct {
	Answer Answer
	Rate   float64 // held in a confirming stage
	Failed float64 // lowest failed or generator-limited rate above Rate
	// Odd is set with KneeNonMonotonic: a rate above Failed that holds, or a rate that first held
	// and then failed.
	Odd float64
}

// Run searches. It returns the first error of a stage.
func (s *search) Run() (kneeResult, error) {
	low, high := 0.0, 0.0 // highest rate that held, lowest that failed
	var why Verdict
	for rate := s.Lowest; ; rate = min(rate*factor, s.Highest) {
		v, err := s.decide(rate, Seek)
		if err != nil {
			return kneeResult{}, err
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
	for high > low*(1+precision) {
		rate := between(low, high)
		v, err := s.decide(rate, Seek)
		if err != nil {
			return kneeResult{}, err
		}
		if v == Holds {
			low = rate
		} else {
			high, why = rate, v
		}
	}
	if above := min(high*beyond, s.Highest); why == Fails && above > high {
		if again, err := s.twice(above); err != nil || again {
			return kneeResult{Answer: KneeNonMonotonic, Failed: high, Odd: above}, err
		}
	}
	return s.confirm(low, high, why)
}

// none returns the result if the lowest rate does not hold. It also tries a higher rate: some
// servers are fast only when busy.
func (s *search) none(why Verdict) (kneeResult, error) {
	if why == KneeLimited {
		return kneeResult{Answer: GeneratorFirst, Failed: s.Lowest}, nil
	}
	if above := min(s.Lowest*factor, s.Highest); above > s.Lowest {
		if again, err := s.twice(above); err != nil || again {
			return kneeResult{Answer: KneeNonMonotonic, Failed: s.Lowest, Odd: above}, err
		}
	}
	return kneeResult{Answer: FailsAtLowest, Failed: s.Lowest}, nil
}

// confirm measures the rate found again and returns the result.
func (s *search) confirm(low, high float64, why Verdict) (kneeResult, error) {
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
			return kneeResult{}, err
		}
		if v == Holds {
			return kneeResult{Answer: answer, Rate: rate, Failed: high}, nil
		}
		// The rate held in the search and fails now: the answer is a lower rate, or no rate.
		if answer, high = Found, rate; v == KneeLimited {
			answer = GeneratorFirst
		}
	}
	return kneeResult{Answer: KneeNonMonotonic, Failed: low, Odd: low}, nil
}

// decide measures a rate. One stage that holds is enough: an overloaded server does not hold
// by chance. A failed stage is repeated, and the majority decides. The verdict is Fails if the
// server caused either failure.
func (s *search) decide(rate float64, for_ Purpose) (Verdict, error) {
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

// twice reports whether a rate holds in two consecutive stages.
func (s *search) twice(rate float64) (bool, error) {
	for range 2 {
		if v, err := s.Stage(rate, Beyond); err != nil || v != Holds {
			return false, err
		}
	}
	return true, nil
}

// between returns the geometric mean of two rates, rounded if low and high permit.
func between(low, high float64) float64 {
	rate := math.Sqrt(low * high)
	if r := round(rate); r > low && r < high {
		return r
	}
	return rate
}

// round rounds to three significant digits. The error is at most 0.5 %, a quarter of precision.
func round(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return math.Round(rate/unit) * unit
}
