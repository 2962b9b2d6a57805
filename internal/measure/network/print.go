package network

import (
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Headline returns the throughput of both directions with its limit, the round trip idle and
// loaded, and the path.
func (r *Result) Headline() (h ui.Headline) {
	var said []string
	for _, direction := range []string{"send", "receive"} {
		if s := r.best(direction); s != nil {
			said = append(said, fmt.Sprintf("%s %s Mbit/s (limit: %s)", direction, h.Value(direction+"_mbit_s", s.value(goodput)/1e6, unit.Digits(s.value(goodput)/1e6)), s.Limit.Word))
		}
	}
	var rtt, added []string
	for i := range r.Cells {
		s := &r.Cells[i]
		switch s.Cell {
		case string(Probes):
			rtt = append(rtt, fmt.Sprintf("round trip %s", h.Value("rtt_s", s.value(p50), unit.FormatSeconds(s.value(p50)))))
			if lost := max(s.value(lossUp), s.value(lossDown)); lost > 0 {
				rtt = append(rtt, fmt.Sprintf("%s of the probes lost", h.Value("lost_share", lost, text.Percent(lost))))
			}
		case string(LoadUp), string(LoadDown):
			f, _ := s.Figure(addedP50)
			more := h.Value(strings.ReplaceAll(s.Cell, "-", "_")+"_added_s", f.Value, unit.FormatSeconds(max(0, f.Value)))
			switch {
			case f.Interval == nil:
				more = "an unknown time (too few runs)"
			case f.Interval[0] <= 0:
				more = "no measurable time"
			}
			added = append(added, fmt.Sprintf("%s (%s)", more, strings.TrimPrefix(s.Cell, "loaded-")))
		}
	}
	if len(added) > 0 {
		rtt = append(rtt, "load adds "+strings.Join(added, ", "))
	}
	if len(said) == 0 && len(rtt) == 0 {
		said = append(said, r.text())
	}
	if len(said) > 0 {
		h.Line("%s", r.Cut.Text(strings.Join(said, "; ")))
	}
	if len(r.Doubts) > 0 {
		h.Line("doubtful: %s", strings.Join(r.Doubts, "; "))
	}
	if len(rtt) > 0 {
		h.Line("%s", strings.Join(rtt, ", "))
	}
	if r.Path != nil {
		h.Line("%s", r.Path.line(&h))
	}
	if r.Overlay != nil {
		if line := r.Overlay.line(&h); line != "" {
			h.Line("%s", line)
		}
	}
	return h
}

// line describes the path MTU of both directions.
func (p *Path) line(h *ui.Headline) string {
	h.Value("path_mtu_send_bytes", float64(p.Up.MTU), "")
	h.Value("path_mtu_receive_bytes", float64(p.Down.MTU), "")
	return "path MTU " + p.words()
}

func (p *Path) words() string {
	if p.Up == p.Down {
		return p.Up.words()
	}
	return "send " + p.Up.words() + "; receive " + p.Down.words()
}

func (w Way) words() string {
	switch w.How {
	case NoAnswer:
		return "unknown (no answer to UDP)"
	case BlackHole:
		return fmt.Sprintf("%d bytes: larger packets disappear, and no router reports it (black hole)", w.MTU)
	case ByICMP:
		return fmt.Sprintf("%d bytes, reported by a router (interface: %d)", w.MTU, w.Interface)
	}
	return fmt.Sprintf("%d bytes, the interface's MTU", w.MTU)
}

// Next returns the next step and its call, if interrupts on this machine limit a throughput.
func (r *Result) Next() (string, []string) {
	if r.Cut == nil {
		for i := range r.Cells {
			if l := r.Cells[i].Limit; l != nil && l.Word == LimitInterrupts && l.Where == "here" {
				return "to see which processors serve the interrupts:", []string{"irq", "show"}
			}
		}
	}
	return "", nil
}

// Print prints the result of the bench, the verdict first.
func (r *Result) Print(s *ui.Screen, run *evidence.Run) {
	h := r.Headline()
	ui.PrintHeadline(s, &h)
	fmt.Fprintln(s.Out)
	r.streams(s)
	r.times(s)
	r.udp(s)
	if r.Overlay != nil {
		r.Overlay.print(s, r.Path)
	}
	for i := range r.Changed {
		r.Changed[i].print(s)
	}
	g := ui.Grid{Columns: []ui.Column{{}, {Below: true}}}
	g.Row("peer", "%s %s", r.Peer, r.Name)
	if o := r.Overlay; o != nil {
		g.Row("overlay", "%s: %s here, %s at the peer", o.Peer, o.Local.words(), o.Remote.words())
	}
	g.Row("ends", "%s here, %s at the peer; congestion control %s and %s", r.Local.words(), r.Remote.words(), r.Local.Congestion, r.Remote.Congestion)
	if run.ID != "" {
		g.Row("evidence", "run %s", run.ID)
	}
	g.Write(s)
}

func (e End) words() string {
	name := e.Interface
	if name == "" {
		name = "interface unknown"
	}
	if e.Kind != "" {
		name += ", " + e.Kind
	}
	return fmt.Sprintf("%s (MTU %d)", name, e.MTU)
}

// between formats the interval of a quantity.
func between(f Figure, format func(float64) string) string {
	if f.Interval == nil {
		return unit.NotMeasured
	}
	return format(f.Interval[0]) + ".." + format(f.Interval[1])
}

// format formats a quantity, or "-" if it was not measured.
func (s *Summary) format(name string, format func(float64) string) string {
	if v := s.value(name); !math.IsNaN(v) {
		return format(v)
	}
	return unit.NotMeasured
}

func mbit(v float64) string { return unit.Digits(v / 1e6) }

func ms(v float64) string { return unit.Digits(v * 1e3) }

// streams prints the throughput.
func (r *Result) streams(s *ui.Screen) {
	g := ui.Grid{Columns: []ui.Column{{Head: "streams"}, {Head: "Mbit/s", Right: true}, {Head: "95 % interval", Right: true}, {Head: "resent", Right: true, Optional: true}, {Head: "RTT ms", Right: true, Optional: true},
		{Head: "CPU s/Gbit", Right: true, Optional: true}, {Head: "peer", Right: true, Optional: true}, {Head: "limit"}}}
	var reasons []string
	for i := range r.Cells {
		c := &r.Cells[i]
		f, ok := c.Figure(goodput)
		if !ok {
			continue
		}
		limit := c.Limit.Word
		if c.Limit.Where != "" {
			limit += " (" + c.Limit.Where + ")"
		}
		g.Rows = append(g.Rows, []string{c.Cell, mbit(f.Value), between(f, mbit), c.format(retransmits, text.Percent), c.format(loadedRTT, ms), c.format(cpuHere, unit.Digits), c.format(cpuThere, unit.Digits), limit})
		reason := c.Cell + ": " + c.Limit.Text
		if c.Limit.Do != "" {
			reason += "; " + c.Limit.Do
		}
		reasons = append(reasons, reason)
	}
	if len(g.Rows) == 0 {
		return
	}
	g.Write(s)
	for _, line := range reasons {
		ui.PrintLine(s, "%s", line)
	}
	fmt.Fprintln(s.Out)
}

// times prints requests and the latency under load.
func (r *Result) times(s *ui.Screen) {
	g := ui.Grid{Columns: []ui.Column{{Head: "requests"}, {Head: "1/s", Right: true}, {Head: "p50 ms", Right: true}, {Head: "95 % interval", Right: true}, {Head: "p99 ms", Right: true}, {Head: "p99.9 ms", Right: true}}}
	l := ui.Grid{Columns: []ui.Column{{Head: "added latency, ms"}, {Head: "p50", Right: true}, {Head: "95 % interval", Right: true}, {Head: "p99", Right: true}, {Head: "idle p50", Right: true, Optional: true}, {Head: "loaded", Right: true, Optional: true}}}
	for i := range r.Cells {
		c := &r.Cells[i]
		if _, is := c.Figure(rate); is {
			f, _ := c.Figure(p50)
			g.Rows = append(g.Rows, []string{c.Cell, c.format(rate, unit.Digits), ms(f.Value), between(f, ms), c.format(p99, ms), c.format(p999, ms)})
		}
		if f, is := c.Figure(addedP50); is {
			l.Rows = append(l.Rows, []string{c.Cell, ms(f.Value), between(f, ms), c.format(addedP99, ms), c.format(idleP50, ms), c.format(loadP50, ms)})
		}
	}
	printGrids(s, g, l)
}

// printGrids prints the grids that have rows, each with an empty line after it.
func printGrids(s *ui.Screen, grids ...ui.Grid) {
	for _, g := range grids {
		if len(g.Rows) > 0 {
			g.Write(s)
			fmt.Fprintln(s.Out)
		}
	}
}

// udp prints the isochronous probes.
func (r *Result) udp(s *ui.Screen) {
	for i := range r.Cells {
		c := &r.Cells[i]
		f, is := c.Figure(p50)
		if !is || c.Cell != string(Probes) {
			continue
		}
		g := ui.Grid{Columns: []ui.Column{{Head: fmt.Sprintf("UDP, every %s ms", unit.Digits(r.EveryS*1e3))}, {Head: "value", Right: true}, {Head: "95 % interval", Right: true}}}
		g.Rows = append(g.Rows, []string{"round trip p50, ms", ms(f.Value), between(f, ms)})
		for _, q := range []struct {
			text, name string
			format     func(float64) string
		}{
			{"round trip p99, ms", p99, ms}, {"jitter to the peer, ms", jitterUp, ms}, {"jitter from the peer, ms", jitterDown, ms},
			{"lost to the peer", lossUp, text.Percent}, {"lost from the peer", lossDown, text.Percent}, {"reordered to the peer", orderUp, text.Percent}, {"reordered from the peer", orderDown, text.Percent},
		} {
			if f, is := c.Figure(q.name); is {
				g.Rows = append(g.Rows, []string{q.text, q.format(f.Value), between(f, q.format)})
			}
		}
		printGrids(s, g)
	}
}

// Print prints the plan, for --dry-run.
func (p *Plan) Print(s *ui.Screen, peer string) {
	ui.PrintLine(s, "%s", p.Words(peer))
	ui.PrintLine(s, "about %s; --dry-run: nothing is measured", ui.Roughly(p.Takes(0).Seconds()))
	if words := p.ChangeWords(); words != "" {
		ui.PrintLine(s, "%s", words)
	}
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: ui.Columns("cell", "what it measures")}
	for _, c := range p.Cells {
		g.Rows = append(g.Rows, []string{c.Name(), p.describe(c)})
	}
	g.Write(s)
}

func (p *Plan) describe(c Cell) string {
	switch c.Kind {
	case Send:
		return fmt.Sprintf("throughput to the peer, %s", text.Count(c.Streams, "TCP stream"))
	case Receive:
		return fmt.Sprintf("throughput from the peer, %s", text.Count(c.Streams, "TCP stream"))
	case Request:
		return fmt.Sprintf("requests and answers of %s over one TCP connection", humanBytes(int64(c.Size)))
	case Probes:
		return fmt.Sprintf("UDP of %d bytes every %s: round trip, jitter, loss, order", p.Size, unit.FormatSeconds(p.Every.Seconds()))
	}
	return fmt.Sprintf("round trip that %s add", text.Count(c.Streams, "TCP stream"))
}
