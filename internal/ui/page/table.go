package page

import (
	"fmt"
	"strconv"
	"strings"

	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Column is a column of a table.
type Column struct {
	Head  string
	Right bool // numbers
	Prose bool // explanations
}

// Table is a table of a page.
type Table struct {
	Title   string // for screen readers; visible unless it equals the section's heading
	Columns []Column
	Rows    [][]string
	// Tone returns the tone of a cell. nil means none. row and col start at 0.
	Tone func(row, col int) Tone
	// Links holds, for each row, the ID of the card to which the first cell links; nil means
	// none.
	Links []string
}

// tableView is a table for the template.
type tableView struct {
	Title   string
	Columns []Column
	Rows    [][]cell
	// Stack reports whether rows become cards on a narrow screen.
	Stack bool
	Bare  bool // without column heads
	Tools bool // with sorting and filtering
}

type cell struct {
	Text, Head string
	Class      string
	Key        string // sort key, if it differs from the text
	Header     bool   // head of its row
	Link       string // ID of the linked card
}

// Table appends a table. If the line before it is short and ends in a colon, it becomes the
// table's title.
func (p *Page) Table(t Table) {
	p.endText()
	if n := len(p.blocks); n > 0 && t.Title == "" {
		last := p.blocks[n-1]
		if title, ok := strings.CutSuffix(last.Line, ":"); ok && len(title) <= 60 {
			p.blocks = p.blocks[:n-1]
			p.Heading(title)
			t.Title = title
		} else if last.Heading != "" {
			t.Title = last.Heading
		}
	}
	if t.Title == "" {
		t.Title = p.lastHeading()
	}
	t.Title = p.unique(t.Title)
	p.add(&block{Table: newTable(&t)})
}

// unique adds a number to a title that the page already has: screen readers list tables by title.
func (p *Page) unique(title string) string {
	if p.titles == nil {
		p.titles = map[string]int{}
	}
	if p.titles[title]++; p.titles[title] > 1 {
		return fmt.Sprintf("%s (%d)", title, p.titles[title])
	}
	return title
}

// Fold appends a table that is initially folded below its title.
func (p *Page) Fold(title string, t Table) {
	t.Title = p.unique(t.Title)
	p.add(&block{Table: newTable(&t), Fold: title})
}

// lastHeading returns the heading of the current section.
func (p *Page) lastHeading() string {
	for i := len(p.blocks) - 1; i >= 0; i-- {
		if h := p.blocks[i].Heading; h != "" {
			return h
		}
	}
	return p.Name
}

const (
	mostPlain = 4  // maximum columns of a table for a narrow screen
	mostCards = 16 // maximum columns of a table whose rows can be cards
	leastTool = 3  // minimum rows of a sortable table
	leastPair = 12 // the same, for a table of names and values
)

func newTable(t *Table) *tableView {
	v := &tableView{Title: t.Title, Columns: t.Columns, Bare: true, Tools: len(t.Rows) >= leastTool}
	prose := false
	for _, c := range t.Columns {
		v.Bare = v.Bare && c.Head == ""
		prose = prose || c.Prose
	}
	v.Tools = v.Tools && !v.Bare && (len(t.Columns) > 2 || len(t.Rows) >= leastPair)
	v.Stack = !v.Bare && (prose || len(t.Columns) > mostPlain && len(t.Columns) <= mostCards)
	for i, row := range t.Rows {
		cells := make([]cell, len(t.Columns))
		for j, c := range t.Columns {
			if v.Stack {
				cells[j].Head = c.Head
			}
			if j < len(row) {
				cells[j].Text = row[j]
			}
			cells[j].Key = sortKey(cells[j].Text)
			cells[j].Header = j == 0 && cells[j].Text != "" && len(t.Columns) > 1
			if j == 0 && i < len(t.Links) {
				cells[j].Link = t.Links[i]
			}
			var class []string
			if c.Right {
				class = append(class, "n")
			}
			if c.Prose {
				class = append(class, "prose")
			}
			if t.Tone != nil {
				if tone := t.Tone(i, j); tone != "" {
					class = append(class, string(tone))
				}
			}
			cells[j].Class = strings.Join(class, " ")
		}
		v.Rows = append(v.Rows, cells)
	}
	return v
}

// amount matches a number with an optional unit. A duration has several.
var (
	amount   = internaltext.LazyRegexp(`^[<>≤≥~±+−-]? ?[0-9][0-9,.]*( ?[a-zA-Zµ%/]+)?$`)
	duration = internaltext.LazyRegexp(`^([0-9]+(\.[0-9]+)? ?(d|h|m|s|ms|µs|us|ns) ?)+$`)
	part     = internaltext.LazyRegexp(`([0-9][0-9,.]*) ?([a-zA-Zµ%/]*)`)
)

// units maps units to factors of the base unit.
var units = map[string]float64{
	"": 1, "%": 1, "/s": 1,
	"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400,
	"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50,
	"KiB/s": 1 << 10, "MiB/s": 1 << 20, "GiB/s": 1 << 30, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "k": 1e3, "M": 1e6, "G": 1e9,
}

// sortKey returns the number by which an amount is sorted, or "" for other text.
func sortKey(s string) string {
	if !amount().MatchString(s) && !duration().MatchString(s) {
		return ""
	}
	sum := 0.0
	for _, m := range part().FindAllStringSubmatch(s, -1) {
		n, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
		if err != nil {
			return ""
		}
		factor, known := units[m[2]]
		if !known {
			return ""
		}
		sum += n * factor
	}
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "−") {
		sum = -sum
	}
	return unit.Exact(sum)
}
