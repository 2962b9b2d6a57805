package mqtt

import (
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/stats"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// judge completes the result: limits, verdict, gates and series.
func (r *Prepared) judge(x *Result, cut bool, busy busiest, cpu time.Duration) (*Result, error) {
	r.mu.Lock()
	x.Connect.Lost, x.Connect.LostFailures = r.lost, r.whyLost
	x.Generator.Foreign = r.foreign
	r.mu.Unlock()
	g := &x.Generator
	g.Processors, g.CPUS, g.BusiestS, g.Texts = engine.Processors(), cpu.Seconds(), busy.most, []string{}
	if busy.n > 0 {
		g.CPUShare = busy.sum / busy.n
	}
	g.SharesMachine = r.proxy.To.Addr().IsLoopback()
	x.limits()
	if cut {
		done := 0
		for _, o := range x.Rounds {
			done += o.Jobs - o.lost()
		}
		if done < x.Hosts*len(r.plan.Settings) {
			x.Cut = &evidence.Interruption{Done: done, Planned: x.Hosts * len(r.plan.Settings), Of: "jobs"}
		}
	}
	if len(x.Rounds) == 0 {
		for _, gate := range r.plan.Gates {
			x.Gates = append(x.Gates, Gate{Result: engine.Result{Gate: gate.Text, Text: "cannot tell: no job was sent", Unknown: true}})
		}
	}
	r.curves(x)
	x.Word, x.Text = x.verdict()
	x.Text = x.Cut.Text(x.Text)
	return x, r.series(x)
}

// limits records the limits that the generator exceeded.
func (x *Result) limits() {
	g := &x.Generator
	say := func(format string, args ...any) { g.Texts = append(g.Texts, internaltext.Sprintf(format, args...)) }
	own := x.Connect.Failures[string(engine.Local)]
	for _, o := range x.Rounds {
		all := []map[string]engine.FailureCount{o.PublishFailures}
		if o.Pull != nil {
			all = append(all, o.Pull.FetchFailures, o.Pull.ReportFailures)
		}
		for _, failures := range all {
			if f := failures[string(engine.Local)]; f.N > 0 {
				own.N += f.N
				if own.Example == "" {
					own.Example = f.Example
				}
			}
		}
	}
	if own.N > 0 {
		g.Limited = true
		say("this machine ran out of ports or files %s: %s", internaltext.Count(own.N, "time"), own.Example)
	}
	if text := engine.ProcessorLimit(g.CPUShare, 0, g.Processors); text != "" {
		g.Limited = true
		say("%s", text)
	}
	if g.SharesMachine {
		say("generator and broker share this machine")
	}
}

// blocks is the number of samples per phase, for comparing runs.
const blocks = 10

// sampled records series of the median and the 99th percentile, one value per block of equal
// size, if there are enough times.
func sampled(x *Result, name string, all []float64) error {
	p50, p99 := evidence.Series{Name: name + ":p50", Unit: "ms"}, evidence.Series{Name: name + ":p99", Unit: "ms"}
	n := min(blocks, len(all)/3)
	for i := range n {
		part := all[len(all)*i/n : len(all)*(i+1)/n]
		for _, err := range []error{p50.Add(1000 * stats.Quantile(part, 0.5)), p99.Add(1000 * stats.Quantile(part, 0.99))} {
			if err != nil {
				return err
			}
		}
	}
	if n > 0 {
		x.Series = append(x.Series, p50, p99)
	}
	return nil
}

// series records the notification latencies in the order in which the jobs were due. The
// caller holds the lock.
func (o *round) series(x *Result) error {
	name := "mqtt:notify"
	if len(o.plan.Settings) > 1 {
		name = fmt.Sprintf("%s@%d:%s", name, o.id.round+1, o.settings) // settings may occur twice
	}
	var all []float64
	for i := range o.jobs {
		if h := o.jobs[i].heard; h >= 0 {
			all = append(all, h.Seconds())
		}
	}
	return sampled(x, name, all)
}

// series records, as samples, how long the hosts took to connect.
func (r *Prepared) series(x *Result) error {
	var all []float64
	for _, h := range r.hosts {
		if h.latency >= 0 {
			all = append(all, h.latency.Seconds())
		}
	}
	return sampled(x, "mqtt:connect", all)
}

// steps is the number of points of the curve of connected hosts.
const steps = 60

// curves records the notification latency by percentile and the connected hosts over time.
func (r *Prepared) curves(x *Result) {
	by := evidence.Curve{Name: "notification latency by percentile", X: evidence.Axis{Name: "percentile", Scale: evidence.Percentile}, Y: evidence.Axis{Name: "latency", Unit: "ms", Scale: evidence.Log}}
	for i, o := range x.Rounds {
		name := "from the intended publish"
		if len(x.Rounds) > 1 {
			name = fmt.Sprintf("%d: %s", i+1, o.Settings)
		}
		if line := o.Latency.Line(name); len(line.Points) > 0 {
			by.Lines = append(by.Lines, line)
		}
	}
	if len(by.Lines) > 0 {
		x.Curves = append(x.Curves, by)
	}
	if x.Connect.Connected == 0 {
		return
	}
	came := evidence.Line{Name: "connected"}
	asked := evidence.Line{Name: "meant to be"}
	for i := 1; i <= steps; i++ {
		at := time.Duration(x.Connect.DurationS * float64(time.Second) * float64(i) / steps)
		n, due := 0, 0
		for j, h := range r.hosts {
			if h.latency >= 0 && r.due(j)+h.latency <= at {
				n++
			}
			if r.due(j) <= at {
				due++
			}
		}
		came.Points = append(came.Points, [2]float64{at.Seconds(), float64(n)})
		asked.Points = append(asked.Points, [2]float64{at.Seconds(), float64(due)})
	}
	x.Curves = append(x.Curves, evidence.Curve{Name: "hosts over time", X: evidence.Axis{Name: "time", Unit: "s", Scale: evidence.Linear}, Y: evidence.Axis{Name: "hosts", Scale: evidence.Linear}, Lines: []evidence.Line{came, asked}})
}

// verdict returns the verdict and its explanation in one line.
func (x *Result) verdict() (Word, string) {
	c := &x.Connect
	if c.Connected == 0 {
		return Silent, "no host could connect" + often(c.Failures)
	}
	wrong := x.wrong()
	switch {
	case x.Generator.Limited:
		return Limited, strings.Join(append([]string{"the generator was the limit, not the broker"}, wrong...), "; ")
	case len(wrong) > 0:
		return NotSustained, strings.Join(wrong, "; ")
	}
	text := fmt.Sprintf("%s connected (p99 %s)", internaltext.Count(c.Connected, "host"), unit.FormatSeconds(c.Latency.P99S))
	for _, o := range x.whole() {
		about := ""
		if len(x.Rounds) > 1 {
			about = o.Settings + ": "
		}
		did := "notified"
		if o.Pull != nil {
			did = "done"
		}
		text += fmt.Sprintf("; %sall %s %s, notifications p50 %s, p99 %s", about, internaltext.Count(o.Jobs, "job"), did, unit.FormatSeconds(o.Latency.P50S), unit.FormatSeconds(o.Latency.P99S))
	}
	return Sustained, text
}

// whole returns the completed rounds.
func (x *Result) whole() []Round {
	if n := len(x.Rounds); x.Cut != nil && n > 0 {
		return x.Rounds[:n-1]
	}
	return x.Rounds
}

// wrong lists the faults, causes before effects.
func (x *Result) wrong() (out []string) {
	say := func(format string, args ...any) { out = append(out, internaltext.Sprintf(format, args...)) }
	c := &x.Connect
	if c.Refused > 0 {
		first := ""
		if *c.FirstRefused > 0 {
			first = internaltext.Sprintf(", first refusal at %d connections", *c.FirstRefused)
		}
		say("%d of %s were connected%s%s", c.Connected, internaltext.Count(x.Hosts, "host"), first, often(c.Failures))
	}
	if c.Lost > 0 {
		say("the broker closed %s later%s", internaltext.Count(c.Lost, "connection"), often(c.LostFailures))
	}
	for _, o := range x.whole() {
		about := ""
		if len(x.Rounds) > 1 {
			about = o.Settings + ": "
		}
		if o.Undelivered > 0 {
			why := ""
			switch {
			case o.NotPublished > 0:
				why = fmt.Sprintf(" (the proxy, which retries one job before the next, failed to publish in %s%s)", internaltext.Count(o.NotPublished, "attempt"), often(o.PublishFailures))
			case o.Pull != nil && len(o.Pull.FetchFailures) > 0:
				why = fmt.Sprintf(" (fetching failed%s)", often(o.Pull.FetchFailures))
			case o.NotConnected > 0:
				why = internaltext.Sprintf(" (%d hosts were not connected)", o.NotConnected)
			}
			say("%s%d of %s were not delivered%s", about, o.Undelivered, internaltext.Count(o.Jobs, "job"), why)
		}
		if o.Pull == nil {
			continue
		}
		if o.Pull.Unresponsive > 0 {
			say("%s%s hung: the final report failed%s", about, internaltext.Count(o.Pull.Unresponsive, "job"), often(o.Pull.ReportFailures))
		}
		if o.Pull.OutputLost > 0 {
			say("%s%s lacked output%s", about, internaltext.Count(o.Pull.OutputLost, "job"), often(o.Pull.ReportFailures))
		}
	}
	return out
}

// often returns the most frequent failure with its example.
func often(all map[string]engine.FailureCount) string {
	kinds := failures(all).kinds()
	if len(kinds) == 0 {
		return ""
	}
	f := all[kinds[0]]
	text := fmt.Sprintf(": %s %s", kinds[0], internaltext.Count(f.N, "time"))
	if f.Example != "" {
		text += ", as " + f.Example
	}
	return text
}
