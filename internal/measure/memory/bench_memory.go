package memory

import (
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// Headline returns the comparisons of each measure, or the values if there are none, and the cells
// that were not measured.
func (b *Result) Headline() (h ui.Headline) {
	for i, m := range []Measure{Random, Touch} {
		line := strings.Join(b.measured(&h, m), "; ")
		if i == 0 {
			line = b.Cut.Text(line)
		}
		h.Line("%s", line)
	}
	line := fmt.Sprintf("medians of %s of %s", h.Count("rounds", b.Rounds, "round"), unit.Size(b.SizeBytes).Human())
	if len(b.Comparisons) > 0 {
		line += "; all intervals are valid together with 95 % confidence"
	}
	if len(b.Left) > 0 {
		line += fmt.Sprintf("; %s not measured: %s (%s)", h.Count("cells_not_measured", len(b.Left), "cell"), b.Left[0].Cell, b.Left[0].Why)
	}
	h.Line("%s", line)
	return h
}

// measured returns one measure: the first cell's value, and the other cells compared with it.
func (b *Result) measured(h *ui.Headline, m Measure) (out []string) {
	name := map[Measure]string{Random: "a random read", Touch: "the first touch of a GiB"}[m]
	for _, c := range b.Cells {
		key := strings.ReplaceAll(c.Cell, "-", "_")
		value := ""
		if m == Touch {
			value = h.Value("touch_"+key+"_s", c.Touch, unit.FormatSeconds(c.Touch))
		} else {
			value = h.Figure("random_read_"+key+"_ns", c.Random, "ns")
		}
		text := c.Cell + " " + value
		for _, x := range b.Comparisons {
			if x.Cell == c.Cell && x.Measure == m {
				text += " (" + x.compared() + ")"
			}
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return []string{name + ": not measured"}
	}
	out[0] = name + ": " + out[0]
	return out
}

// compared describes a comparison within a sentence.
func (c Comparison) compared() string {
	i := c.Interval
	switch {
	case i == nil:
		return fmt.Sprintf("%.2f times as fast as %s, too few rounds for an interval", c.Speed, c.Against)
	case i[1] < 1:
		return fmt.Sprintf("takes %.2f times as long as %s, interval %.2f to %.2f", 1/c.Speed, c.Against, 1/i[1], 1/i[0])
	case i[0] > 1:
		return fmt.Sprintf("%.2f times as fast as %s, interval %.2f to %.2f", c.Speed, c.Against, i[0], i[1])
	}
	return fmt.Sprintf("faster or slower than %s: cannot tell, interval %.2f to %.2f times", c.Against, i[0], i[1])
}

// Next returns how to complete an interrupted bench.
func (b *Result) Next() (string, []string) {
	if b.Cut != nil {
		return "to measure all cells:", []string{"bench", "memory"}
	}
	return "", nil
}

// Print prints the result of the bench.
func (b *Result) Print(s *ui.Screen, r *evidence.Run) {
	h := b.Headline()
	ui.PrintHeadline(s, &h)
	fmt.Fprintln(s.Out)
	g := ui.Grid{Columns: []ui.Column{{Head: "cell"}, {Head: "random read", Right: true}, {Head: "spread", Right: true}, {Head: "touch of a GiB", Right: true}, {Head: "spread", Right: true},
		{Head: "page faults", Right: true, Optional: true}, {Head: "in such pages", Right: true, Optional: true}}}
	longest := 0.0
	for _, c := range b.Cells {
		longest = max(longest, c.Touch)
	}
	touch := unit.SecondsLike(longest) // one unit a column
	for _, c := range b.Cells {
		g.Rows = append(g.Rows, []string{c.Cell, unit.Digits(math.Round(c.Random)) + " ns", text.Percent(c.RandomSpread), touch(c.Touch), text.Percent(c.TouchSpread),
			unit.Digits(math.Round(c.Faults)), text.Percent(c.Huge)})
	}
	g.Write(s)
	if len(b.Comparisons) > 0 {
		fmt.Fprintln(s.Out)
		g = ui.Grid{Columns: []ui.Column{{Head: "cell"}, {Head: "against"}, {Head: "measure"}, {Head: "verdict", Below: true}}}
		for _, c := range b.Comparisons {
			g.Rows = append(g.Rows, []string{c.Cell, c.Against, string(c.Measure), c.Text})
		}
		g.Write(s)
	}
	fmt.Fprintln(s.Out)
	g = ui.Grid{Columns: []ui.Column{{}, {Below: true}}}
	row := g.Row
	row("measured", "%s of %s, %s each; CPU time, medians", text.Count(b.Rounds, "round"), unit.Size(b.SizeBytes).Human(), text.Count(b.Reads, "random read"))
	for _, l := range b.Left {
		row("not measured", "%s: %s", l.Cell, l.Why)
	}
	if r.ID != "" {
		row("evidence", "run %s, seed %s", r.ID, fmt.Sprint(b.Seed))
	}
	g.Write(s)
	s.Say("this measures memory alone; PostgreSQL and Redis recommend turning transparent huge pages off in any case")
}
