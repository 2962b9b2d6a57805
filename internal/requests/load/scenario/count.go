package scenario

import (
	"maps"
	"sync"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

// Kinds of failure in addition to those of engine.Failure.
const (
	wrongStatus = "wrong-status"
	wrongBody   = "wrong-body"
	notTaken    = "value-not-found"
	notSet      = "value-not-set"
	notAllowed  = "not-allowed"
	notExited   = "exit-code"
	notSaved    = "not-recorded"
	notMet      = "state-not-reached"
	gaveUp      = "once-failed"
	malformed   = "malformed-request"
)

// longestTime is the longest recordable latency.
const longestTime = longest + time.Hour

// maxPeriods is the maximum number of periods of a tally.
const maxPeriods = 64

// tally counts the runs of a step, or of whole hosts. It is safe for concurrent use.
type tally struct {
	mu sync.Mutex
	n  tallied
	// latency is the time from the intended start to the end of the last answer; of good runs,
	// and of those that timed out.
	latency *engine.Distribution
	// width is the length of a period. It doubles when the periods do not suffice.
	width   time.Duration
	periods []period
}

// tallied are the counters of a tally.
type tallied struct {
	Runs        int64                          `json:"runs"`
	Good        int64                          `json:"good"`
	Failed      int64                          `json:"failed"`
	Interrupted int64                          `json:"interrupted"`
	Requests    int64                          `json:"requests"`
	In          int64                          `json:"bytes_in"`
	Statuses    map[int]int64                  `json:"statuses"`
	Causes      map[string]engine.FailureCount `json:"causes"`
}

// period counts the runs that ended in a period of time.
type period struct {
	good, failed int64
	latency      *engine.Distribution
}

func newTally() *tally {
	return &tally{n: tallied{Statuses: map[int]int64{}, Causes: map[string]engine.FailureCount{}}, latency: engine.NewDistribution(longestTime), width: time.Second}
}

// outcome is the end of a run of a step.
type outcome struct {
	cause    string // "" for success
	err      error
	statuses []int // of its requests
	in       int64
	end      time.Duration // of the last answer
	next     time.Duration // when the host can go on, if later
	// waited reports a failure whose time counts as a latency.
	waited bool
}

// add counts a run that was due at from and ended at to.
func (t *tally) add(from, to time.Duration, o *outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n.Runs++
	t.n.In += o.in
	t.n.Requests += int64(len(o.statuses))
	for _, status := range o.statuses {
		if status > 0 {
			t.n.Statuses[status]++
		}
	}
	if o.cause == string(engine.Interrupted) {
		t.n.Interrupted++
		return
	}
	p := t.at(to)
	if o.cause != "" {
		c := t.n.Causes[o.cause]
		if c.N++; c.Example == "" && o.err != nil {
			c.Example = evidence.EscapeInvalidUTF8(internaltext.PlainMessage(o.err.Error()))
		}
		t.n.Causes[o.cause] = c
		t.n.Failed++
		p.failed++
	} else {
		t.n.Good++
		p.good++
	}
	if o.cause == "" || o.waited {
		t.latency.Add(to - from)
		p.latency.Add(to - from)
	}
}

// at returns the period of a time.
func (t *tally) at(when time.Duration) *period {
	for int(when/t.width) >= maxPeriods {
		t.coarsen()
	}
	i := max(0, int(when/t.width))
	for len(t.periods) <= i {
		t.periods = append(t.periods, period{latency: engine.NewDistribution(longestTime)})
	}
	return &t.periods[i]
}

// coarsen doubles the length of a period.
func (t *tally) coarsen() {
	for i := range (len(t.periods) + 1) / 2 {
		to := t.periods[2*i]
		if 2*i+1 < len(t.periods) {
			o := t.periods[2*i+1]
			to.good, to.failed = to.good+o.good, to.failed+o.failed
			to.latency.Include(o.latency)
		}
		t.periods[i] = to
	}
	t.periods = t.periods[:(len(t.periods)+1)/2]
	t.width *= 2
}

// TallyPart is a tally of one generator, with histograms in HdrHistogram's lossless encoding.
type TallyPart struct {
	tallied
	Latency string        `json:"latency"`
	Width   time.Duration `json:"width_ns"`
	Periods []PeriodPart  `json:"periods"`
}

// PeriodPart is a period of a TallyPart.
type PeriodPart struct {
	Good    int64  `json:"good"`
	Failed  int64  `json:"failed"`
	Latency string `json:"latency,omitempty"`
}

// part returns the counts for another process.
func (t *tally) part() (p TallyPart, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p = TallyPart{tallied: t.n, Width: t.width}
	if p.Latency, err = t.latency.Encoded(); err != nil {
		return p, err
	}
	for _, one := range t.periods {
		x := PeriodPart{Good: one.good, Failed: one.failed}
		if one.good+one.failed > 0 {
			if x.Latency, err = one.latency.Encoded(); err != nil {
				return p, err
			}
		}
		p.Periods = append(p.Periods, x)
	}
	return p, nil
}

// merge adds the counts of another generator.
func (t *tally) merge(p *TallyPart) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := &t.n
	n.Runs += p.Runs
	n.Good += p.Good
	n.Failed += p.Failed
	n.Interrupted += p.Interrupted
	n.Requests += p.Requests
	n.In += p.In
	for status, count := range p.Statuses {
		n.Statuses[status] += count
	}
	for cause, count := range p.Causes {
		sum := n.Causes[cause]
		if sum.Example == "" {
			sum.Example = count.Example
		}
		sum.N += count.N
		n.Causes[cause] = sum
	}
	for t.width < p.Width {
		t.coarsen()
	}
	for i, one := range p.Periods {
		to := t.at(time.Duration(i) * p.Width)
		to.good, to.failed = to.good+one.Good, to.failed+one.Failed
		if one.Latency != "" {
			if err := to.latency.Merge(one.Latency); err != nil {
				return err
			}
		}
	}
	return t.latency.Merge(p.Latency)
}

// copied returns the counters at one moment.
func (t *tally) copied() tallied {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.n
	n.Statuses, n.Causes = maps.Clone(n.Statuses), maps.Clone(n.Causes)
	return n
}
