package ui

import (
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	internaltext "fettle.dev/fettle/internal/text"
)

// Column is a column of a Grid. By default its cells are never cut: names, values, ids and
// paths. A cell that is too long for the column continues on another line.
type Column struct {
	Head string
	// Cut columns are explanations. On a narrow terminal their cells are cut and end in "…".
	Cut bool
	// Optional columns are omitted on a narrow terminal, the last one first.
	Optional bool
	// Wide columns are printed with --wide only.
	Wide bool
	// Below marks the last column as an explanation that is never cut. On a narrow terminal it
	// is printed below its row.
	Below bool
	// Right columns are aligned to the right, for numbers.
	Right bool
	// Once columns omit a cell on a terminal if it equals the cell above.
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

// Grid is a table for people. On a terminal it has only the columns that fit the width.
// Elsewhere each row is one line, uncut. Unlike JSON output, its layout may change.
type Grid struct {
	Columns []Column
	Rows    [][]string
	// Color returns the color of a cell. nil means no colors. row and col start at 0.
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

// Row appends a row of two cells: a name, and a text with its numbers written for people.
func (g *Grid) Row(name, format string, args ...any) {
	g.Rows = append(g.Rows, []string{name, internaltext.Sprintf(format, args...)})
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

// shownGrid is a grid with only the printed columns and with printable cells.
type shownGrid struct {
	Grid
	from []int // number of each column in the original grid
}

// shown selects the printed columns: all, or without wide only those that are not Wide. It
// also replaces control characters, before widths are measured.
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
	all.OneUnit()
	if wide {
		return all
	}
	return all.without(func(i int) bool { return columns[i].Wide })
}

// once empties the cells of Once columns that equal the cell above.
func (g *shownGrid) once() {
	for j, c := range g.Columns {
		for i := len(g.Rows) - 1; i > 0 && c.Once; i-- {
			if g.Rows[i][j] == g.Rows[i-1][j] {
				g.Rows[i][j] = ""
			}
		}
	}
}

// without returns the grid without the columns for which omit returns true.
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

// displayWidth returns the width of a text on a terminal, in columns.
func displayWidth(s string) int { return text.StringWidthWithoutEscSequences(s) }
