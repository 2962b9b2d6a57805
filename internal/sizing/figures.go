package sizing

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/spell"
)

// Figures are the tables of a catalogue.
type Figures interface {
	Table(name string) *rule.Table
}

// Of is the edition of a table for a version; "" is the newest. A table that the
// catalogue lacks, or a version that it does not know, is an error.
func Of(f Figures, table, version string) (*Edition, error) {
	t := f.Table(table)
	if t == nil {
		return nil, fmt.Errorf("the catalogue has no table %s", table)
	}
	e, err := t.Edition(version)
	if err != nil {
		return nil, err
	}
	return &Edition{Edition: e, table: t}, nil
}

// Edition is the figures of a table for one version. Figures that are asked for
// and not there are counted in Err, so that a calculation asks first and looks at
// the end whether all of it was there.
type Edition struct {
	*rule.Edition
	table *rule.Table
	err   error
}

// Err is the first figure that was asked for and not there.
func (e *Edition) Err() error { return e.err }

// Number is the figure in a row and column; 0 where there is none.
func (e *Edition) Number(row, column string) float64 {
	v, _ := e.cell(row, column).(float64)
	return v
}

// Text is the words in a row and column.
func (e *Edition) Text(row, column string) string {
	v, _ := e.cell(row, column).(string)
	return v
}

func (e *Edition) cell(row, column string) any {
	r, err := e.Row(row)
	if err == nil {
		if v, ok := r.Cells[column]; ok {
			return v
		}
		err = fmt.Errorf("%s: row %s of table %s has no %s", r.At, row, e.table.Name, column)
	}
	if e.err == nil {
		e.err = err
	}
	return nil
}

// Keys are the names of the rows.
func (e *Edition) Keys() []string {
	var keys []string
	for _, r := range e.Rows {
		keys = append(keys, r.Key)
	}
	return keys
}

// KnownVersion checks that a table has a row for a version. Where none is given,
// it is that of the last row, the newest.
func KnownVersion(f Figures, table, version string) (string, error) {
	e, err := Of(f, table, "")
	if err != nil {
		return "", err
	}
	keys := e.Keys()
	switch {
	case len(keys) == 0:
		return "", fmt.Errorf("table %s is empty", table)
	case version == "":
		return keys[len(keys)-1], nil
	case !slices.Contains(keys, version):
		return "", Bad("version", "%q is not known%s: there are %s", version, spell.Suggest(version, keys), strings.Join(keys, ", "))
	}
	return version, nil
}

// Ceil is the whole number of parts of a size that hold an amount. Amounts and
// sizes are positive; a result that is no int is the largest one.
func Ceil(amount, size float64) int {
	// What a binary fraction makes of 0.1 must not need another part.
	n := math.Ceil(amount/size - 1e-9)
	if !(n < math.MaxInt32) {
		return math.MaxInt32
	}
	return int(n)
}

// round keeps three digits behind the point: percentages and amounts are for
// reading.
func round(f float64) float64 { return math.Round(f*1000) / 1000 }

// Round keeps three digits behind the point.
func Round(f float64) float64 { return round(f) }
