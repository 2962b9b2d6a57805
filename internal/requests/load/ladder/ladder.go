// Package ladder finds the highest concurrency without failure, with an interval. It is
// independent of what runs: a rung is a function that runs a load at a concurrency and says
// whether it failed.
//
// The concurrency is doubled until a run fails, and the gap is halved until both ends are
// within a step. Then runs are repeated a little below and a little above the edge, until the
// interval is narrow, or 30 runs are made. The interval assumes only that more concurrency does not fail less often.
package ladder

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Outcome is the result of one run.
type Outcome string

// Outcomes of a run.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// Limited means that the generator was at its limit in a run that failed: the run says
	// nothing about the server.
	Limited Outcome = "generator-limited"
)

// Run is one run of the load.
type Run struct {
	Hosts   int     `json:"hosts"` // concurrency
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why"` // why it failed, or a summary
}

// Answer is the outcome of a search.
type Answer string

// Outcomes of a search.
const (
	Found         Answer = "found"
	FailsAtLowest Answer = "fails-at-lowest"
	// NotLimited means that no run failed up to the highest concurrency of the search.
	NotLimited Answer = "not-limited"
	// GeneratorFirst means that the generator was at its limit before a run failed.
	GeneratorFirst Answer = "generator-first"
	// NotRecovered means that the server failed after an overload at a concurrency that it
	// had sustained before: the runs do not belong to one state of the server.
	NotRecovered Answer = "not-recovered"
	// TooFewRuns means that the maximum number of runs was not enough for an interval with two
	// ends.
	TooFewRuns Answer = "too-few-runs"
)

// Range is what to search.
type Range struct {
	Lowest, Highest int // concurrency
	MaxRuns         int // maximum number of runs; 0 means DefaultRuns
}

// DefaultRuns is the default of MaxRuns. In simulations a server with a fixed limit needed 18
// runs, and one whose failures rise over a range of 20 % about 31 (TestCoverage).
const DefaultRuns = 60

// Result is the answer of a search.
type Result struct {
	Answer Answer `json:"answer"`
	// Highest is the highest concurrency up to which no run failed, or 0.
	Highest int `json:"highest_without_failure"`
	// FirstFailed is the lowest concurrency at which a run failed; 0 if none failed.
	FirstFailed int `json:"first_failed,omitempty"`
	// Edge is the 95 % confidence interval of the concurrency at which half of the runs fail.
	// It is set if the answer is Found or TooFewRuns.
	Edge *Interval `json:"edge,omitempty"`
	Runs []Run     `json:"runs"`
}

// Interval is a range of concurrencies. High is 0 without an upper bound.
type Interval struct {
	Low  int `json:"low"`
	High int `json:"high"`
}

const (
	// step is the relative size of a step near the edge.
	step = 0.05
	// width is the relative width of the interval that ends a search, each way from its
	// middle.
	width = 0.10
	// apart is the distance from the most likely edge at which runs are repeated.
	apart = 0.08
	// few is the share of runs that are expected to contradict the side of the edge.
	few = 0.2
	// enough is the number of runs after which any interval with two ends is the answer.
	enough = 30
	// repeats is the number of runs with the same outcome that end a search at an end of the
	// range.
	repeats = 3
)

// Find searches. It calls run for each run, one after the other, and returns run's first
// error with the runs so far.
func Find(ctx context.Context, in Range, run func(ctx context.Context, hosts int) (Outcome, string, error)) (*Result, error) {
	if in.Lowest < 1 || in.Highest < in.Lowest {
		return nil, fmt.Errorf("range of %d to %d hosts: want 1 or more, and the highest not below the lowest", in.Lowest, in.Highest)
	}
	if in.MaxRuns == 0 {
		in.MaxRuns = DefaultRuns
	}
	s := &search{in: in, run: run}
	answer, err := s.find(ctx)
	if errors.Is(err, errMost) {
		answer, err = TooFewRuns, nil
	}
	r := &Result{Answer: answer, Runs: s.runs}
	r.Highest, r.FirstFailed = bounds(s.runs)
	if answer == Found || answer == TooFewRuns {
		edge := edgeOf(s.runs)
		r.Edge = &edge
	}
	return r, err
}

// search is a search in progress.
type search struct {
	in   Range
	run  func(context.Context, int) (Outcome, string, error)
	runs []Run
}

// errMost is returned instead of a run beyond the maximum number.
var errMost = errors.New("the maximum number of runs")

// try runs the load once.
func (s *search) try(ctx context.Context, hosts int) (Outcome, error) {
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case len(s.runs) == s.in.MaxRuns:
		return "", errMost
	}
	o, why, err := s.run(ctx, hosts)
	if err != nil {
		return "", err
	}
	s.runs = append(s.runs, Run{Hosts: hosts, Outcome: o, Why: why})
	return o, nil
}

func (s *search) find(ctx context.Context) (Answer, error) {
	passed, failed, answer, err := s.climb(ctx)
	if answer != "" || err != nil {
		return answer, err
	}
	for float64(failed) > float64(passed)*(1+step) && failed-passed > 1 {
		middle := max(passed+1, min(failed-1, int(math.Sqrt(float64(passed)*float64(failed)))))
		o, err := s.try(ctx, middle)
		switch {
		case err != nil:
			return "", err
		case o == Limited:
			return GeneratorFirst, nil
		case o == Passed:
			passed = middle
		default:
			failed = middle
		}
	}
	return s.walk(ctx)
}

// climb doubles the concurrency until a run fails. It returns the highest that passed, and the
// one that failed, or the answer if the search ends here.
func (s *search) climb(ctx context.Context) (passed, failed int, answer Answer, err error) {
	for hosts := s.in.Lowest; ; hosts = min(2*hosts, s.in.Highest) {
		o, err := s.try(ctx, hosts)
		switch {
		case err != nil:
			return 0, 0, "", err
		case o == Limited:
			return 0, 0, GeneratorFirst, nil
		case o == Failed && passed == 0:
			answer, err := s.confirm(ctx, hosts, Failed, FailsAtLowest)
			return hosts, hosts + 1, answer, err
		case o == Failed:
			return passed, hosts, "", nil
		case hosts == s.in.Highest:
			answer, err := s.confirm(ctx, hosts, Passed, NotLimited)
			return hosts, hosts, answer, err
		}
		passed = hosts
	}
}

// confirm repeats a run whose outcome would end the search at an end of the range. It returns
// the answer if all runs agree, and "" otherwise.
func (s *search) confirm(ctx context.Context, hosts int, want Outcome, answer Answer) (Answer, error) {
	for range repeats - 1 {
		switch o, err := s.try(ctx, hosts); {
		case err != nil:
			return "", err
		case o == Limited:
			return GeneratorFirst, nil
		case o != want:
			return "", nil
		}
	}
	return answer, nil
}

// walk repeats runs near the edge until the interval is narrow enough.
func (s *search) walk(ctx context.Context) (Answer, error) {
	for {
		o, err := s.try(ctx, s.next())
		switch {
		case err != nil:
			return "", err
		case o == Limited:
			return GeneratorFirst, nil
		}
		if in := edgeOf(s.runs); in.narrow() || len(s.runs) >= enough && in.Low > 0 && in.High > 0 {
			return Found, nil
		}
		if s.broken() {
			return NotRecovered, nil
		}
		if answer := s.atEnd(); answer != "" {
			return answer, nil
		}
	}
}

// broken reports whether the last runs failed with far fewer hosts than two earlier runs that
// passed.
func (s *search) broken() bool {
	last := s.runs[max(0, len(s.runs)-repeats):]
	passed := 0
	for _, r := range s.runs {
		if r.Outcome == Passed && r.Hosts >= 3*last[len(last)-1].Hosts/2 {
			passed++
		}
	}
	return passed >= 2 && !slices.ContainsFunc(last, func(r Run) bool { return r.Outcome != Failed })
}

// next returns the concurrency of the next run: near the most likely edge, but apart from it,
// on the side where the interval is wider. At the edge itself a run would decide nothing.
func (s *search) next() int {
	edge, in := middle(s.runs), edgeOf(s.runs)
	if in.High != 0 && (in.Low == 0 || edge/float64(in.Low) > float64(in.High)/edge) {
		return s.below(edge)
	}
	if in.High == 0 && in.Low == 0 && s.runs[len(s.runs)-1].Hosts > int(edge) {
		return s.below(edge)
	}
	return s.above(edge)
}

// below returns the highest concurrency apart from the edge at which few runs are expected to
// fail.
func (s *search) below(edge float64) int {
	for by := 1 + apart; ; by *= 1 + apart {
		hosts := max(s.in.Lowest, min(int(edge), int(math.Round(edge/by))))
		if hosts == s.in.Lowest || predict(s.runs, hosts) <= few {
			return hosts
		}
	}
}

// above returns the lowest concurrency apart from the edge at which few runs are expected to
// pass.
func (s *search) above(edge float64) int {
	for by := 1 + apart; ; by *= 1 + apart {
		hosts := min(s.in.Highest, max(int(edge)+1, int(math.Round(edge*by))))
		if hosts == s.in.Highest || predict(s.runs, hosts) >= 1-few {
			return hosts
		}
	}
}

// atEnd returns the answer if the last runs agree at an end of the range.
func (s *search) atEnd() Answer {
	if len(s.runs) < 2*repeats {
		return ""
	}
	last := s.runs[len(s.runs)-2*repeats:]
	for _, r := range last {
		if r != (Run{Hosts: last[0].Hosts, Outcome: last[0].Outcome, Why: r.Why}) {
			return ""
		}
	}
	switch {
	case last[0].Hosts == s.in.Lowest && last[0].Outcome == Failed:
		return FailsAtLowest
	case last[0].Hosts == s.in.Highest && last[0].Outcome == Passed:
		return NotLimited
	}
	return ""
}

// bounds returns the highest concurrency up to which no run failed, and the lowest at which
// one failed.
func bounds(runs []Run) (highest, failed int) {
	for _, r := range runs {
		if r.Outcome == Failed && (failed == 0 || r.Hosts < failed) {
			failed = r.Hosts
		}
	}
	for _, r := range runs {
		if r.Outcome == Passed && r.Hosts > highest && (failed == 0 || r.Hosts < failed) {
			highest = r.Hosts
		}
	}
	return highest, failed
}

// narrow reports whether an interval is narrow enough to end a search.
func (i Interval) narrow() bool {
	if i.High == 0 || i.Low == 0 {
		return false
	}
	return i.High-i.Low <= max(1, int(width*float64(i.High+i.Low)))
}
