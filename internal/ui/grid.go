package ui

import (
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Column is a column of a Grid. Without an option its cells are never cut: names, values, ids
// and paths. If such a cell is too long for its column, its row takes another line.
type Column struct {
	Head string
	// Cut marks an explanation: on a terminal that is too narrow it ends in "…".
	Cut bool
	// Optional columns are omitted on a terminal that is too narrow, the last one first.
	Optional bool
	// Wide columns are printed with --wide only.
	Wide bool
	// Below marks the last column as an explanation that is never cut: if the terminal is too
	// narrow for the row, it stands on lines of its own below it.
	Below bool
	// Right aligns numbers.
	Right bool
	// Once columns leave out on a terminal what the row above has too.
	Once bool
}

// Columns returns columns without options.
func Columns(heads ...string) []Column {
	out := make([]Column, len(heads))
	for i, h := range heads {
		out[i].Head = h
	}
	return out
}

// Grid is a table for people: on a terminal with the columns that fit its width, elsewhere
// each row on one line, uncut. Its layout may change, in contrast to JSON output.
type Grid struct {
	Columns []Column
	Rows    [][]string
	// Color returns the color of a cell; nil means no colors. Both numbers start at 0.
	Color func(row, col int) string
}

// Heads returns the heads of all columns.
func (g *Grid) Heads() []string {
	heads := make([]string, len(g.Columns))
	for i, c := range g.Columns {
		heads[i] = c.Head
	}
	return heads
}

// Write prints the grid in the screen's format.
func (g *Grid) Write(s *Screen) {
	if s.Page != nil {
		s.Page.Table(g.Table(""))
		return
	}
	shown := g.shown(s.Wide)
	if s.Format == Markdown {
		fmt.Fprintln(s.Out, shown.markdown())
		return
	}
	width := s.Width
	if width > 0 {
		shown.once()
	}
	if s.Wide {
		width = 0
	}
	l := shown.layout(width)
	if heads := l.grid.Heads(); slices.ContainsFunc(heads, func(h string) bool { return h != "" }) {
		if l.below {
			heads[len(heads)-1] = ""
		}
		fmt.Fprint(s.Out, l.row(heads, nil))
	}
	for i, row := range l.grid.Rows {
		var paint func(col int, cell string) string
		if g.Color != nil {
			paint = func(col int, cell string) string { return s.Paint(g.Color(i, l.from[col]), cell) }
		}
		fmt.Fprint(s.Out, l.row(row, paint))
	}
}

// shownGrid is a grid of the columns that are printed, with safe cells.
type shownGrid struct {
	Grid
	from []int // number of each column in the original grid
}

// shown replaces control characters (before anything is measured: replacements may be wider)
// and selects the columns; without --wide all but the Wide ones.
func (g *Grid) shown(wide bool) shownGrid {
	columns := slices.Clone(g.Columns)
	for _, row := range g.Rows {
		for len(columns) < len(row) {
			columns = append(columns, Column{})
		}
	}
	all := shownGrid{Grid: Grid{Columns: columns}}
	for i := range columns {
		all.from = append(all.from, i)
	}
	for _, row := range g.Rows {
		cells := make([]string, len(columns))
		for j, cell := range row {
			cells[j] = Line(cell)
		}
		all.Rows = append(all.Rows, cells)
	}
	if wide {
		return all
	}
	return all.without(func(i int) bool { return columns[i].Wide })
}

// once empties the cells of Once columns that repeat the row above.
func (g *shownGrid) once() {
	for j, c := range g.Columns {
		for i := len(g.Rows) - 1; i > 0 && c.Once; i-- {
			if g.Rows[i][j] == g.Rows[i-1][j] {
				g.Rows[i][j] = ""
			}
		}
	}
}

// without returns the grid without some columns.
func (g *shownGrid) without(omit func(col int) bool) shownGrid {
	out := shownGrid{Grid: Grid{Rows: make([][]string, len(g.Rows))}}
	for i, c := range g.Columns {
		if omit(i) {
			continue
		}
		out.Columns, out.from = append(out.Columns, c), append(out.from, g.from[i])
		for r, row := range g.Rows {
			out.Rows[r] = append(out.Rows[r], row[i])
		}
	}
	return out
}

func (g *shownGrid) markdown() string {
	t := table.NewWriter()
	if len(g.Columns) > 0 {
		t.AppendHeader(tableRow(g.Heads()))
	}
	for _, r := range g.Rows {
		t.AppendRow(tableRow(r))
	}
	return t.RenderMarkdown()
}

func tableRow(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = c
	}
	return row
}

// displayWidth returns the number of columns that a terminal needs for a text.
func displayWidth(s string) int { return text.StringWidthWithoutEscSequences(s) }
