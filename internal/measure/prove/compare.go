package prove

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// PrintComparison prints a comparison of two runs, the caution first.
func PrintComparison(s *ui.Screen, c *Comparison) {
	fmt.Fprintf(s.Out, "A  %s  %s  %s\n", c.A.ID, c.A.Began.Local().Format("2006-01-02 15:04"), ui.Printable(c.A.Command))
	fmt.Fprintf(s.Out, "B  %s  %s  %s\n\n", c.B.ID, c.B.Began.Local().Format("2006-01-02 15:04"), ui.Printable(c.B.Command))
	fmt.Fprintln(s.Out, ui.Printable(c.Caution))
	if len(c.Series) > 0 {
		fmt.Fprintln(s.Out)
		g := ui.Grid{Columns: ui.Columns("series", "A", "B", "B against A", "within the runs", "")}
		for _, x := range c.Series {
			row := []string{x.Name, "", "", "", "", strings.ReplaceAll(string(x.Word), "-", " ")}
			if x.SamplesA > 0 && x.SamplesB > 0 && x.Word != OtherUnit {
				row[1], row[2] = fmt.Sprintf("%.4g %s", x.MedianA, x.Unit), fmt.Sprintf("%.4g %s", x.MedianB, x.Unit)
			}
			row[3], row[4] = effectWords(x.Effect), intervalWords(x.Within)
			if x.Word == NoRatio {
				row[4], row[5] = "", "no ratio: "+noRatio(x.MedianA, x.MedianB)
			}
			g.Rows = append(g.Rows, row)
		}
		g.Write(s)
	}
	for side, names := range map[string][]string{"A": c.OnlyA, "B": c.OnlyB} {
		if len(names) > 0 {
			s.Say("only %s has %s", side, strings.Join(names, ", "))
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
			g.Rows[2][1], g.Rows[2][3] = "no ratio: with a change "+e.Metric+" is 0, or next to it", ""
		}
		g.Write(s)
		for side, x := range []Effect{e.A, e.B} {
			if x.Judged != "" {
				fmt.Fprintf(s.Out, "%s was %s; the effects above are of this version.\n", []string{"A", "B"}[side], ui.Printable(x.Judged))
			}
		}
		fmt.Fprintf(s.Out, "The interval of the difference holds with %.3g %%.\n", 100*(1-c.Alpha))
	}
	if len(c.Differing) == 0 {
		fmt.Fprintln(s.Out, "\nNothing else that fettle records differs.")
		return
	}
	fmt.Fprintln(s.Out, "\nWhat else differs:")
	g := ui.Grid{Columns: ui.Columns("what", "A", "B")}
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
