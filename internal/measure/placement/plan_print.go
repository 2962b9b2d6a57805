package placement

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// summarize returns the headline: the processes to move, or the advice to change nothing, and the
// reasons to keep processes in place.
func (p *Plan) summarize() (h ui.Headline) {
	h.Value("moves", float64(len(p.Moves)), "")
	counts := map[string]int{staySmall: p.Small}
	for _, s := range p.Stay {
		counts[s.Reason]++
	}
	all := h.Count("processes", len(p.Moves)+len(p.Stay)+p.Small, "process")
	switch bytes, seconds := int64(0), 0.0; {
	case len(p.Moves) > 0:
		for _, m := range p.Moves {
			bytes, seconds = bytes+m.MoveBytes, seconds+m.Seconds
		}
		h.Line("move %d of %s: %s in about %s", len(p.Moves), all,
			h.Value("move_bytes", float64(bytes), unit.Size(bytes).Human()), h.Value("move_s", seconds, ui.Roughly(seconds)))
		h.Line("estimate: %s/s, %s", unit.Size(p.BytesPerS).Human(), p.RateSource)
	case counts[stayUnread] > 0:
		h.Line("leave it: none of %s is known to gain from a move", all)
	default:
		h.Line("leave it: none of %s gains from a move", all)
	}
	var parts []string
	for _, reason := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	}) {
		if n := counts[reason]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+reason)
		}
	}
	if len(parts) > 0 {
		h.Line("not moved: %s", strings.Join(parts, ", "))
	}
	return h
}

// Print prints the moves with the text to copy. With details it lists the other processes above a
// threshold.
func (p *Plan) Print(s *ui.Screen, details bool) {
	ui.PrintHeadline(s, &p.Headline)
	p.printMoves(s)
	p.printTexts(s)
	if details && len(p.Stay) > 0 {
		ui.Heading(s, "not moved")
		g := &ui.Grid{Columns: []ui.Column{{Head: "PID", Right: true}, {Head: "name"}, {Head: "reason"}, {Head: "details", Below: true}}}
		for _, stay := range p.Stay {
			g.Rows = append(g.Rows, []string{strconv.Itoa(stay.PID), stay.Name, stay.Reason, stay.Detail})
		}
		g.Write(s)
	}
	for _, note := range p.Notes {
		ui.PrintLine(s, "? %s", note)
	}
}

func (p *Plan) printMoves(s *ui.Screen) {
	if len(p.Moves) == 0 {
		return
	}
	right := func(head string) ui.Column { return ui.Column{Head: head, Right: true} }
	g := &ui.Grid{Columns: []ui.Column{right("PID"), {Head: "name"}, right("local"), right("memory"), right("CPUs"), {Head: "on nodes"}, {Head: "use nodes"}, right("to move"), right("time")}}
	for _, m := range p.Moves {
		g.Rows = append(g.Rows, []string{strconv.Itoa(m.PID), m.Name, unit.Digits(m.LocalPercent) + " %", unit.Size(m.MemoryBytes).Human(), unit.Digits(m.CPUsUsed), m.From, m.Nodes, unit.Size(m.MoveBytes).Human(), ui.Roughly(m.Seconds)})
	}
	ui.Heading(s, "move")
	g.Write(s)
}

// printTexts prints each text once; processes of one unit or machine share it.
func (p *Plan) printTexts(s *ui.Screen) {
	printed := map[string]bool{}
	for _, m := range p.Moves {
		t := m.Text
		if key := t.File + t.Content + t.Then; !printed[key] {
			printed[key] = true
			ui.Heading(s, t.Kind+": "+cmp.Or(t.File, m.Name))
			for line := range strings.Lines(t.Content + t.Then) {
				ui.PrintCommand(s, strings.TrimRight(line, "\n"))
			}
			for _, why := range t.Omitted {
				ui.PrintLine(s, "without %s", why)
			}
		}
	}
}
