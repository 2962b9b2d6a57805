package page

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

const hostile = "</style><script>alert(1)</script>\"'>\x1b[2J\u202e{{.}}"

// TestEscaped: text in every place of a page stays text, and control characters are replaced.
func TestEscaped(t *testing.T) {
	table := Table{Title: hostile, Columns: []Column{{Head: hostile, Prose: true}, {Head: hostile}}, Rows: [][]string{{hostile, hostile}}}
	text := Text{Title: hostile, About: hostile, Values: table}
	p := &Page{Name: hostile, Call: hostile}
	p.Headline(hostile)
	p.Note(hostile)
	p.Heading(hostile)
	p.Line(hostile)
	p.Command(hostile)
	p.Table(table)
	p.Fold(hostile, table)
	p.File(hostile, hostile)
	p.Cards([]Card{{Tone: Bad, Label: hostile, Title: hostile, Facts: []Fact{{Name: hostile, Lines: []string{hostile}, Code: true}}}})
	p.Steps([]Step{{Do: hostile, Command: hostile, Notes: []string{hostile}}})
	one := []float64{1, 2}
	p.XY(XY{Text: text, YName: hostile, X: Linear(0, 1, func(float64) string { return hostile }), Y: Linear(0, 1, func(float64) string { return hostile }), HollowIs: hostile,
		Series: []Series{{Name: hostile, X: one, Y: one, Line: true, Dots: true, Titles: []string{hostile, hostile}}}})
	p.Bars(Bars{Text: text, X: Linear(0, 1, func(float64) string { return hostile }), Edges: []float64{0, 1}, Parts: []Part{{Name: hostile, Of: one}, {Name: hostile, Of: one}}, Titles: []string{hostile}, Format: func(float64) string { return hostile }})
	p.Shares(text, []Part{{Name: hostile, Of: one}})
	p.Heat(Heat{Text: text, X: Linear(0, 1, func(float64) string { return hostile }), Y: Linear(0, 1, func(float64) string { return hostile }), XEdges: one, YEdges: one, Of: [][]float64{{3}}, Title: func(int, int) string { return hostile }})
	p.Intervals(Intervals{Text: text, X: Linear(-1, 1, func(float64) string { return hostile }), Rows: []Interval{{Name: hostile, Value: hostile, Bounded: true}}})
	if _, err := p.Write([]byte(hostile + "\n  " + hostile)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.HTML(&out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "<script"); n != 1 {
		t.Errorf("%d scripts, want our own", n)
	}
	for _, bad := range []string{"\x1b", "\u202e", "ZgotmplZ", "src="} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	if strings.Count(out.String(), "alert(1)") < 50 {
		t.Error("some text is missing")
	}
}

func TestSortKey(t *testing.T) {
	for text, want := range map[string]string{"1,234": "1234", "1.5 ms": "0.0015", "2 m 5 s": "125", "< 0.1 %": "0.1", "-3 %": "-3", "−3 %": "-3", "4 KiB": "4096", "3 apples": "", "web-1": "", "": "", "-": ""} {
		if got := sortKey(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestAxes: axes end, and contain their values, whatever these are.
func TestAxes(t *testing.T) {
	format := func(float64) string { return "" }
	values := []float64{0, 1, -1, 1e-300, 5e-324, 1e16, 1e16 + 2, 1e308, -1e308, math.Inf(1), math.Inf(-1), math.NaN()}
	for _, low := range values {
		for _, high := range values {
			for _, a := range []Axis{Linear(low, high, format), Logarithmic(low, high, format)} {
				if len(a.Ticks) > 14 || !(a.Min < a.Max) || math.IsInf(a.Max, 0) {
					t.Errorf("%v to %v: %v to %v with %d ticks", low, high, a.Min, a.Max, len(a.Ticks))
				}
			}
		}
	}
}
