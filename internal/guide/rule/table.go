package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Table has figures by row and column, such as the memory per installation size, for rules and
// sizing.
type Table struct {
	Name    string   `json:"table"`
	IDs     []string `json:"ids"` // ids in the catalog
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	// Editions are the tables per range of versions, newest first.
	Editions []Edition `json:"editions"`
	At       Pos       `json:"at"`
}

// Column is a column; Unit is the unit of its numbers, such as "bytes".
type Column struct {
	Name string    `json:"name"`
	Type fact.Type `json:"type"`
	Unit string    `json:"unit,omitempty"`
}

// Edition has the rows for a range of versions.
type Edition struct {
	Range
	Why     string   `json:"why,omitempty"`
	Sources []Source `json:"sources"`
	Rows    []Row    `json:"rows"`
	At      Pos      `json:"at"`
}

// Row is a row of an edition. Cells omits columns without a figure.
type Row struct {
	Key   string         `json:"key"`
	Cells map[string]any `json:"cells"`
	At    Pos            `json:"at"`
}

// Edition returns the edition for a version; "" means the newest.
func (t *Table) Edition(version string) (*Edition, error) {
	for i := range t.Editions {
		if e := &t.Editions[i]; version == "" || e.holds(version) {
			return e, nil
		}
	}
	var all []string
	for _, e := range t.Editions {
		all = append(all, e.Words())
	}
	return nil, noFigure("table %s has no edition for version %s, only for %s", t.Name, version, strings.Join(all, ", "))
}

// Row returns a row by its key.
func (e *Edition) Row(key string) (*Row, error) {
	i := slices.IndexFunc(e.Rows, func(r Row) bool { return r.Key == key })
	if i < 0 {
		var keys []string
		for _, r := range e.Rows {
			keys = append(keys, r.Key)
		}
		meant := text.Suggest(key, keys)
		if meant == "" && len(keys) <= 12 {
			meant = ": want " + strings.Join(keys, ", ")
		}
		return nil, noFigure("%s: no row %q%s", e.At, key, meant)
	}
	return &e.Rows[i], nil
}

// Least returns the first row whose figure in a column is at least the value. A row without a
// figure in that column has no limit and matches.
func (e *Edition) Least(column string, value float64) (*Row, error) {
	for i := range e.Rows {
		switch limit, ok := e.Rows[i].Cells[column].(float64); {
		case ok && limit >= value, !ok:
			return &e.Rows[i], nil
		}
	}
	return nil, noFigure("%s: no row has %s of %s or more", e.At, column, unit.Digits(value))
}

// figureError is the error about a missing figure. It depends on the machine and is not a fault of
// the rule.
type figureError struct{ text string }

func (e *figureError) Error() string { return e.text }

func noFigure(format string, args ...any) error { return &figureError{fmt.Sprintf(format, args...)} }

// cell returns the figure in a column of a row.
func (t *Table) cell(r *Row, column string) (any, error) {
	v, ok := r.Cells[column]
	if !ok {
		if !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == column }) {
			return nil, fmt.Errorf("table %s does not have the column %q", t.Name, column)
		}
		return nil, noFigure("%s: row %s has no %s", r.At, r.Key, column)
	}
	return v, nil
}

// holds reports whether a version is in the range.
func (r Range) holds(version string) bool {
	return (r.From == "" || compareVersions(version, r.From) >= 0) && (r.Before == "" || compareVersions(version, r.Before) < 0)
}

// Words describes the range: "6.12 and later, before 6.16".
func (r Range) Words() string {
	switch {
	case r.From == "" && r.Before == "":
		return "every version"
	case r.From == "":
		return "before " + r.Before
	case r.Before == "":
		return r.From + " and later"
	}
	return r.From + " and later, before " + r.Before
}

// Evidence is a measurement of a source that explains rules.
type Evidence struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Says     string   `json:"says"`
	Explains []string `json:"explains"` // ids of rules and tables
	Sources  []Source `json:"sources"`
	At       Pos      `json:"at"`
}

// Table returns a table by its name, or nil.
func (c *Catalogue) Table(name string) *Table { return c.tables[name] }

// Tables lists the tables by name.
func (c *Catalogue) Tables() []*Table {
	var out []*Table
	for _, name := range slices.Sorted(maps.Keys(c.tables)) {
		out = append(out, c.tables[name])
	}
	return out
}

// Evidence lists the measurements, in the order of the files.
func (c *Catalogue) Evidence() []*Evidence { return slices.Clone(c.evidence) }

// lookUp returns the figure in a column of the row that find returns. Expressions call it as
// cell("TABLE", version, "row", "column") and least("TABLE", version, "by", value, "column").
// least's column "key" is the row's name.
func (c *Catalogue) lookUp(name, version, column string, find func(*Edition) (*Row, error)) (any, error) {
	t := c.tables[name]
	if t == nil {
		return nil, fmt.Errorf("unknown table %q%s", name, text.Suggest(name, slices.Sorted(maps.Keys(c.tables))))
	}
	e, err := t.Edition(version)
	if err != nil {
		return nil, err
	}
	r, err := find(e)
	if err != nil {
		return nil, err
	}
	return t.cell(r, column)
}
