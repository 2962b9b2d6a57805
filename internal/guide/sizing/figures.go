package sizing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
)

// Figures provides the tables of a catalog.
type Figures interface {
	Table(name string) *rule.Table
}

// Of returns the edition of a table for a version; "" selects the newest. An unknown table or
// version is an error.
func Of(f Figures, table, version string) (*Edition, error) {
	t := f.Table(table)
	if t == nil {
		return nil, fmt.Errorf("the catalog has no table %s", table)
	}
	e, err := t.Edition(version)
	if err != nil {
		return nil, err
	}
	return &Edition{Edition: e, table: table, err: new(error)}, nil
}

// Edition has a table's figures for one version. Err returns the first missing figure, so a
// calculation checks it once, at its end.
type Edition struct {
	*rule.Edition
	table string
	err   *error
}

// Err returns the error about the first missing figure.
func (e *Edition) Err() error { return *e.err }

// Number returns the figure in a row and column, or 0.
func (e *Edition) Number(row, column string) float64 {
	v, _ := e.cell(row, column).(float64)
	return v
}

// Text returns the text in a row and column, or "".
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
		err = fmt.Errorf("%s: row %s of table %s has no %s", r.At, row, e.table, column)
	}
	*e.err = cmp.Or(*e.err, err)
	return nil
}

// Keys returns the names of the rows.
func (e *Edition) Keys() []string {
	var keys []string
	for _, r := range e.Rows {
		keys = append(keys, r.Key)
	}
	return keys
}

// KnownVersion returns the row of a release table that covers version: 4.16 for 4.16.9 and
// 4.16.0-rc.1. If version is "" or above all rows, it returns the newest row; newer is true only in
// the second case. Other versions are an error.
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
	return "", false, Instead("version", newest, "%q: want a version from %s to %s; newer ones get the figures of %s", version, keys[0], newest, newest)
}

// notNumber reports whether a part of a version is not a number.
func notNumber(part string) bool {
	_, err := strconv.ParseUint(part, 10, 16)
	return err != nil
}

func numbers(parts []string) []int {
	out := make([]int, len(parts))
	for i, p := range parts {
		out[i], _ = strconv.Atoi(p) // already checked to be a number
	}
	return out
}

// Ceil returns the number of parts of the given size that an amount needs, at most MaxInt32. Both
// must be positive.
func Ceil(amount, size float64) int {
	// A binary fraction's rounding error must not need another part.
	n := math.Ceil(amount/size - 1e-9)
	if !(n < math.MaxInt32) {
		return math.MaxInt32
	}
	return int(n)
}

// Round rounds to three decimals, for output.
func Round(f float64) float64 { return math.Round(f*1000) / 1000 }
