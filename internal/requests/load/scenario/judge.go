package scenario

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Limits of the verdict, as those of load http.
const (
	keptUp = 0.95 // share of hosts that did all steps
	// lateMatters is the ratio of start delay to latency (both p99) that spoils latencies.
	lateMatters = 0.1
)

// Judge judges the sum of parts.
func Judge(p *Plan, parts []*Part) (*Result, error) {
	s, err := together(p, parts)
	if err != nil {
		return nil, err
	}
	l := p.Options.Load
	x := &Result{Schema: Schema, Scenario: p.Name, Title: p.Title, StandIn: s.StandIn, Model: "closed", Hosts: p.Hosts(), Repeat: l.Repeat, Seed: p.Seed, RunID: p.Run, TimeoutS: p.Timeout.Seconds(),
		Duration: s.Took.Seconds(), Servers: s.Targets, Steps: []Step{}, Gates: []Judged{}, Series: []evidence.Series{}, Curves: []evidence.Curve{}, ErrorShare: 0.001, ResolutionS: engine.Resolution.Seconds()}
	if l.Rate > 0 {
		x.Model, x.Repeat, x.Rate, x.ForS = "open", 0, l.Rate, l.For.Seconds()
	}
	if x.Whole, err = s.hosts.figures(x.Duration); err != nil {
		return nil, err
	}
	for i, one := range slices.Concat(p.setup, p.steps) {
		f, err := s.steps[i].figures(x.Duration)
		if err != nil {
			return nil, err
		}
		x.Steps = append(x.Steps, Step{Name: one.name, Setup: i < len(p.setup), Kind: one.kind(), Figures: f})
		x.Whole.Requests += f.Requests
		x.Whole.BytesIn += f.BytesIn
		for status, n := range f.Statuses {
			x.Whole.Statuses[status] += n
		}
	}
	if s.Cut {
		x.Cut = &evidence.Interruption{Done: int(s.Ended - x.Whole.Interrupted), Planned: int(s.Passes), Of: "passes"}
	}
	x.Stopped = s.Stopped
	if p.Journal != nil {
		x.Created = p.Journal.counts()
	}
	for _, g := range p.Gates {
		t, f := s.hosts, &x.Whole
		if i := slices.Index(p.Steps(), g.Step); i >= 0 {
			t, f = s.steps[i], &x.Steps[i].Figures
		}
		x.Gates = append(x.Gates, Judged{g.Step, g.Judge(measured{t.latency, f})})
	}
	x.generator(s, parts)
	if err := x.series(s, p); err != nil {
		return nil, err
	}
	x.curves(s)
	x.Word, x.Text = x.verdict()
	x.Text = x.Cut.Text(x.Text)
	return x, nil
}

// generator records the figures of the generators and the limits that they exceeded. Each is
// judged separately: a mean would hide one at its limit.
func (x *Result) generator(s *sum, parts []*Part) {
	g := &x.Generator
	*g = Generator{StartDelay: s.delay.Times(), Processors: s.Processors, CPUShare: s.CPUShare, CPUWanted: s.CPUWanted, Opened: s.Opened, Reopened: s.Reopened, Handshakes: s.Handshakes, Texts: []string{}}
	if x.Whole.Requests > 0 {
		g.CPUPerRequestS = s.CPU.Seconds() / float64(x.Whole.Requests)
	}
	limit := func(text string) { g.Limited, g.Texts = true, append(g.Texts, text) }
	local := engine.FailureCount{}
	fastest := 0.0
	for i := range x.Steps {
		f := x.Steps[i].Causes[string(engine.Local)]
		if local.N += f.N; local.Example == "" {
			local.Example = f.Example
		}
		if p99 := x.Steps[i].Latency.P99S; x.Steps[i].Requests > 0 && p99 > 0 && (fastest == 0 || p99 < fastest) {
			fastest = p99
		}
	}
	if local.N > 0 {
		limit(fmt.Sprintf("this machine ran out of ports or files %s: %s", internaltext.Count(local.N, "time"), local.Example))
	}
	for _, one := range parts {
		if text := engine.ProcessorLimit(one.CPUShare, one.CPUWanted, one.Processors); text != "" {
			if one.Client != "" {
				text = one.Client + ": " + text
			}
			limit(text)
		}
		if one.Client != "" {
			g.Clients = append(g.Clients, Client{Name: one.Client, Passes: one.Passes, Ended: one.Ended, CPUShare: one.CPUShare, Processors: one.Processors})
		}
	}
	if late := g.StartDelay.P99S; late > engine.LateAfter.Seconds() && late > lateMatters*fastest {
		g.Texts = append(g.Texts, fmt.Sprintf("requests were sent up to %s (p99) after they were due, which their latency includes", unit.FormatSeconds(late)))
	}
	for _, t := range x.Servers {
		to, err := netip.ParseAddrPort(t.Address)
		g.SharesMachine = g.SharesMachine || err == nil && to.Addr().IsLoopback()
	}
	if g.SharesMachine {
		g.Texts = append(g.Texts, "generator and server share this machine")
	}
}

// verdict returns the verdict and its explanation in one line.
func (x *Result) verdict() (Word, string) {
	w := &x.Whole
	did := w.Runs - w.Errors - w.Interrupted
	what := fmt.Sprintf("%d of %s did all steps", did, internaltext.Count(w.Runs, "host"))
	if x.Repeat > 1 {
		what = fmt.Sprintf("%d of %s did all steps", did, internaltext.Count(w.Runs, "pass"))
	}
	if did == w.Runs {
		what = "all " + internaltext.Count(w.Runs, "host") + " did all steps"
	}
	if w.Latency.N > 0 {
		what += fmt.Sprintf(" (p50 %s, p99 %s)", unit.FormatSeconds(w.Latency.P50S), unit.FormatSeconds(w.Latency.P99S))
	}
	switch {
	case did == 0:
		return Silent, "no host did all steps" + x.why()
	case x.Generator.Limited:
		return Limited, "the generator was the limit, not the server: " + what + x.why()
	case x.Model == "closed":
		return Measured, what + x.why()
	case float64(did) < keptUp*float64(w.Runs):
		return NotSustained, "the server did not sustain " + x.asked() + ": " + what + x.why()
	}
	if did < w.Runs {
		return Sustained, "at " + x.asked() + " " + what + x.why()
	}
	return Sustained, "the server sustained " + x.asked() + ": " + what + x.why()
}

func (x *Result) asked() string { return unit.Digits(x.Rate) + " hosts a second" }

// why returns the most frequent failure with its step.
func (x *Result) why() string {
	var at *Step
	kind := ""
	for i := range x.Steps {
		s := &x.Steps[i]
		for _, cause := range slices.Sorted(maps.Keys(s.Causes)) {
			if at == nil || s.Causes[cause].N > at.Causes[kind].N {
				at, kind = s, cause
			}
		}
	}
	if at == nil {
		return ""
	}
	f := at.Causes[kind]
	text := fmt.Sprintf("; step %s: %s %s", at.Name, kind, internaltext.Count(f.N, "time"))
	if f.Example != "" {
		text += ", as " + f.Example
	}
	return text
}

// blocks is the number of samples of each step, for comparing runs.
const blocks = 10

// series records samples of each step for comparing runs: the median and the 99th percentile,
// in periods of equal length.
func (x *Result) series(s *sum, p *Plan) error {
	for i, one := range p.steps {
		t := s.steps[len(p.setup)+i]
		p50, p99 := evidence.Series{Name: "scenario:p50@" + one.name, Unit: "ms"}, evidence.Series{Name: "scenario:p99@" + one.name, Unit: "ms"}
		n := min(blocks, len(t.periods))
		for k := range n {
			d := engine.NewDistribution(longestTime)
			for _, period := range t.periods[len(t.periods)*k/n : len(t.periods)*(k+1)/n] {
				d.Include(period.latency)
			}
			if d.Times().N == 0 {
				continue
			}
			for _, err := range []error{p50.Add(1000 * d.Percentile(50)), p99.Add(1000 * d.Percentile(99))} {
				if err != nil {
					return err
				}
			}
		}
		if len(p50.Samples) > 0 {
			x.Series = append(x.Series, p50, p99)
		}
	}
	return nil
}

// curves records the latency of each step by percentile, and the hosts over time.
func (x *Result) curves(s *sum) {
	by := evidence.Curve{Name: "latency by percentile", X: evidence.Axis{Name: "percentile", Scale: evidence.Percentile}, Y: evidence.Axis{Name: "latency", Unit: "ms", Scale: evidence.Log}}
	for _, one := range x.Steps {
		if line := one.Latency.Line(one.Name); len(line.Points) > 0 {
			by.Lines = append(by.Lines, line)
		}
	}
	if len(by.Lines) > 0 {
		x.Curves = append(x.Curves, by)
	}
	done, failed := evidence.Line{Name: "did all steps"}, evidence.Line{Name: "failed"}
	good, bad := int64(0), int64(0)
	for i, period := range s.hosts.periods {
		good, bad = good+period.good, bad+period.failed
		at := min(time.Duration(i+1)*s.hosts.width, s.Took).Seconds()
		done.Points, failed.Points = append(done.Points, [2]float64{at, float64(good)}), append(failed.Points, [2]float64{at, float64(bad)})
	}
	if len(done.Points) > 1 {
		x.Curves = append(x.Curves, evidence.Curve{Name: "hosts over time", X: evidence.Axis{Name: "time", Unit: "s", Scale: evidence.Linear}, Y: evidence.Axis{Name: "hosts", Scale: evidence.Linear}, Lines: []evidence.Line{done, failed}})
	}
}
