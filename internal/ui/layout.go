package ui

import (
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

const (
	columnGap   = 2  // spaces between columns
	leastCut    = 24 // minimum width of a cut explanation
	leastColumn = 12 // minimum width of other columns
	indent      = 4  // of texts that do not fit their column
)

// layout is a grid with the width of each column.
type layout struct {
	grid   shownGrid
	from   []int // number of each column in the original grid
	widths []int
	width  int  // terminal width; 0 if unlimited
	below  bool // the last column is printed below its row if it does not fit
}

// layout chooses columns and widths for a terminal. It first narrows explanations, then omits
// optional columns, then narrows the other columns, the widest first.
func (g shownGrid) layout(width int) layout {
	for {
		l := layout{grid: g, from: g.from, widths: g.naturalWidths(), width: width}
		if width == 0 {
			return l
		}
		if n := len(g.Columns); n > 0 && g.Columns[n-1].Below && l.total() > width {
			l.below = true
		}
		if l.total() > width {
			l.ignoreOutliers()
		}
		fits := l.shrink(func(c Column) bool { return c.Cut }, leastCut)
		last := -1
		for i, c := range g.Columns {
			if c.Optional {
				last = i
			}
		}
		if !fits && last >= 0 {
			g = g.without(func(i int) bool { return i == last })
			continue
		}
		if !fits {
			l.shrink(func(c Column) bool { return !c.Cut }, leastColumn)
		}
		return l
	}
}

// naturalWidths returns the width of the widest cell of each column.
func (g *shownGrid) naturalWidths() []int {
	widths := make([]int, len(g.Columns))
	for i, c := range g.Columns {
		widths[i] = displayWidth(c.Head)
		for _, row := range g.Rows {
			widths[i] = max(widths[i], displayWidth(row[i]))
		}
	}
	return widths
}

// ignoreOutliers narrows each uncut column except the last to the width that 90 % of its cells
// need. The longer cells continue on another line.
func (l *layout) ignoreOutliers() {
	rows := l.grid.Rows
	for i, c := range l.grid.Columns {
		if c.Cut || i == len(l.widths)-1 || len(rows) == 0 {
			continue
		}
		cells := make([]int, len(rows))
		for r, row := range rows {
			cells[r] = displayWidth(row[i])
		}
		slices.Sort(cells)
		if most := max(displayWidth(c.Head), cells[(len(cells)*9-1)/10]); l.widths[i]-most > columnGap { // else little is gained
			l.widths[i] = most
		}
	}
}

// shrink repeatedly narrows the widest of the chosen columns until the row fits the terminal.
// It reports whether the row fits.
func (l *layout) shrink(chosen func(Column) bool, least int) bool {
	for total := l.total(); total > l.width; total-- {
		widest := -1
		for i, w := range l.sideBySide() {
			if chosen(l.grid.Columns[i]) && w > max(least, displayWidth(l.grid.Columns[i].Head)) && (widest < 0 || w > l.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		l.widths[widest]--
	}
	return true
}

// sideBySide returns the widths of the columns that are printed next to each other.
func (l *layout) sideBySide() []int {
	if l.below {
		return l.widths[:len(l.widths)-1]
	}
	return l.widths
}

// total returns the width of a row in columns, including gaps.
func (l *layout) total() int {
	total := -columnGap
	for _, w := range l.sideBySide() {
		total += w + columnGap
	}
	return total
}

// row formats a row. A cell wider than its column is wrapped between words. If it is one word,
// it gets its own line, and the next cells follow below.
func (l *layout) row(cells []string, paint func(col int, cell string) string) string {
	if paint == nil {
		paint = func(_ int, cell string) string { return cell }
	}
	var out lines
	start := 0
	last := len(cells) - 1
	for last > 0 && cells[last] == "" {
		last--
	}
	for i, cell := range cells[:last+1] {
		c, w := l.grid.Columns[i], l.widths[i]
		if l.below && c.Below && (start+displayWidth(cell) > l.width || out.at > start-columnGap) {
			for _, part := range strings.Split(Wrap(cell, l.width-indent), "\n") {
				out.end()
				out.put(indent, displayWidth(part), paint(i, part))
			}
			continue
		}
		if l.width > 0 && c.Cut {
			cell = shorten(cell, w)
		}
		room := w
		if i == last && l.width > 0 {
			room = max(w, l.width-start)
		}
		parts := []string{cell}
		if l.width > 0 && displayWidth(cell) > room {
			parts = strings.Split(Wrap(cell, room), "\n")
		}
		for n, part := range parts {
			at := start
			if l.width > 0 && start > 0 && start+displayWidth(part) > l.width {
				at = indent
			}
			if n > 0 || out.at > 0 && out.at > at-columnGap {
				out.end()
			}
			if c.Right {
				at += max(w-displayWidth(part), 0)
			}
			out.put(at, displayWidth(part), paint(i, part))
		}
		start += w + columnGap
	}
	out.end()
	return out.text.String()
}

// lines writes texts at given columns.
type lines struct {
	text strings.Builder
	at   int // column after the text on the current line
}

func (o *lines) put(at, width int, cell string) {
	if width == 0 {
		return
	}
	o.text.WriteString(strings.Repeat(" ", max(at-o.at, 0)) + cell)
	o.at = max(o.at, at) + width
}

func (o *lines) end() {
	o.text.WriteString("\n")
	o.at = 0
}

// shorten cuts a text to a width and appends "…". It cuts after a word if one ends in the
// second half.
func shorten(s string, width int) string {
	if displayWidth(s) <= width {
		return s
	}
	s = text.Trim(s, max(width-1, 0))
	if i := strings.LastIndexByte(s, ' '); i > len(s)/2 {
		s = s[:i]
	}
	return strings.TrimRight(s, " ,;:(") + "…"
}

// Wrap wraps a text between words. A word that is wider than width, such as a path or a URL,
// gets its own line.
func Wrap(s string, width int) string {
	if strings.Contains(s, "\x1b") {
		return text.WrapSoft(s, width) // handles colors
	}
	var out []string
	line, used := "", 0
	for _, word := range withUnits(strings.SplitAfter(s, " ")) {
		bare := strings.TrimRight(word, " ")
		if used > 0 && used+displayWidth(bare) > width {
			out = append(out, strings.TrimRight(line, " "))
			line, used = "", 0
		}
		line += word
		used += displayWidth(word)
	}
	return strings.Join(slices.Concat(out, []string{strings.TrimRight(line, " ")}), "\n")
}

// withUnits joins each number with the unit after it: "31 %", "2 s".
func withUnits(words []string) []string {
	var out []string
	for _, word := range words {
		if n := len(out); n > 0 && units[strings.TrimRight(word, " .,;:)")] && endsInDigit(out[n-1]) {
			out[n-1] += word
			continue
		}
		out = append(out, word)
	}
	return out
}

// units lists the units that are kept on the line of their number.
var units = map[string]bool{"%": true, "s": true, "ms": true, "us": true, "min": true, "h": true, "d": true, "B": true, "KiB": true, "MiB": true, "GiB": true, "TiB": true, "MB/s": true, "MiB/s": true}

func endsInDigit(s string) bool {
	s = strings.TrimRight(s, " ")
	return s != "" && s[len(s)-1] >= '0' && s[len(s)-1] <= '9'
}
