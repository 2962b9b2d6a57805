package scenario

import (
	"math"
	"slices"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// lost reports whether a run has failed already, whatever the remaining passes do: a threshold
// that they cannot repair, or a host that failed without a threshold on the errors of whole hosts.
func (r *run) lost(passes int64) bool {
	hosts := r.hosts.copied()
	if hosts.Failed > 0 && !r.plan.gatesErrors() {
		return true
	}
	return slices.ContainsFunc(r.plan.Gates, func(g Gate) bool {
		best := atBest{r.hosts.latency, float64(hosts.Failed) / float64(passes), float64(passes - hosts.Runs)}
		if i := slices.Index(r.plan.Steps(), g.Step); i >= 0 {
			best = atBest{r.tallies[i].latency, 0, math.Inf(1)} // how often it will run is unknown
		}
		return g.Upper() && !g.Judge(best).Met
	})
}

// gatesErrors reports whether a threshold is about the errors of whole hosts.
func (s *Scenario) gatesErrors() bool {
	return slices.ContainsFunc(s.Gates, func(g Gate) bool { return g.Step == "" && g.Asks() == engine.Errors })
}

// atBest holds the figures of a run as if each remaining pass took no time and succeeded.
type atBest struct {
	*engine.Distribution
	errors    float64
	remaining float64
}

func (b atBest) Percentile(p float64) float64 {
	n := float64(b.Times().N)
	if p = 100 - (100-p)*(n+b.remaining)/n; !(p > 0) {
		return 0
	}
	return b.Distribution.Percentile(p)
}

func (b atBest) MeanS() float64 {
	t := b.Times()
	if t.N == 0 {
		return 0
	}
	return t.MeanS * float64(t.N) / (float64(t.N) + b.remaining)
}

func (b atBest) MaxS() float64                 { return b.Times().MaxS }
func (atBest) Latencies() int64                { return math.MaxInt64 }
func (b atBest) Errors() float64               { return b.errors }
func (atBest) Rate() float64                   { return math.Inf(1) }
func (atBest) Observed(string) (float64, bool) { return 0, true }
