package logs

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// PrintComparison prints a comparison: the headline, the next steps, and the groups. By default
// it shows as many groups as fit on a page. With all or Screen.Wide it shows all groups.
func PrintComparison(s *ui.Screen, c *Comparison, all bool) {
	begin, end := *s, *s
	var head, tail bytes.Buffer
	begin.Out, end.Out = &head, &tail
	printIncomplete(&begin, comparedNotWhole(c))
	ui.PrintHeadline(&begin, &c.Headline)
	if step, ok := comparedNext(s, c); ok {
		step.print(&begin)
	}
	fmt.Fprintln(&tail)
	logs := comparedLogs(c, s.Wide)
	logs.Write(&end)
	notes, noteLines := messageLines(s, comparedNotes(c))
	rows := []int{len(c.Groups)}
	if !all && !s.Wide {
		rows = Fold(rows, mostLines-height(s, head.Bytes())-height(s, tail.Bytes())-noteLines)
	}
	_, _ = head.WriteTo(s.Out)
	fmt.Fprintln(s.Out)
	WriteKeyed(s, comparedGroups(c, rows[0]))
	if n := len(c.Groups) + c.More - rows[0]; n > 0 {
		sentences(s, text.Sprintf("not shown: %s of %d; --top 0 shows all groups, --wide all columns", unit.Thousands(uint64(n)), len(c.Groups)+c.More))
	}
	_, _ = tail.WriteTo(s.Out)
	for _, n := range notes {
		s.Say("%s", n)
	}
}

// comparedHeadline returns the headline of a comparison: the change of the mean, its causes,
// and the number of groups by verdict.
func comparedHeadline(c *Comparison) (h ui.Headline) {
	var unread []string
	for _, side := range comparedSides(c) {
		all := side.Requests + side.LeftOut + side.OtherLines + side.Unread.Lines
		if side.Unread.much(all) {
			unread = append(unread, side.name+": "+notRead(&h, side.name+"_", &side.Unread, all))
		}
	}
	if len(unread) > 0 {
		h.Line("%s", strings.Join(unread, "; "))
	}
	h.Line("%s", changed(&h, &c.All))
	if c.MixS != nil {
		h.Line("of this change, the mix of requests caused %s and their durations %s; %s before, %s after",
			h.Value("mix_s", *c.MixS, text.SignedSeconds(*c.MixS)), h.Value("latency_s", *c.LatencyS, text.SignedSeconds(*c.LatencyS)),
			h.Count("before_requests", int(c.Before.Requests), "request"), h.Count("after_requests", int(c.After.Requests), ""))
	}
	if len(h.Lines) == 3 {
		return h
	}
	verdicts := map[string]int{}
	for i := range c.Groups {
		verdicts[c.Groups[i].Verdict]++
	}
	var of []string
	for _, v := range []struct{ verdict, name, text string }{
		{"slower", "slower_groups", "slower"}, {"faster", "faster_groups", "faster"}, {"undecided", "undecided_groups", "undecided"},
		{"cannot tell", "unknown_groups", "undetermined"}, {"only before", "gone_groups", "only before"}, {"only after", "new_groups", "only after"},
	} {
		if n := verdicts[v.verdict]; n > 0 {
			of = append(of, h.Count(v.name, n, "")+" "+v.text)
		}
	}
	if len(of) > 0 {
		h.Line("groups by %s: %s", strings.Join(c.By, ", "), strings.Join(of, ", "))
	}
	return h
}

// changed describes the change of all requests.
func changed(h *ui.Headline, x *Change) string {
	if x.Ratio == nil || x.Low == nil {
		return "all requests: " + x.Text
	}
	percent := func(name string, ratio float64) string {
		p := 100 * (ratio - 1)
		if p >= 1000 {
			p = 10 * math.Round(p/10) // three significant digits
		}
		sign := ""
		if p >= 0 {
			sign = "+"
		}
		return h.Value(name, p, sign+unit.Digits(math.Round(10*p)/10)+" %")
	}
	interval := fmt.Sprintf("%s (95 %% confidence interval %s to %s)", percent("change_percent", *x.Ratio), percent("change_low_percent", *x.Low), percent("change_high_percent", *x.High))
	means := fmt.Sprintf("the mean of all requests went from %s to %s, %s", h.Value("before_mean_s", *x.Before.MeanS, unit.FormatSeconds(*x.Before.MeanS)),
		h.Value("after_mean_s", *x.After.MeanS, unit.FormatSeconds(*x.After.MeanS)), interval)
	return x.Verdict + ": " + means
}

// comparedNext returns a command that shows details of a group: the slower group with the most
// time, otherwise the group with the most time. It returns false if none exists.
func comparedNext(s *ui.Screen, c *Comparison) (Step, bool) {
	if s.Call == nil || c.where != "" || !c.requestors || slices.Contains(c.By, "requestor") || len(c.Groups) == 0 {
		return Step{}, false
	}
	x := &c.Groups[max(slices.IndexFunc(c.Groups, func(x Change) bool { return x.Verdict == "slower" }), 0)]
	where := condition(c.By, x.Key)
	if where == "" || x.Before == nil || x.After == nil {
		return Step{}, false
	}
	call := s.Call(ui.Remedy{Drop: []string{"--by", "--top"}, Options: []string{"--where", where, "--by", "requestor"}})
	return Step{"next, " + shortenMiddle(keyed(x.Key), longestName) + " by requestor", call}, true
}

// comparedGroups returns the grid with the changes of the first groups, at most most.
func comparedGroups(c *Comparison, most int) ui.Grid {
	g := ui.Grid{Columns: []ui.Column{{Head: strings.Join(c.By, ", ")}, {Head: "change of the mean"}, {Head: "before", Right: true}, {Head: "after", Right: true},
		{Head: "p99 before", Right: true, Optional: true}, {Head: "p99 after", Right: true, Optional: true},
		{Head: "requests before", Right: true, Wide: true}, {Head: "after", Right: true, Wide: true}, {Head: "share before", Right: true, Wide: true}, {Head: "after", Right: true, Wide: true}}}
	for i := range c.Groups[:min(len(c.Groups), most)] {
		x := &c.Groups[i]
		row := []string{keyed(x.Key), x.short()}
		both := func(f func(*Group) string) {
			for _, side := range comparedSides(c) {
				if g := side.group(x); g == nil {
					row = append(row, "-")
				} else {
					row = append(row, f(g))
				}
			}
		}
		both(func(g *Group) string { return text.SecondsOrDash(g.MeanS) })
		both(func(g *Group) string { return g.quantile("p99") })
		both(func(g *Group) string { return unit.Thousands(g.Count) })
		both((*Group).share)
		g.Rows = append(g.Rows, row)
	}
	return g
}

// short formats a change without the reason for a missing interval, which is printed as a note.
func (x *Change) short() string {
	if x.Ratio != nil && x.Low == nil {
		return fmt.Sprintf("%s: %+.1f %%", x.Verdict, 100*(*x.Ratio-1))
	}
	return x.Text
}

// comparedSide is a side with its name. group returns the side's group of a change, or nil.
type comparedSide struct {
	name string
	*Side
	group func(*Change) *Group
}

func comparedSides(c *Comparison) []comparedSide {
	return []comparedSide{
		{"before", &c.Before, func(x *Change) *Group { return x.Before }},
		{"after", &c.After, func(x *Change) *Group { return x.After }},
	}
}

// comparedLogs returns the grid of both sides' logs: all logs, or the first log of each side.
func comparedLogs(c *Comparison, all bool) ui.Grid {
	g := ui.Grid{Columns: []ui.Column{{Head: "logs"}, {Head: "requests", Right: true}, {Head: "over", Right: true}, {Head: "format", Cut: true}}}
	for _, side := range comparedSides(c) {
		for i, l := range side.Logs {
			if n := len(side.Logs) - i; i == fewLogs && n > 1 && !all {
				g.Rows = append(g.Rows, []string{text.Sprintf("%s: (%d more: --wide)", side.name, n), "", "", ""})
				break
			}
			n, over := "", ""
			if i == 0 {
				n, over = unit.Thousands(side.Requests), unit.FormatSeconds(side.SpanS)
			}
			g.Rows = append(g.Rows, []string{side.name + ": " + l.Path, n, over, l.format("; ")})
		}
	}
	return g
}

// comparedNotWhole lists what could not be read on either side.
func comparedNotWhole(c *Comparison) (out []string) {
	for _, side := range comparedSides(c) {
		for _, l := range NotWhole(side.Logs, side.NotRead) {
			out = append(out, side.name+": "+l)
		}
	}
	return out
}

// comparedNotes returns warnings, and how to interpret the intervals.
func comparedNotes(c *Comparison) (out []string) {
	for _, side := range comparedSides(c) {
		if side.Unread.Lines > 0 {
			out = append(out, fmt.Sprintf("%s: %s could not be read", side.name, text.CountPlural(side.Unread.Lines, "line", "lines")))
		}
		for _, l := range NoUnit(side.Logs) {
			out = append(out, side.name+": "+l)
		}
		if m := side.Missing; m != nil {
			out = append(out, fmt.Sprintf("%s: more groups than --groups; each group may lack up to %s, and groups with fewer may be missing; raise --groups",
				side.name, text.CountPlural(m.Requests, "request", "requests")))
		}
	}
	guessed := map[string][]string{} // names of sides, by guess
	for _, side := range comparedSides(c) {
		for _, l := range side.Logs {
			if g := plainGuess(l.Guessed); g != "" && !slices.Contains(guessed[g], side.name) {
				guessed[g] = append(guessed[g], side.name)
			}
		}
	}
	for _, g := range slices.Sorted(maps.Keys(guessed)) {
		out = append(out, fmt.Sprintf("%s: guessed: %s", strings.Join(guessed[g], " and "), g))
	}
	if slices.ContainsFunc(c.Groups, func(x Change) bool { return x.Ratio != nil && x.Low == nil }) {
		out = append(out, text.Sprintf("cannot tell: the logs are too short; fewer than %d of %s of time have requests", leastSlices, text.Count(sliceCount, "slice")))
	}
	return append(out, "95 % confidence intervals, each by itself: expect 1 false alarm in 20 groups that did not change")
}
