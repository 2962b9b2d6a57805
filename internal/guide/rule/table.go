package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
)

// Table is figures by row and column, such as the memory of each size of an
// installation. Rules look things up in it, and so does sizing.
type Table struct {
	Name    string   `json:"table"`
	IDs     []string `json:"ids"` // of the catalogue
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	// Editions are the table for some versions of a product; the newest first.
	Editions []Edition `json:"editions"`
	At       Pos       `json:"at"`
}

// Column is one column: Unit is "bytes", "s", ... of its numbers.
type Column struct {
	Name string    `json:"name"`
	Type fact.Type `json:"type"`
	Unit string    `json:"unit,omitempty"`
}

// Edition is the rows for the versions of a range.
type Edition struct {
	Range
	Why     string   `json:"why,omitempty"`
	Sources []Source `json:"sources"`
	Rows    []Row    `json:"rows"`
	At      Pos      `json:"at"`
}

// Row is one row: what has no figure in it is not in Cells.
type Row struct {
	Key   string         `json:"key"`
	Cells map[string]any `json:"cells"`
	At    Pos            `json:"at"`
}

// Edition is the one for a version; "" is the newest. The error says for which
// versions there is one.
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
	return nil, noFigure("the table %s has nothing for version %s: only for %s", t.Name, version, strings.Join(all, ", "))
}

// Row finds a row by its key.
func (e *Edition) Row(key string) (*Row, error) {
	i := slices.IndexFunc(e.Rows, func(r Row) bool { return r.Key == key })
	if i < 0 {
		var keys []string
		for _, r := range e.Rows {
			keys = append(keys, r.Key)
		}
		meant := text.Suggest(key, keys)
		if meant == "" && len(keys) <= 12 {
			meant = ": there are " + strings.Join(keys, ", ")
		}
		return nil, noFigure("%s: no row %q%s", e.At, key, meant)
	}
	return &e.Rows[i], nil
}

// Least finds the first row whose figure in a column is at least the value; the
// last one has none where it is without a limit.
func (e *Edition) Least(column string, value float64) (*Row, error) {
	for i := range e.Rows {
		switch limit, ok := e.Rows[i].Cells[column].(float64); {
		case ok && limit >= value, !ok:
			return &e.Rows[i], nil
		}
	}
	return nil, noFigure("%s: no row has %s of %g or more", e.At, column, value)
}

// figureError is what a table has no figure for: a word about the machine, and no
// mistake of the rule that asks.
type figureError struct{ text string }

func (e *figureError) Error() string { return e.text }

func noFigure(format string, args ...any) error { return &figureError{fmt.Sprintf(format, args...)} }

// cell is the figure in a column of a row.
func (t *Table) cell(r *Row, column string) (any, error) {
	v, ok := r.Cells[column]
	if !ok {
		if !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Name == column }) {
			return nil, fmt.Errorf("table %s has no column %q", t.Name, column)
		}
		return nil, noFigure("%s: row %s has no %s", r.At, r.Key, column)
	}
	return v, nil
}

// holds is true for a version of the range.
func (r Range) holds(version string) bool {
	return (r.From == "" || compareVersions(version, r.From) >= 0) && (r.Before == "" || compareVersions(version, r.Before) < 0)
}

// Words is the range for a person: "6.12 and later, before 6.16".
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

// Evidence is a measurement of a source that explains rules and is none itself.
type Evidence struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Says     string   `json:"says"`
	Explains []string `json:"explains"` // ids of rules and tables
	Sources  []Source `json:"sources"`
	At       Pos      `json:"at"`
}

// Table finds a table by its name; nil if there is none.
func (c *Catalogue) Table(name string) *Table { return c.tables[name] }

// Tables lists them by name.
func (c *Catalogue) Tables() []*Table {
	var out []*Table
	for _, name := range slices.Sorted(maps.Keys(c.tables)) {
		out = append(out, c.tables[name])
	}
	return out
}

// Evidence lists the measurements, in the order of the files.
func (c *Catalogue) Evidence() []*Evidence { return slices.Clone(c.evidence) }

// table finds a table or says which there is.
func (c *Catalogue) table(name string) (*Table, error) {
	t := c.tables[name]
	if t == nil {
		return nil, fmt.Errorf("there is no table %q%s", name, text.Suggest(name, slices.Sorted(maps.Keys(c.tables))))
	}
	return t, nil
}

// lookUp is cell("TABLE", version, "row", "column") of the expressions.
func (c *Catalogue) lookUp(name, version, key, column string) (any, error) {
	t, err := c.table(name)
	if err != nil {
		return nil, err
	}
	e, err := t.Edition(version)
	if err != nil {
		return nil, err
	}
	r, err := e.Row(key)
	if err != nil {
		return nil, err
	}
	return t.cell(r, column)
}

// lookUpLeast is least("TABLE", version, "by", value, "column"): the figure of
// the first row whose own in "by" is the value or more.
func (c *Catalogue) lookUpLeast(name, version, by string, value float64, column string) (any, error) {
	t, err := c.table(name)
	if err != nil {
		return nil, err
	}
	e, err := t.Edition(version)
	if err != nil {
		return nil, err
	}
	r, err := e.Least(by, value)
	if err != nil {
		return nil, err
	}
	if column == "key" {
		return r.Key, nil
	}
	return t.cell(r, column)
}
