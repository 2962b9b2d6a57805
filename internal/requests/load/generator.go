package load

import (
	"fmt"
	"net/netip"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Limits above which the generator counts as the bottleneck, not the server.
const (
	lateShare = 0.01 // share of the starts
	// lateMatters is the ratio of start delay to latency (both p99) that spoils latencies.
	lateMatters = 0.1
	// lateBegin is the maximum start delay of a client, in seconds.
	lateBegin = 0.05
)

// generator judges each generator separately: a mean would hide one generator at its limit.
func (c *course) generator(x *Result) {
	g := &x.Generator
	whole := c.meter.Sum(c.from, len(c.slices))
	g.StartDelay, g.Texts = c.meter.Delay(), []string{}
	if whole.Starts > 0 {
		g.LateShare, g.WaitedShare = float64(whole.Late)/float64(whole.Starts), float64(whole.Waited)/float64(whole.Starts)
	}
	cpu, answers := 0.0, int64(0)
	for _, one := range c.parts {
		if one.lost != nil {
			g.Clients = append(g.Clients, Client{Name: one.client.Name, ClockErrorS: one.client.Off.Seconds(), Lost: evidence.EscapeInvalidUTF8(one.lost.Why())})
			continue
		}
		client, limits := c.client(one)
		client.EndedEarly = one.Stopped
		g.Limited = g.Limited || len(limits) > 0
		for _, text := range limits {
			if client.Name != "" {
				text = client.Name + ": " + text
			}
			g.Texts = append(g.Texts, text)
		}
		if client.Name != "" {
			g.Clients = append(g.Clients, client)
		}
		g.Processors += one.Processors
		g.CPUShare += client.CPUShare * float64(one.Processors)
		g.CPUWanted += client.CPUWanted * float64(one.Processors)
		g.Opened += one.Opened
		g.Reopened += one.Reopened
		cpu += one.CPU.Seconds()
	}
	for _, s := range c.slices {
		answers += s.Answered
	}
	g.CPUShare /= float64(max(1, g.Processors))
	g.CPUWanted /= float64(max(1, g.Processors))
	if answers > 0 {
		g.CPUPerAnswerS = cpu / float64(answers)
	}
	if g.WaitedShare > 0 {
		g.Texts = append(g.Texts, fmt.Sprintf("%s %% of the requests found all %s in use: their latency includes the wait for a connection; raise --max-connections", unit.Digits(100*g.WaitedShare), internaltext.Count(c.plan.Connections, "connection")))
	}
	for _, probe := range c.probes {
		to, err := netip.ParseAddrPort(probe.Address)
		g.SharesProcessor = g.SharesProcessor || err == nil && to.Addr().IsLoopback()
	}
	if g.SharesProcessor {
		g.Texts = append(g.Texts, "generator and server share this machine")
	}
}

// lost returns the names of the lost generators.
func (c *course) lost() (names []string) {
	for _, one := range c.parts {
		if one.lost != nil {
			names = append(names, one.client.Name)
		}
	}
	return names
}

// client returns the figures of one generator, and the limits that it exceeded.
func (c *course) client(one *part) (client Client, limits []string) {
	t, delay := one.meter.Sum(c.from, len(c.slices)), one.meter.Delay()
	client = Client{Starts: t.Starts, Connections: one.Connections, Processors: one.Processors, StartDelayP99S: delay.P99S, LateBeginS: one.Late.Seconds()}
	if one.client != nil {
		client.Name, client.ClockErrorS = one.client.Name, one.client.Off.Seconds()
	}
	if t.Starts > 0 {
		client.LateShare = float64(t.Late) / float64(t.Starts)
	}
	n := 0
	for i, s := range one.meter.Slices(one.Until) {
		if i >= c.from && s.CPU > 0 {
			client.CPUShare += s.CPU
			client.CPUWanted += s.Wanted
			n++
		}
	}
	client.CPUShare /= float64(max(1, n))
	client.CPUWanted /= float64(max(1, n))
	latency := t.Percentile(99)
	if client.LateShare > lateShare && delay.P99S > lateMatters*latency {
		limits = append(limits, fmt.Sprintf("%s %% of the requests were sent more than 1 ms late although a connection was free (p99 %s): this machine lacks processor time for the rate", unit.Digits(100*client.LateShare), unit.FormatSeconds(delay.P99S)))
	}
	if text := engine.ProcessorLimit(client.CPUShare, client.CPUWanted, one.Processors); text != "" {
		limits = append(limits, text)
	}
	if client.LateBeginS > lateBegin {
		limits = append(limits, fmt.Sprintf("started %s after the others", unit.FormatSeconds(client.LateBeginS)))
	}
	return client, limits
}
