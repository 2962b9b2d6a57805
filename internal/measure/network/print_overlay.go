package network

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// mtu compares the path MTU inside with the path MTU outside and with the forecast.
func (o *Overlay) mtu(outside *Path) string {
	words := fmt.Sprintf("path MTU inside %s", o.Path.words())
	if in, out := o.Path.Up.MTU, outside.Up.MTU; in > 0 && out >= in {
		words += fmt.Sprintf("; outside %d, %s more", out, text.Count(out-in, "byte"))
	}
	var forecasts []string
	for _, f := range o.Forecast {
		forecasts = append(forecasts, fmt.Sprintf("%d for %s (%d with IPsec)", f.MTU, f.Overlay, f.IPsec))
	}
	if len(forecasts) > 0 {
		words += "; fettle size network calculates " + strings.Join(forecasts, ", ")
	}
	return words
}

// line summarizes the cost of the overlay, or returns "".
func (o *Overlay) line(h *ui.Headline) string {
	var words []string
	for i := range o.Costs {
		c := &o.Costs[i]
		key := strings.ReplaceAll(c.Cell, "-", "_")
		if f, is := c.Figure(goodputFactor); is {
			share := h.Value("overlay_"+key+"_goodput_factor", f.Value, text.Percent(f.Value)) + " of " + c.Cell
			if f.mayBe(1) {
				share = "no measurable difference of goodput in " + c.Cell
			}
			if cpu, is := c.Figure(cpuFactor); is {
				times := h.Value("overlay_"+key+"_cpu_factor", cpu.Value, unit.Digits(cpu.Value))
				if !cpu.mayBe(1) {
					share += " at " + times + " times the CPU a gigabit"
				}
			}
			words = append(words, share)
		} else if f, is := c.Figure(addedP50); is {
			adds := c.Cell + " adds " + h.Value("overlay_"+key+"_added_s", f.Value, signedSeconds(f.Value))
			if f.mayBe(0) {
				adds = "no measurable difference in " + c.Cell
			}
			words = append(words, adds)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return "overlay: " + strings.Join(words, ", ")
}

func signedSeconds(s float64) string {
	if s < 0 {
		return "-" + unit.FormatSeconds(-s)
	}
	return unit.FormatSeconds(s)
}

// print prints the costs by cell.
func (o *Overlay) print(s *ui.Screen, outside *Path) {
	printCosts(s, "inside / outside", "inside - outside", o.Costs)
	ui.PrintLine(s, "overlay: %s", o.mtu(outside))
	fmt.Fprintln(s.Out)
}

// print prints the effects of a change by cell.
func (c *Changed) print(s *ui.Screen) {
	printCosts(s, c.Change+" / as it was", c.Change+" - as it was", c.Costs)
}

// printCosts prints ratios and differences by cell.
func printCosts(s *ui.Screen, ratios, differences string, costs []Cost) {
	g := ui.Grid{Columns: []ui.Column{{Head: ratios}, {Head: "goodput", Right: true}, {Head: "95 % interval", Right: true}, {Head: "headers", Right: true, Optional: true},
		{Head: "CPU a Gbit", Right: true}, {Head: "95 % interval", Right: true}}}
	l := ui.Grid{Columns: []ui.Column{{Head: differences}, {Head: "p50 ms", Right: true}, {Head: "95 % interval", Right: true}}}
	for i := range costs {
		c := &Summary{Cell: costs[i].Cell, Figures: costs[i].Figures}
		if f, is := c.Figure(goodputFactor); is {
			cpu, _ := c.Figure(cpuFactor)
			g.Rows = append(g.Rows, []string{c.Cell, unit.Digits(f.Value), between(f, unit.Digits), c.format(headersFactor, unit.Digits), unit.Digits(cpu.Value), between(cpu, unit.Digits)})
		}
		if f, is := c.Figure(addedP50); is {
			l.Rows = append(l.Rows, []string{c.Cell, ms(f.Value), between(f, ms)})
		}
	}
	printGrids(s, g, l)
}
