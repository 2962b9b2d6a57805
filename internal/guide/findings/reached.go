package findings

import (
	"math"
	"slices"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/slow"
)

// Reached returns the limits that a machine reaches under load. Its audits were made alternately
// with less and more load: before[0], during[0], before[1], during[1], and so on. A finding of all
// audits with more load is a limit if no audit with less load has it. It is also a limit if users
// notice it, and its number is higher in each audit with more load or grows only during these. So a
// change unrelated to the load counts only if it happens to follow the alternation. Findings that
// users notice come first.
func Reached(before, during []*Audit) (out []rule.Finding) {
	if len(during) == 0 || len(before) != len(during) {
		return nil
	}
	for _, f := range during[len(during)-1].Findings {
		less, more := series(before, f), series(during, f)
		if slices.ContainsFunc(more, func(f rule.Finding) bool { return !Bad(f.State) }) {
			continue
		}
		appeared := !slices.ContainsFunc(less, func(f rule.Finding) bool { return Bad(f.State) })
		if appeared || f.Harm && rises(numbers(less), numbers(more)) {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b rule.Finding) int {
		switch {
		case a.Harm == b.Harm:
			return 0
		case a.Harm:
			return -1
		}
		return 1
	})
	return out
}

// series returns the finding of the same rule and instance in each audit. Its state is "" where an
// audit lacks it.
func series(audits []*Audit, f rule.Finding) []rule.Finding {
	out := make([]rule.Finding, len(audits))
	for i, a := range audits {
		at := slices.IndexFunc(a.Findings, func(g rule.Finding) bool { return g.ID == f.ID && g.Instance == f.Instance })
		if at >= 0 {
			out[i] = a.Findings[at]
		}
	}
	return out
}

// numbers returns the measured numbers, NaN for other values.
func numbers(all []rule.Finding) []float64 {
	out := make([]float64, len(all))
	for i, f := range all {
		n, ok := f.Measured.(float64)
		if out[i] = n; !ok {
			out[i] = math.NaN()
		}
	}
	return out
}

// rises reports whether all numbers under load are higher than all others, or, for a counter,
// whether the number grows under load and does not grow in between.
func rises(less, more []float64) bool {
	if slices.Min(more) > slices.Max(less) { // false with NaN
		return true
	}
	for i := range more {
		if !(more[i] > less[i]) || i > 0 && !(less[i] <= more[i-1]) {
			return false
		}
	}
	return true
}

// CausesReached returns the causes of slowness that all audits under load have, and no audit with
// less load has.
func CausesReached(before, during []*Audit) (out []slow.Cause) {
	if len(during) == 0 || during[0].Slow == nil {
		return nil
	}
	for _, c := range during[0].Slow.Causes {
		has := func(a *Audit) bool {
			return a.Slow != nil && slices.ContainsFunc(a.Slow.Causes, func(other slow.Cause) bool {
				return other.ID == c.ID && other.Item == c.Item && other.Reason
			})
		}
		if !slices.ContainsFunc(before, has) && !slices.ContainsFunc(during, func(a *Audit) bool { return !has(a) }) {
			out = append(out, c)
		}
	}
	return out
}
