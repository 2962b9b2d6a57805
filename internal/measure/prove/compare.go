package prove

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// byHarm are the verdicts on series, in the order of output.
var byHarm = []FiguresVerdict{FiguresWorse, FiguresBetter, FiguresCannotTell, NoRatio, TooFew, OtherUnit, Alike}

// Summarize sets the headline: the verdict on the effects or the number of series that differ, the
// largest loss, and the caution.
func (c *Comparison) Summarize() {
	c.Headline = ui.Headline{}
	h := &c.Headline
	defer func() { h.Line("%s", c.Caution) }()
	if e := c.Effects; e != nil {
		text := strings.ReplaceAll(string(e.Word), "-", " ")
		if e.Difference != nil {
			text += ": " + h.Value("difference_percent", 100**e.Difference, effectWords(e.Difference)) + " in " + e.Metric
		}
		if e.Interval != nil {
			text += ", interval " + intervalWords(e.Interval)
		}
		h.Line("B against A: %s", text)
		return
	}
	counts, worst := map[FiguresVerdict]int{}, (*Series)(nil)
	for i, x := range c.Series {
		counts[x.Word]++
		if x.Word == FiguresWorse && (worst == nil || *x.Effect < *worst.Effect) {
			worst = &c.Series[i]
		}
	}
	var parts []string
	for _, w := range byHarm {
		if n := counts[w]; n > 0 {
			name := strings.ReplaceAll(string(w), "-", "_")
			parts = append(parts, h.Count(name, n, "")+" "+strings.ReplaceAll(name, "_", " "))
		}
	}
	text := fmt.Sprintf("B against A, of %s series: %s", h.Count("series", len(c.Series), ""), strings.Join(parts, ", "))
	if worst != nil {
		text += fmt.Sprintf("; most: %s %s", worst.Name, h.Value("worst_percent", 100**worst.Effect, effectWords(worst.Effect)))
	}
	h.Line("%s", text)
}

// PrintComparison prints a comparison of two runs, the answer and its caution first.
func PrintComparison(s *ui.Screen, c *Comparison) {
	ui.PrintHeadline(s, &c.Headline)
	fmt.Fprintln(s.Out)
	sides := ui.Grid{Columns: []ui.Column{{}, {}, {}, {Cut: true}}}
	for side, x := range map[string]*Side{"A": &c.A, "B": &c.B} {
		sides.Rows = append(sides.Rows, []string{side, x.ID, x.Began.Local().Format("2006-01-02 15:04"), x.Command})
	}
	slices.SortFunc(sides.Rows, slices.Compare)
	sides.Write(s)
	if len(c.Series) > 0 {
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: []ui.Column{{Head: "series"}, {Head: "A"}, {Head: "B"}, {Head: "B against A"}, {Head: "within the runs", Optional: true}, {}}}
		for _, x := range slices.SortedStableFunc(slices.Values(c.Series), func(x, y Series) int {
			return slices.Index(byHarm, x.Word) - slices.Index(byHarm, y.Word)
		}) {
			row := []string{x.Name, "", "", "", "", strings.ReplaceAll(string(x.Word), "-", " ")}
			if x.SamplesA > 0 && x.SamplesB > 0 && x.Word != OtherUnit {
				row[1], row[2] = fmt.Sprintf("%s %s", unit.Digits(x.MedianA), x.Unit), fmt.Sprintf("%s %s", unit.Digits(x.MedianB), x.Unit)
			}
			row[3], row[4] = effectWords(x.Effect), intervalWords(x.Within)
			if x.Word == NoRatio {
				row[4], row[5] = "", "no ratio: "+noRatio(x.MedianA, x.MedianB)
			}
			g.Rows = append(g.Rows, row)
		}
		g.Write(s)
	}
	for i, names := range [][]string{c.OnlyA, c.OnlyB} {
		if len(names) > 0 {
			s.Say("only %s has %s", []string{"A", "B"}[i], strings.Join(names, ", "))
		}
	}
	if e := c.Effects; e != nil {
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: ui.Columns("", "change", "effect on "+e.Metric, "interval"), Rows: [][]string{
			{"A", e.A.Change, effectWords(e.A.Effect), intervalWords(e.A.Interval)},
			{"B", e.B.Change, effectWords(e.B.Effect), intervalWords(e.B.Interval)},
			{"B against A", strings.ReplaceAll(string(e.Word), "-", " "), effectWords(e.Difference), intervalWords(e.Interval)},
		}}
		if e.Word == NoRatio {
			g.Rows[2][1], g.Rows[2][3] = "no ratio: with a change "+e.Metric+" is 0 or almost 0", ""
		}
		g.Write(s)
		for side, x := range []Effect{e.A, e.B} {
			if x.Judged != "" {
				ui.PrintLine(s, "%s was %s.", []string{"A", "B"}[side], x.Judged)
			}
		}
		fmt.Fprintf(s.Out, "The interval of the difference has a confidence of %s %%.\n", unit.Digits(100*(1-c.Alpha)))
	}
	if len(c.Differing) == 0 {
		fmt.Fprintln(s.Out, "\nNo other recorded property differs.")
		return
	}
	fmt.Fprintln(s.Out, "\nWhat else differs:")
	g := ui.Grid{Columns: []ui.Column{{Head: "what"}, {Head: "A", Cut: true}, {Head: "B", Cut: true}}}
	for _, d := range c.Differing {
		g.Rows = append(g.Rows, []string{d.Name, d.A, d.B})
	}
	g.Write(s)
}

// noRatio explains why two values have no ratio.
func noRatio(a, b float64) string {
	switch {
	case !(a > 0) && !(b > 0):
		return "both are or were 0"
	case !(a > 0):
		return "A is 0"
	case !(b > 0):
		return "B is 0"
	}
	return "a sample is 0, or one side is almost 0"
}

// effectWords formats an improvement in percent. It returns "" for nil.
func effectWords(ratio *float64) string {
	if ratio == nil {
		return ""
	}
	return unit.SignedPercent(*ratio) + " %"
}

func intervalWords(i *[2]float64) string {
	if i == nil {
		return "none"
	}
	return "[" + unit.SignedPercent(i[0]) + ", " + unit.SignedPercent(i[1]) + "]"
}
