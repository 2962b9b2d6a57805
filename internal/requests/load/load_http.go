package load

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Headline reports missed thresholds, how the server answered, and what limited the load.
func (x *Result) Headline() (h ui.Headline) {
	engine.Thresholds(&h, x.Gates, Gate.parts)
	f := &x.Whole
	if l := f.Latency; l.N > 0 && len(x.Stages) == 1 && x.Knee == nil {
		h.Value("p50_s", l.P50S, "")
		h.Value("p99_s", l.P99S, "")
	}
	if rate := answers(f.AnswerRate); strings.Contains(x.Text, rate) {
		h.Figure("answers_per_s", f.AnswerRate, "")
	}
	if f.Errors > 0 && strings.Contains(x.Text, f.errors()) {
		h.Figure("errors_percent", 100*f.ErrorShare, "")
	}
	h.Line("%s", x.Text)
	switch texts := x.Generator.Texts; {
	case x.Generator.Limited && len(texts) > 0:
		h.Line("%s", texts[0])
	case x.Generator.WaitedShare > 0.01:
		h.Line("%s of the requests waited for a free connection: the server never saw more than %s at a time", h.Figure("waited_percent", 100*x.Generator.WaitedShare, "%"), h.Count("connections", x.Connections, "connection"))
	}
	return h
}

// Next returns no next step: it depends on the server.
func (x *Result) Next() (string, []string) { return "", nil }

// Print prints the result of a load, the verdict first.
func (x *Result) Print(s *ui.Screen, r *evidence.Run) {
	h := x.Headline()
	ui.PrintHeadline(s, &h)
	fmt.Fprintln(s.Out)
	if x.Knee != nil {
		loadKnee(s, x.Knee)
		fmt.Fprintln(s.Out)
	}
	loadStages(s, x)
	if len(x.Whole.Observed) > 0 {
		fmt.Fprintln(s.Out)
		loadObserved(s, x)
	}
	if len(x.Generator.Clients) > 0 {
		fmt.Fprintln(s.Out)
		loadClients(s, x)
	}
	if len(x.Gates) > 0 {
		fmt.Fprintln(s.Out)
		engine.WriteGates(s, x.Gates, " at ", Gate.parts)
	}
	if len(x.Requests) > 1 {
		fmt.Fprintln(s.Out)
		loadRequests(s, x)
	}
	fmt.Fprintln(s.Out)
	loadFacts(r, x).Write(s)
}

// loadKnee prints the stages of a search as a table.
func loadKnee(s *ui.Screen, k *Knee) {
	g := ui.Grid{Columns: []ui.Column{{Head: "stage"}, {Head: "rate"}, {Head: "verdict"}, {Head: "why", Cut: true}}}
	for i, stage := range k.Stages {
		g.Rows = append(g.Rows, []string{fmt.Sprintf("%d %s", i+1, stage.Purpose), fmt.Sprintf("%s/s for %s s", unit.Digits(stage.Rate), unit.Digits(stage.ForS)), string(stage.Verdict), stage.Why})
	}
	g.Write(s)
}

// loadObserved prints the figures of the observed servers, without warm-up.
func loadObserved(s *ui.Screen, x *Result) {
	g := ui.Grid{Columns: ui.Columns("machine", "CPU", "busiest CPU", "stolen", "run queue a CPU", "memory", "network, in and out")}
	for _, o := range x.Whole.Observed {
		queue := fmt.Sprintf("%.2f", o.RunQueue)
		if o.LongestRunQueue != nil {
			queue += fmt.Sprintf(" (most %.2f)", *o.LongestRunQueue)
		}
		var networks []string
		for _, name := range slices.Sorted(maps.Keys(o.Networks)) {
			if n := o.Networks[name]; n.InBytesPerS > 0 || n.OutBytesPerS > 0 {
				networks = append(networks, fmt.Sprintf("%s %s/s, %s/s", name, unit.Size(n.InBytesPerS).Human(), unit.Size(n.OutBytesPerS).Human()))
			}
		}
		share := func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
		g.Rows = append(g.Rows, []string{o.Machine, internaltext.Sprintf("%s of %d", share(o.CPUShare), o.CPUs), share(o.BusiestCPUShare), share(o.StolenShare), queue, share(o.MemoryShare), strings.Join(networks, "; ")})
	}
	g.Write(s)
}

// mostClients is the maximum number of printed generators that were not lost.
const mostClients = 10

// loadClients prints a table of the generators: all lost ones, and the first others.
func loadClients(s *ui.Screen, x *Result) {
	g := ui.Grid{Columns: ui.Columns("client", "starts", "connections", "CPU", "start delay p99", "clock off by at most")}
	shown := 0
	for _, c := range x.Generator.Clients {
		switch shown++; {
		case c.Lost != "":
			shown--
			g.Rows = append(g.Rows, []string{c.Name, "lost", "-", "-", "-", unit.FormatSeconds(c.ClockErrorS)})
		case shown <= mostClients || s.Wide:
			g.Rows = append(g.Rows, []string{c.Name, internaltext.Sprintf("%d", c.Starts), internaltext.Sprintf("%d", c.Connections), internaltext.Sprintf("%.0f %% of %d", 100*c.CPUShare, c.Processors), unit.FormatSecondsMeasured(c.StartDelayP99S), unit.FormatSeconds(c.ClockErrorS)})
		}
	}
	g.Write(s)
	if n := shown - mostClients; n > 0 && !s.Wide {
		s.Say("the record has %s; --wide prints them", internaltext.Count(n, "further client"))
	}
}

// loadStages prints the latencies of each stage.
func loadStages(s *ui.Screen, x *Result) {
	g := ui.Grid{Columns: ui.Columns("rate", "answers", "errors", "p50", "p90", "p99", "p99.9", "max")}
	for i := range g.Columns[1:] {
		g.Columns[i+1].Right = true
	}
	for _, stage := range x.Stages {
		l := stage.Latency
		rate := stage.Rate
		if rate == "" {
			rate = internaltext.Count(x.Connections, "connection")
		}
		g.Rows = append(g.Rows, []string{rate, unit.Digits(stage.AnswerRate) + "/s", unit.Digits(100*stage.ErrorShare) + " %",
			unit.FormatSecondsOf(l.N, l.P50S), unit.FormatSecondsOf(l.N, l.P90S), unit.FormatSecondsOf(l.N, l.P99S), unit.FormatSecondsOf(l.N, l.P99_9S), unit.FormatSecondsOf(l.N, l.MaxS)})
	}
	g.Write(s)
}

// mostRequests is the maximum number of printed requests.
const mostRequests = 20

func loadRequests(s *ui.Screen, x *Result) {
	g := ui.Grid{Columns: ui.Columns("weight", "request", "starts", "errors")}
	all := slices.Clone(x.Requests)
	slices.SortStableFunc(all, func(a, b Request) int { return int(b.Starts - a.Starts) })
	for _, q := range all[:min(len(all), mostRequests)] {
		g.Rows = append(g.Rows, []string{fmt.Sprint(q.Weight), q.Method + " " + q.URL, fmt.Sprint(q.Starts), fmt.Sprint(q.Errors)})
	}
	g.Write(s)
	if n := len(all) - mostRequests; n > 0 {
		s.Say("the record has %s", internaltext.Count(n, "further request"))
	}
}

// loadFacts returns the facts that no other table has.
func loadFacts(r *evidence.Run, x *Result) *ui.Grid {
	g := &ui.Grid{Columns: []ui.Column{{}, {Below: true}}}
	row := g.Row
	if x.Cut != nil {
		row("not whole", "%s", x.Cut)
	}
	for _, server := range x.Servers {
		row("server", "%s at %s", server.Origin, server.Probe)
	}
	if t := x.Replay; t != nil {
		row("replay", "%s from %s (%s), %s, times accurate to %s; %s", internaltext.Count(t.Requests, "request"), strings.Join(t.Logs, ", "), strings.Join(t.Formats, ", "), t.When(), unit.FormatSeconds(t.ResolutionS), t.Left())
	}
	for _, o := range x.Observed {
		text := "run queue from " + o.RunQueueSource
		if o.Ended != "" {
			text += "; not observed to the end: " + o.Ended
		}
		row("observed "+o.Machine, "%s", text)
	}
	model := "open model: latency is from the intended start"
	if x.Model == "closed" {
		model = "closed model: each connection waits for its answer, so a stall delays few requests"
	}
	row("measured", "%s, %s; %s", x.Protocol, internaltext.Count(x.Connections, "connection"), model)
	if l := x.Whole.Latency; l.N > 0 {
		row("latency", "mean %s, standard deviation %s, of %d", unit.FormatSeconds(l.MeanS), unit.FormatSeconds(l.SDS), l.N)
	}
	row("warm-up", "%s", x.WarmUp.Text)
	if x.Model == "open" && x.Whole.Service.N > 0 {
		row("from sending", "p50 %s, p99 %s", unit.FormatSeconds(x.Whole.Service.P50S), unit.FormatSeconds(x.Whole.Service.P99S))
	}
	if statuses := statusCounts(x.Whole.Statuses); statuses != "" {
		row("statuses", "%s", statuses)
	}
	for _, kind := range slices.Sorted(maps.Keys(x.Whole.Failures)) {
		f := x.Whole.Failures[kind]
		text := fmt.Sprint(f.N)
		if f.Example != "" {
			text += ", as " + f.Example
		}
		row(kind, "%s", text)
	}
	row("received", "%s", unit.Size(x.Whole.BytesIn).Human())
	if t := x.TLS; t != nil {
		how := "resumption off"
		if t.Resume {
			how = fmt.Sprintf("%s %% resumed", unit.Digits(100*t.ResumedShare))
		}
		row("TLS", "%s, %s", internaltext.Count(t.Handshakes, "handshake"), how)
	}
	row("generator", "%.0f %% of %s, %s of processor time an answer; p99 of its start delay %s", 100*x.Generator.CPUShare, internaltext.Count(x.Generator.Processors, "processor"), unit.FormatSecondsMeasured(x.Generator.CPUPerAnswerS), unit.FormatSecondsOf(x.Generator.StartDelay.N, x.Generator.StartDelay.P99S))
	for _, text := range x.Generator.Texts {
		row("note", "%s", text)
	}
	if r.ID != "" {
		row("evidence", "run %s, seed %s", r.ID, strconv.FormatUint(x.Seed, 10))
	}
	return g
}

// statusCounts formats counts by status: "200: 5, 404: 1".
func statusCounts(of map[string]int64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, internaltext.Sprintf("%s: %d", name, of[name]))
	}
	return strings.Join(out, ", ")
}
