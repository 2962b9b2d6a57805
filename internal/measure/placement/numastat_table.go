package placement

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Values of layout.sort that are not nodes.
const (
	unsorted = -2
	byTotal  = -1
)

// layout holds the options for printing numastat's tables.
type layout struct {
	compact  bool // -c
	omitZero bool // -z
	sort     int  // node, byTotal or unsorted
	width    int  // columns of the terminal; 0 if unlimited
}

// table is one of numastat's tables: rows of values, a column for each node, and the total.
type table struct {
	corner string // above the labels
	heads  []string
	nodes  []int
	ruled  bool // a line below the heads
	whole  bool // pages instead of MB
	rows   []tableRow
	totals []*float64 // last row of a process table; nil without one
}

type tableRow struct {
	label  string
	values []*float64 // of the nodes, then the total; nil is blank
}

// newTable returns a table of all nodes. With total it has a column of totals.
func (n *numastat) newTable(corner, head string, total bool) *table {
	t := &table{corner: corner, ruled: total}
	for _, node := range n.tables {
		t.heads = append(t.heads, head+strconv.Itoa(node.Number))
		t.nodes = append(t.nodes, node.Number)
	}
	if total {
		t.heads = append(t.heads, "Total")
	}
	return t
}

// addRow adds a row. It is printed only if some node has the value.
func (t *table) addRow(label string, values []*float64) {
	sum := 0.0
	for _, v := range values {
		if v != nil {
			sum += *v
		}
	}
	if len(t.heads) > len(values) {
		values = append(values, &sum)
	}
	t.rows = append(t.rows, tableRow{label, values})
}

// addTotals adds the sums of the rows.
func (t *table) addTotals() {
	for col := range t.heads {
		sum := 0.0
		for _, r := range t.rows {
			sum += *r.values[col]
		}
		t.totals = append(t.totals, &sum)
	}
}

func isZero(v *float64) bool { return v == nil || *v == 0 }

// blank reports whether no node has the value.
func (r *tableRow) blank(nodes int) bool {
	return !slices.ContainsFunc(r.values[:nodes], func(v *float64) bool { return v != nil })
}

// visible returns the rows and columns to print: with -z those that are not all zero.
func (l layout) visible(t *table) (rows []tableRow, columns []int) {
	for _, r := range t.rows {
		if r.blank(len(t.nodes)) {
			continue
		}
		if !l.omitZero || slices.ContainsFunc(r.values, func(v *float64) bool { return !isZero(v) }) {
			rows = append(rows, r)
		}
	}
	for col := range t.heads {
		if !l.omitZero || slices.ContainsFunc(rows, func(r tableRow) bool { return !isZero(r.values[col]) }) {
			columns = append(columns, col)
		}
	}
	return rows, columns
}

// sortRows sorts by exchanging each row with the largest one below it, so that equal rows,
// including blank ones, have the same order as in numastat.
func (l layout) sortRows(t *table) {
	col := slices.Index(t.nodes, l.sort)
	if l.sort == unsorted {
		return
	}
	if col < 0 {
		col = len(t.heads) - 1
	}
	value := func(i int) float64 {
		if v := t.rows[i].values[col]; v != nil {
			return *v
		}
		return 0
	}
	for i := range t.rows {
		largest := i
		for j := i + 1; j < len(t.rows); j++ {
			if value(j) > value(largest) {
				largest = j
			}
		}
		t.rows[i], t.rows[largest] = t.rows[largest], t.rows[i]
	}
}

// cell formats a value, or blanks.
func (l layout) cell(t *table, v *float64) string {
	switch {
	case v == nil:
		return ""
	case t.whole || l.compact:
		return strconv.FormatFloat(*v, 'f', 0, 64)
	}
	return strconv.FormatFloat(*v, 'f', 2, 64)
}

// Widths of columns and labels of numastat.
const (
	wideColumn   = 15
	leastLabel   = 16
	mostLabel    = 24
	compactLabel = 16
)

// print prints a table, folded to the width of the terminal.
func (l layout) print(out io.Writer, t *table) {
	l.sortRows(t)
	rows, columns := l.visible(t)
	if len(rows) == 0 || len(columns) == 0 {
		fmt.Fprintln(out, "Table has no non-zero data.")
		return
	}
	label := l.labelWidth(t)
	widths := map[int]int{}
	for _, col := range columns {
		widths[col] = l.columnWidth(t, rows, col)
	}
	for first := true; len(columns) > 0; first = false {
		n, used := 0, label
		for n < len(columns) && (n == 0 || l.width == 0 || used+1+widths[columns[n]] <= l.width) {
			used += 1 + widths[columns[n]]
			n++
		}
		if !first {
			fmt.Fprintln(out)
		}
		l.printColumns(out, t, rows, columns[:n], widths, label)
		columns = columns[n:]
	}
}

// labelWidth returns the width of the labels. Rows that -z omits count too.
func (l layout) labelWidth(t *table) int {
	longest := 0
	for _, r := range t.rows {
		if !r.blank(len(t.nodes)) {
			longest = max(longest, len(r.label))
		}
	}
	switch least := leastLabel; {
	case l.compact:
		return min(longest+1, compactLabel)
	case t.totals != nil:
		return min(max(least, longest)+1, mostLabel)
	default:
		return max(least, longest+1)
	}
}

func (l layout) columnWidth(t *table, rows []tableRow, col int) int {
	if !l.compact {
		return wideColumn
	}
	width := len(t.heads[col])
	for _, r := range rows {
		width = max(width, len(l.cell(t, r.values[col])))
	}
	if t.totals != nil {
		width = max(width, len(l.cell(t, t.totals[col])))
	}
	return width
}

// printColumns prints the labels and some of the columns.
func (l layout) printColumns(out io.Writer, t *table, rows []tableRow, columns []int, widths map[int]int, label int) {
	line := func(head string, cell func(col int) string) {
		text := fmt.Sprintf("%-*.*s", label, label, head)
		for _, col := range columns {
			text += fmt.Sprintf(" %*s", widths[col], cell(col))
		}
		fmt.Fprintln(out, text)
	}
	rule := func(head string) {
		line(head, func(col int) string { return strings.Repeat("-", widths[col]) })
	}
	dashes := strings.Repeat("-", label-1)
	line(t.corner, func(col int) string { return t.heads[col] })
	switch {
	case t.ruled && t.corner != "":
		rule(dashes)
	case t.ruled:
		rule("")
	}
	for _, r := range rows {
		line(r.label, func(col int) string { return l.cell(t, r.values[col]) })
	}
	if t.totals != nil {
		rule(dashes)
		line("Total", func(col int) string { return l.cell(t, t.totals[col]) })
	}
}

// NumastatWidth returns the output width in columns, like numastat: NUMASTAT_WIDTH, at least 32, or
// 80 if it is not a number. If it is not set, the width is 80 on a terminal and 0 (unlimited)
// elsewhere.
func NumastatWidth(value string, set, terminal bool) int {
	const usual, least = 80, 32
	switch n, _ := strconv.Atoi(value); {
	case set && n > 0:
		return max(n, least)
	case set || terminal:
		return usual
	}
	return 0
}
