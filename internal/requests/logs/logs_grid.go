package logs

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// figure describes a column with a figure of each group.
type figure struct {
	ui.Column
	of func(*Group) string
}

// figures returns the columns for the groups of a report, in order.
func figures(r *Report) []figure {
	seconds := func(of func(*Group) *float64) func(*Group) string {
		return func(g *Group) string { return text.SecondsOrDash(of(g)) }
	}
	right := func(head string) ui.Column { return ui.Column{Head: head, Right: true} }
	wide := func(head string) ui.Column { return ui.Column{Head: head, Right: true, Wide: true} }
	optional := func(head string) ui.Column { return ui.Column{Head: head, Right: true, Optional: true} }
	out := []figure{
		{right("requests"), func(g *Group) string { return unit.Thousands(g.Count) }},
		{ui.Column{Head: "per second", Right: true, Wide: r.All.MeanS != nil}, rate},
		{right("errors"), func(g *Group) string { return unit.Thousands(uint64(g.Errors)) }},
	}
	if r.All.MeanS == nil {
		return out
	}
	out = append(out,
		figure{wide("total"), func(g *Group) string { return unit.FormatSeconds(g.TotalS) }},
		figure{right("share"), (*Group).share},
		figure{right("mean"), seconds(func(g *Group) *float64 { return g.MeanS })},
		figure{wide("std.dev"), seconds(func(g *Group) *float64 { return g.DeviationS })},
		figure{wide("min"), seconds(func(g *Group) *float64 { return g.MinS })})
	if r.All.QuantilesS != nil {
		for _, q := range quantiles {
			column := wide(q.name)
			switch q.name {
			case "p50":
				column = optional(q.name)
			case "p99":
				column = right(q.name)
			}
			out = append(out, figure{column, func(g *Group) string { return g.quantile(q.name) }})
		}
	}
	return append(out, figure{optional("max"), seconds(func(g *Group) *float64 { return g.MaxS })})
}

// groups returns a grid of groups with their keys.
func groups(r *Report, head string, keys []string, of []Group) ui.Grid {
	all := figures(r)
	g := ui.Grid{Columns: []ui.Column{{Head: head}}}
	for _, f := range all {
		g.Columns = append(g.Columns, f.Column)
	}
	for i := range of {
		row := []string{keys[i]}
		for _, f := range all {
			row = append(row, f.of(&of[i]))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// grouping returns the grid of a grouping with at most the given number of groups.
func grouping(r *Report, by *Grouping, most int) ui.Grid {
	of := by.Top[:min(len(by.Top), most)]
	var keys []string
	for i := range of {
		keys = append(keys, keyed(of[i].Key))
	}
	if by.Folded != nil && len(of) == len(by.Top) {
		of = append(slices.Clip(of), *by.Folded)
		keys = append(keys, "(other)")
	}
	return groups(r, strings.Join(by.By, ", "), keys, of)
}

// hours returns the grid of requests by hour.
func hours(r *Report) ui.Grid {
	var keys []string
	for i := range r.Hours {
		keys = append(keys, r.Hours[i].Key[0]+zone(r))
	}
	return groups(r, "hour", keys, r.Hours)
}

// leastKey is the minimum width of keys; optional columns are omitted to keep it.
const leastKey = 24

// shortestKey is the minimum width of keys if no more columns can be omitted.
const shortestKey = 12

// WriteKeyed writes a grid with keys in its first column. On a narrow terminal it first omits
// optional columns, from the last one, until a key has 24 characters. Then it shortens keys in
// the middle, because the beginning and the end of a path are the most informative.
func WriteKeyed(s *ui.Screen, g ui.Grid) {
	if s.Width == 0 || s.Wide || s.Format == ui.Markdown {
		g.Write(s)
		return
	}
	g.OneUnit() // as Write does, so that the widths are those that it shows
	widths := make([]int, len(g.Columns))
	for c := range g.Columns {
		widths[c] = utf8.RuneCountInString(g.Columns[c].Head)
		for r := range g.Rows {
			widths[c] = max(widths[c], utf8.RuneCountInString(g.Rows[r][c]))
		}
	}
	omitted := map[int]bool{}
	room := func() int {
		left := s.Width
		for c := 1; c < len(widths); c++ {
			if !g.Columns[c].Wide && !omitted[c] {
				left -= 2 + widths[c]
			}
		}
		return left
	}
	for c := len(widths) - 1; c > 0 && room() < min(widths[0], leastKey); c-- {
		omitted[c] = g.Columns[c].Optional
	}
	keys := max(room(), shortestKey)
	for r := range g.Rows {
		g.Rows[r][0] = shortenMiddle(g.Rows[r][0], keys)
	}
	g.Write(s)
}

// shortenMiddle shortens a text to at most most characters with a "…" in its middle.
func shortenMiddle(s string, most int) string {
	all := []rune(ui.Line(s))
	if len(all) <= most {
		return s
	}
	end := (most - 1) / 2
	return string(all[:most-1-end]) + "…" + string(all[len(all)-end:])
}

// rate formats the requests per second, or "-" if all requests came at the same time.
func rate(g *Group) string {
	if g.RatePerS == nil {
		return "-"
	}
	return unit.Digits(*g.RatePerS)
}

// share formats the group's share of the total time, or "-".
func (g *Group) share() string {
	if g.Share == nil {
		return "-"
	}
	switch p := 100 * *g.Share; {
	case p > 0 && p < 0.05:
		return "< 0.1 %"
	case p == 100:
		return "100 %"
	default:
		return fmt.Sprintf("%.1f %%", min(p, 99.9))
	}
}

// quantile formats a quantile by name, such as p99, or "-".
func (g *Group) quantile(name string) string {
	if v, ok := g.QuantilesS[name]; ok {
		return unit.FormatSeconds(v)
	}
	return "-"
}
