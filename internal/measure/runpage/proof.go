package runpage

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/ui/page"
	"fettle.dev/fettle/internal/unit"
)

// tones are the colors of the verdicts; the words state the same.
var tones = map[prove.Word]page.Tone{prove.Better: page.Good, prove.Worse: page.Bad, prove.NoEffect: page.Soft, prove.CannotTell: page.Warn}

// proofPage prints an experiment: the verdict with its interval, the runs in order, the knowledge
// after each block, and the details.
func proofPage(p *page.Page, r *evidence.Run) error {
	e, err := prove.EvidenceOf(r)
	if err != nil {
		return err
	}
	if tones[e.Word] == "" {
		return fmt.Errorf("run %s: its verdict is %q", r.ID, e.Word)
	}
	seen, err := prove.Looks(e.Design, e.Samples)
	if err != nil && e.JudgedBy() == prove.Method {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	if p.Empty() {
		p.Tone = tones[e.Word]
	}
	answer := e.Headline()
	for _, l := range answer.Lines {
		p.Headline(l)
	}
	var rows []page.Interval
	for _, j := range e.Judged() {
		of := *e
		of.Design.Metric, of.Verdict = j.Metric, j.Verdict
		for _, l := range sentences(&of) {
			p.Headline(l)
		}
		if of.Effect != nil {
			rows = append(rows, interval(j.Name, &of))
		}
	}
	if e.Error != "" {
		p.Headline("The experiment ended early: " + e.Error + ".")
	}
	for _, w := range e.Warnings {
		p.Note(w)
	}
	if again := e.Again(); again != nil {
		p.Note(again.Error())
	}
	if len(rows) > 0 {
		intervals(p, "Effect of "+subject(e), rows, e.Design.Margin)
	}
	drawRuns(p, e)
	looks(p, e, seen)
	p.Heading("the experiment")
	details := prove.Details(r, e)
	p.Table(details.Table(""))
	changes(p, e)
	if len(e.Moved) > 0 {
		p.Heading("what else changed")
		p.Line("Exploratory: with this many counters, some differ by chance.")
		moved := prove.MovedGrid(e)
		p.Table(moved.Table(""))
	}
	command := r.Command
	if rest, is := strings.CutPrefix(command, "fettle prove "); is && !strings.Contains(command, " --seed ") {
		command = fmt.Sprintf("fettle prove --seed %d %s", e.Design.Seed, rest)
	}
	again(p, command)
	p.Line("With this seed, the sides run in the same order. Another seed or another day is the stronger test.")
	machine(p, r)
	return nil
}

// subject names what the verdict is about.
func subject(e *prove.Evidence) string {
	if e.Change.A != "" {
		return "B"
	}
	return "the change"
}

// sentences states the verdict in words.
func sentences(e *prove.Evidence) (out []string) {
	m := e.Design.Metric
	what := subject(e)
	if e.Effect == nil && e.Provisional == nil {
		return []string{"No block was completed, so the effect of " + what + " is unknown."}
	}
	way := "more"
	if e.Effect != nil && m.More != (*e.Effect > 0) {
		way = "less"
	}
	sure := "No interval yet; more blocks are needed."
	if few := e.Provisional; few != nil {
		sure = fmt.Sprintf("With %s %% confidence the true effect is between %s %% and %s %% (plus is better); more confidence needs more blocks.", plain(few.Confidence), signed(few.Interval[0]), signed(few.Interval[1]))
		if few.Unsettled {
			sure += " The interval includes the cost of a switch, because the warm-up was too short."
		}
	}
	if i := e.Interval; i != nil {
		sure = fmt.Sprintf("With %s %% confidence the true effect is between %s %% and %s %% (plus is better), however often you look.", plain(1-e.Design.Alpha), signed(i[0]), signed(i[1]))
	}
	switch e.Word {
	case prove.Better, prove.Worse:
		if e.Change.A != "" {
			out = append(out, fmt.Sprintf("With B, %s was %s %% %s than with A.", m.Name, plain(*e.Effect), way), sure)
			break
		}
		out = append(out, fmt.Sprintf("With the change, %s was %s %% %s than without it.", m.Name, plain(*e.Effect), way), sure)
	case prove.NoEffect:
		out = append(out, fmt.Sprintf("Any effect of %s on %s is below the margin of %s %%, which was set before the first run.", what, m.Name, plain(e.Design.Margin)), sure)
	default:
		out = append(out, fmt.Sprintf("The measurements do not decide whether %s affects %s. That does not show that it has none.", what, m.Name), sure)
		if e.More > 0 && e.More < 100_000 {
			out = append(out, "About "+text.Count(e.More, "more "+e.Design.Unit())+" may decide it.")
		}
	}
	return out
}

// interval returns the effect of an experiment in percent. Its text has the interval.
func interval(name string, e *prove.Evidence) page.Interval {
	i := page.Interval{Name: name, Value: signed(*e.Effect) + " %, no interval yet", At: percent(*e.Effect), Tone: tones[e.Word]}
	if e.Interval != nil {
		i.Bounded, i.Low, i.High = true, percent(e.Interval[0]), percent(e.Interval[1])
		i.Value = fmt.Sprintf("%s %%, interval %s to %s %%", signed(*e.Effect), signed(e.Interval[0]), signed(e.Interval[1]))
	} else if few := e.Provisional; few != nil && !few.Unsettled {
		i.Bounded, i.Low, i.High = true, percent(few.Interval[0]), percent(few.Interval[1])
		i.Value = fmt.Sprintf("%s %%, interval %s to %s %% with %s %% confidence", signed(*e.Effect), signed(few.Interval[0]), signed(few.Interval[1]), plain(few.Confidence))
	}
	return i
}

// intervals draws effects on one axis; margin is the effect that does not matter, or 0.
func intervals(p *page.Page, title string, rows []page.Interval, margin float64) {
	low, high := -100*margin, 100*margin
	for _, r := range rows {
		low, high = min(low, r.At), max(high, r.At)
		if r.Bounded {
			low, high = min(low, r.Low), max(high, r.High)
		}
	}
	p.Intervals(page.Intervals{Text: page.Text{Title: title, About: "In percent; right of 0 is better."},
		X: page.Linear(low, high, percentTick), Rows: rows, Zone: [2]float64{-100 * margin, 100 * margin}})
}

func percentTick(v float64) string { return signed(v/100) + " %" }

// mostRows limits the samples in a chart and its table.
const mostRows = 2000

// drawRuns draws each run in order.
func drawRuns(p *page.Page, e *prove.Evidence) {
	m := e.Design.Metric
	all := e.Samples[:min(len(e.Samples), mostRows)]
	if len(all) == 0 {
		return
	}
	g := ui.Grid{Columns: []ui.Column{{Head: "run", Right: true}, {Head: "block", Right: true}, {Head: "order"}, {Head: "side"}, {Head: m.Name, Right: true}, {Head: "took", Right: true}, {Head: "counts"}}}
	names := map[prove.Arm]string{prove.Without: "A, without", prove.With: "B, with"}
	sides := map[prove.Arm]*page.Series{
		prove.Without: {Name: "A, without the change", Dots: true, Class: "s0"},
		prove.With:    {Name: "B, with the change", Dots: true, Diamond: true, Class: "s1"},
	}
	if e.Change.A != "" {
		names = map[prove.Arm]string{prove.Without: "A", prove.With: "B"}
		sides[prove.Without].Name, sides[prove.With].Name = "A", "B"
	}
	counted := map[prove.Arm][]float64{}
	dropped := map[prove.Arm][]bool{}
	low, high := math.Inf(1), math.Inf(-1)
	for i, v := range all {
		value := v.Values[m.Name]
		low, high = min(low, value), max(high, value)
		var order strings.Builder
		if e.JudgedBy() >= 4 { // earlier methods have other blocks
			for _, arm := range e.Design.Order(v.Block) {
				order.WriteString(string(arm))
			}
		}
		side, counts := names[v.Arm], "yes"
		if v.Phase != prove.Blocks {
			side = names[prove.Without]
		}
		if e.Counts(v) {
			counted[v.Arm] = append(counted[v.Arm], value)
		} else {
			counts = "no"
		}
		g.Rows = append(g.Rows, []string{strconv.Itoa(i + 1), strconv.Itoa(v.Block + 1), order.String(), side, amount(value, m.Unit), unit.FormatSeconds(v.TookS), counts})
		if s := sides[v.Arm]; s != nil {
			s.X, s.Y = append(s.X, float64(i+1)), append(s.Y, value)
			s.Titles = append(s.Titles, fmt.Sprintf("run %d, %s: %s", i+1, side, amount(value, m.Unit)))
			dropped[v.Arm] = append(dropped[v.Arm], !e.Counts(v))
		}
	}
	c := page.XY{YName: label(m.Name, m.Unit), X: page.Linear(1, float64(len(all)), tick), Y: page.Linear(low, high, tick), HollowIs: "warm-up: does not count"}
	if low > 0 && high > 5*low {
		c.Y = page.Logarithmic(low, high, tick)
	}
	for _, arm := range []prove.Arm{prove.Without, prove.With} {
		s := sides[arm]
		s.Hollow = func(i int) bool { return dropped[arm][i] }
		c.Series = append(c.Series, *s)
		if values := counted[arm]; len(values) > 0 {
			median := stats.Median(values)
			c.Series = append(c.Series, page.Series{Name: "median of " + string(arm) + ": " + amount(median, m.Unit), Line: true, Class: s.Class, X: []float64{c.X.Min, c.X.Max}, Y: []float64{median, median}})
		}
	}
	c.Text = page.Text{Title: "Every run, in its order", About: "The order within each block was random, so background load cannot favor a side.", Values: g.Table("")}
	p.Heading("the runs")
	p.XY(c)
	if left := len(e.Samples) - len(all); left > 0 {
		p.Line(fmt.Sprintf("The record contains %s.", text.Count(left, "more run")))
	}
}

// looks draws the interval after each block.
func looks(p *page.Page, e *prove.Evidence, seen []prove.Verdict) {
	n := min(len(seen), len(e.Blocks))
	if n < 2 {
		return
	}
	g := ui.Grid{Columns: []ui.Column{{Head: "block", Right: true}, {Head: "effect in the block", Right: true}, {Head: "estimate", Right: true}, {Head: "interval", Right: true}, {Head: "verdict"}}}
	blocks := page.Series{Name: "one block", Dots: true, Class: "s0"}
	line := page.Series{Name: "estimate, with its interval", Line: true, Class: "s1"}
	margin := 100 * e.Design.Margin
	for i, v := range seen[:n] {
		effect := e.Design.Metric.Effect(e.Blocks[i])
		x := float64(i + 1)
		blocks.X, blocks.Y = append(blocks.X, x), append(blocks.Y, percent(effect))
		blocks.Titles = append(blocks.Titles, fmt.Sprintf("block %d: %s %%", i+1, signed(effect)))
		estimate, low, high := math.NaN(), math.NaN(), math.NaN()
		row := []string{strconv.Itoa(i + 1), signed(effect) + " %", "", "none yet", headline(v.Text)}
		if v.Effect != nil {
			estimate, row[2] = percent(*v.Effect), signed(*v.Effect)+" %"
		}
		if v.Interval != nil {
			low, high = percent(v.Interval[0]), percent(v.Interval[1])
			row[3] = signed(v.Interval[0]) + " % to " + signed(v.Interval[1]) + " %"
		}
		line.X, line.Y = append(line.X, x), append(line.Y, estimate)
		line.Low, line.High = append(line.Low, low), append(line.High, high)
		g.Rows = append(g.Rows, row)
	}
	// The axis contains the last interval and the blocks without the outer tenth on each side.
	low, high := min(-margin, stats.Quantile(blocks.Y, 0.1)), max(margin, stats.Quantile(blocks.Y, 0.9))
	if !math.IsNaN(line.Low[n-1]) {
		low, high = min(low, line.Low[n-1]), max(high, line.High[n-1])
	}
	p.XY(page.XY{Text: page.Text{Title: "What was known after each block", About: "Effect in percent, plus is better. With the stated confidence, the interval contains the effect after every block. Blocks outside the axis are drawn at its edge.", Values: g.Table("")},
		YName: "effect", X: page.Linear(1, float64(n), tick), Y: page.Linear(low, high, percentTick), Series: []page.Series{line, blocks},
		Zone: [2]float64{-margin, margin}, ZoneIs: "effects that do not matter"})
}

// changes prints the settings or commands of the change.
func changes(p *page.Page, e *prove.Evidence) {
	if c := e.Change; len(c.Profile) > 0 {
		p.Line("The change: profile " + strings.Join(c.Profile, " ") + ".")
	}
	if c := e.Change; c.Apply != "" {
		p.Line("The change is made by the first command and undone by the second:")
		p.Command(c.Apply)
		p.Command(c.Undo)
	}
	if c := e.Change; c.A != "" {
		p.Line("A and B:")
		p.Command(c.A)
		p.Command(c.B)
	}
	grid := func(settings []prove.Setting, heads ...string) *ui.Grid {
		g := &ui.Grid{Columns: ui.Columns(heads...)}
		g.Columns[len(heads)-1].Cut = true
		for _, s := range settings {
			row := []string{s.Setting.String(), s.Before.String(), s.With.String(), s.Why}
			g.Rows = append(g.Rows, slices.Delete(row, 1, 5-len(heads)))
		}
		return g
	}
	if len(e.Change.Settings) > 0 {
		p.Heading("the change")
		p.Table(grid(e.Change.Settings, "setting", "A, without", "B, with", "why").Table(""))
	}
	if n := len(e.Change.Left); n > 0 {
		p.Fold(fmt.Sprintf("not tested: %s of the change that cannot be in force on this machine", text.Count(n, "value")), grid(e.Change.Left, "setting", "value", "why not").Table("Values that were not tested"))
	}
}
