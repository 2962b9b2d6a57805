package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/fleet"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// mostReplayed is the maximum number of listed requests of a replayed log, most frequent first.
const mostReplayed = 1000

// keptUp is the minimum share of second-half starts that must be answered in that half.
const keptUp = 0.95

// course is a run divided into slices.
type course struct {
	*Prepared
	meter  *engine.Meter
	parts  []*part
	seen   []*fleet.Course
	slices []*engine.Slice
	// from is the first slice that counts.
	from int
}

// result judges a run of one or more generators; m is the sum of their counts.
func (r *Prepared) result(m *engine.Meter, parts []*part, seen []*fleet.Course, all time.Duration) (*Result, error) {
	p := r.plan
	until, connections := all, 0
	for _, one := range parts {
		until = min(until, one.Until)
		connections += one.Connections
	}
	asked, made := p.asked(), m.Sum(0, len(m.Slices(all))).Starts
	if asked > 0 && made >= asked {
		all = until
	}
	c := &course{Prepared: r, meter: m, parts: parts, seen: seen, slices: m.Slices(until)}
	// If one generator ran longer than the others, only whole slices have the counts of all.
	if n := len(c.slices); n > 1 && c.slices[n-1].To > until && slices.ContainsFunc(parts, func(one *part) bool { return one.Until > until }) {
		c.slices = c.slices[:n-1]
	}
	if n := len(c.slices); n > 0 {
		c.slices[n-1].To = min(c.slices[n-1].To, until)
	}
	x := &Result{Schema: Schema, Model: "closed", Protocol: p.protocol(), Connections: connections, MaxConnections: p.Connections, TimeoutS: p.Timeout.Seconds(), Seed: p.Set.Seed,
		ErrorShare: 0.001, ResolutionS: engine.Resolution.Seconds(), Series: []evidence.Series{}, Curves: []evidence.Curve{}, Stages: []Stage{}, Gates: []Gate{}, Requests: []Request{}, Slices: []Slice{}}
	if p.open() {
		x.Model = "open"
	}
	if p.HTTP2 {
		x.Streams = p.Streams
		x.Connections = min(connections, p.Connections)
	}
	x.RequestsEach, x.RequestsAsked = p.Each, asked
	switch {
	case asked > 0 && made < asked:
		x.Cut = &evidence.Interruption{Done: int(made), Planned: int(asked), Of: "requests"}
	case until < all || len(c.lost()) > 0:
		x.Cut = &evidence.Interruption{Done: int(until.Seconds()), Planned: int((all + time.Second - 1).Seconds()), Of: "seconds"}
	}
	r.servers(x, parts)
	x.WarmUp = c.warm()
	if err := c.figures(x); err != nil {
		return nil, err
	}
	c.generator(x)
	if err := c.series(x); err != nil {
		return nil, err
	}
	c.observed(x)
	c.curves(x)
	if p.Replay != nil {
		x.Replay = p.Replay.Told()
	}
	for i, q := range m.Requests() {
		a := p.Set.Asked[i]
		x.Requests = append(x.Requests, Request{a.Weight, a.Method, string(host.Redact("", []byte(a.URL))), q.Starts, q.Wrong + q.Failed, q.In})
	}
	if p.Replay != nil && len(x.Requests) > mostReplayed {
		slices.SortStableFunc(x.Requests, func(a, b Request) int { return cmp.Compare(b.Starts, a.Starts) })
		x.Requests = x.Requests[:mostReplayed]
	}
	x.Word, x.Text = x.verdict(c.lost())
	x.Text = x.Cut.Text(x.Text)
	return x, nil
}

func (p *Plan) protocol() string {
	switch {
	case p.HTTP2:
		return "HTTP/2"
	case p.Close:
		return "HTTP/1.1, a connection for each request"
	}
	return "HTTP/1.1"
}

// servers records the servers of the load.
func (r *Prepared) servers(x *Result, parts []*part) {
	for i, probe := range r.probes {
		o := r.plan.Set.Origins[i]
		scheme := "http://"
		if o.TLS {
			scheme = "https://"
			x.TLS = &TLS{Resume: r.plan.Resume}
			for _, one := range parts {
				x.TLS.Handshakes += one.Handshakes
				x.TLS.Resumed += one.Resumed
			}
			if x.TLS.Handshakes > 0 {
				x.TLS.ResumedShare = float64(x.TLS.Resumed) / float64(x.TLS.Handshakes)
			}
		}
		x.Servers = append(x.Servers, Server{scheme + o.HostPort, probe})
	}
}

// warm determines the first slice that counts and sets from.
func (c *course) warm() WarmUp {
	w := WarmUp{AskedS: c.plan.WarmUp.Seconds(), State: Unknown}
	if c.plan.Each > 0 {
		w.Text = "no warm-up is left out: with --requests every request counts"
		return w
	}
	for c.from < len(c.slices) && c.slices[c.from].Stage == warmUp {
		c.from++
	}
	// Examine only a first stage with a steady rate: a rate change is not warm-up.
	first, end := c.from, c.from
	for end < len(c.slices) && c.slices[end].Stage == 0 {
		end++
	}
	if stages := c.plan.Stages; len(stages) > 0 && stages[0].From != stages[0].To || c.plan.Replay != nil {
		end = first
	}
	var medians []float64
	var at []int // indices of slices with a median
	for i := first; i < end; i++ {
		if v, ok := c.slices[i].Median(); ok {
			medians, at = append(medians, v), append(at, i)
		}
	}
	cut, state := settle(medians)
	w.State = state
	if state == Unsettled {
		// The mean over a warm-up is meaningless. Use the last quarter, which is the steadiest.
		cut = max(cut, len(at)*3/4)
	}
	if cut > 0 {
		c.from = at[cut]
		before, after := c.meter.Sum(first, c.from), c.meter.Sum(c.from, end)
		w.LeftOutS = (c.slices[c.from].From - c.slices[first].From).Seconds()
		w.BeforeS, w.AfterS = before.Percentile(50), after.Percentile(50)
	}
	counts := 0.0
	if end > c.from {
		counts = (c.slices[end-1].To - c.slices[c.from].From).Seconds()
	}
	w.Text = w.text(counts)
	return w
}

// figures sets the stages, the totals, the slices and the gates.
func (c *course) figures(x *Result) (err error) {
	whole := c.meter.Sum(c.from, len(c.slices))
	x.Whole = c.figuresOf(whole)
	x.Whole.AskedRate = c.asked(whole, x.Whole.ToS-x.Whole.FromS)
	if x.Histogram, err = whole.Encoded(); err != nil {
		return err
	}
	for i, s := range c.slices {
		x.Slices = append(x.Slices, Slice{s.From.Seconds(), s.To.Seconds(), i >= c.from, s.Starts, s.Wrong + s.Failed, perSecond(s.Answered, s.To-s.From), s.Percentile(50), s.Percentile(99), s.CPU})
	}
	for from := c.from; from < len(c.slices); {
		to := from
		for to < len(c.slices) && c.slices[to].Stage == c.slices[from].Stage {
			to++
		}
		t := c.meter.Sum(from, to)
		stage := Stage{Figures: c.figuresOf(t), KeptUp: c.keptUp(from, to), Rate: c.plan.stageName(c.slices[from].Stage)}
		stage.AskedRate = c.asked(t, stage.ToS-stage.FromS)
		x.Stages = append(x.Stages, stage)
		for _, g := range c.plan.Gates {
			judged := Gate{Result: g.Judge(measured{t, stage.AnswerRate, stage.Observed, len(c.seen)})}
			if lost := c.lost(); len(lost) > 0 {
				judged.Result = engine.Result{Gate: g.Text, Text: "cannot tell: the requests of client " + strings.Join(lost, ", client ") + " are unknown", Unknown: true}
			}
			if len(c.plan.Stages) > 1 {
				judged.Stage = stage.Rate
			}
			x.Gates = append(x.Gates, judged)
		}
		from = to
	}
	if len(x.Stages) == 0 { // no slice counts
		for _, g := range c.plan.Gates {
			x.Gates = append(x.Gates, Gate{Result: engine.Result{Gate: g.Text, Text: "cannot tell: nothing was measured", Unknown: true}})
		}
	}
	return nil
}

// asked returns the requested rate in the open model, in requests a second, else 0.
func (c *course) asked(t *engine.Total, length float64) float64 {
	if !c.plan.open() || length <= 0 {
		return 0
	}
	return float64(t.Starts) / length
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// keptUp reports whether the answers kept up with the starts. If no work piles up, the
// requests started in the second half of a stage are answered at their arrival rate, whatever
// their duration.
func (c *course) keptUp(from, to int) bool {
	t := c.meter.Sum(from, to)
	if t.Starts > 0 && float64(waitedInVain(t))/float64(t.Starts) > 1-keptUp {
		return false
	}
	if !c.plan.open() {
		return true
	}
	half := c.meter.Sum(from+(to-from)/2, to)
	missing := float64(half.Starts - half.Failed - half.Answered)
	// With few starts, one or two missing answers at the end mean nothing.
	return missing <= max(3, (1-keptUp)*float64(half.Starts))
}

// verdict returns the verdict and its explanation in one line. lost names the lost generators.
func (x *Result) verdict(lost []string) (Word, string) {
	f := &x.Whole
	rate := answers(f.AnswerRate)
	switch {
	case f.Latency.N == 0 || f.Starts == f.Errors+f.Failures[string(engine.Interrupted)].N:
		return Silent, "no request succeeded" + f.why()
	case len(lost) > 0:
		return Partial, fmt.Sprintf("client %s was lost and its requests are unknown; the other clients: %s, %s", strings.Join(lost, ", client "), rate, f.summary())
	case x.Generator.Limited:
		return Limited, fmt.Sprintf("the generator was the limit, not the server: %s, %s", rate, f.summary())
	}
	if x.Model == "open" {
		var failed []string
		for _, s := range x.Stages {
			if !s.KeptUp {
				failed = append(failed, fmt.Sprintf("the server did not sustain %s: %s, %s", s.Rate, answers(s.AnswerRate), s.summary()))
			}
		}
		if len(failed) > 0 {
			if len(x.Stages) > 1 && x.Stages[0].KeptUp {
				last := x.Stages[0]
				for _, s := range x.Stages {
					if !s.KeptUp {
						break
					}
					last = s
				}
				return NotSustained, fmt.Sprintf("the server sustained %s (%s); %s", last.Rate, last.summary(), failed[0])
			}
			return NotSustained, failed[0]
		}
	}
	if x.WarmUp.State == Unsettled {
		return Warming, fmt.Sprintf("the latency did not settle: %s; %s, %s", x.WarmUp.Text, rate, f.summary())
	}
	if x.Model == "closed" {
		return Measured, fmt.Sprintf("%s with %s, %s", rate, internaltext.Count(x.Connections, "connection"), f.summary())
	}
	if len(x.Stages) == 1 {
		return Sustained, fmt.Sprintf("the server sustained %s: %s", x.Stages[0].Rate, f.summary())
	}
	var each []string
	for _, s := range x.Stages {
		each = append(each, fmt.Sprintf("%s p99 %s", s.Rate, unit.FormatSecondsOf(s.Latency.N, s.Latency.P99S)))
	}
	return Sustained, fmt.Sprintf("the server sustained all rates: %s; %s", strings.Join(each, ", "), f.errors())
}

// why returns the most frequent failure with its number.
func (f *Figures) why() string {
	why, most := "", int64(0)
	for _, status := range slices.Sorted(maps.Keys(f.Statuses)) {
		if n := f.Statuses[status]; n > most {
			why, most = fmt.Sprintf(": status %s %s", status, internaltext.Count(n, "time")), n
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(f.Failures)) {
		if n := f.Failures[kind].N; n > most {
			why, most = fmt.Sprintf(": %s %s", kind, internaltext.Count(n, "time")), n
			if example := f.Failures[kind].Example; example != "" {
				why += ", as " + example
			}
		}
	}
	return why
}

// errors formats the share of errors.
func (f *Figures) errors() string {
	if f.Errors == 0 {
		return "no errors"
	}
	return unit.Digits(100*f.ErrorShare) + " % errors"
}

// answers formats a rate of answers.
func answers(perS float64) string { return unit.Digits(perS) + " answers a second" }
