package sizing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
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

// KnownVersion is the row of a table of releases that a version belongs to: its own, without
// the numbers that the rows do not have and what stands after a hyphen (4.16 of 4.16.9 and
// 4.16.0-rc.1), or that of the newest release where no version is given or a newer one is.
// newer reports the latter.
func KnownVersion(f Figures, table, version string) (row string, newer bool, err error) {
	e, err := Of(f, table, "")
	if err != nil {
		return "", false, err
	}
	keys := e.Keys()
	if len(keys) == 0 {
		return "", false, fmt.Errorf("table %s is empty", table)
	}
	newest := keys[len(keys)-1]
	final, _, _ := strings.Cut(version, "-")
	parts := strings.Split(final, ".")
	n := strings.Count(newest, ".") + 1
	switch release := strings.Join(parts[:min(n, len(parts))], "."); {
	case version == "":
		return newest, false, nil
	case slices.ContainsFunc(parts, notNumber):
	case slices.Contains(keys, release):
		return release, false, nil
	case len(parts) >= n && slices.Compare(numbers(parts[:n]), numbers(strings.Split(newest, "."))) > 0:
		return newest, true, nil
	}
	return "", false, Instead("version", newest, "%q is not known: want %s to %s (a newer one gets the figures of %s)", version, keys[0], newest, newest)
}

// notNumber reports whether a part of a version is not a number.
func notNumber(part string) bool {
	_, err := strconv.ParseUint(part, 10, 16)
	return err != nil
}

func numbers(parts []string) []int {
	out := make([]int, len(parts))
	for i, p := range parts {
		out[i], _ = strconv.Atoi(p) // of a version: it is a number
	}
	return out
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
