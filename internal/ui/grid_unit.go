package ui

import (
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// times are the units of times that differ by powers of 1,000: in another one of them a time has
// the same digits.
var times = []struct {
	name    string
	seconds float64
}{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}

// OneUnit writes the times of each numeric column in one unit, if each remains easy to read: below
// 10,000 and at least 1, or else at least 0.01. Longer times, in minutes, hours or days, keep their
// units.
func (g *Grid) OneUnit() {
	for j, c := range g.Columns {
		if !c.Right {
			continue
		}
		values, units := map[int]float64{}, map[string]bool{}
		for i, row := range g.Rows {
			if j >= len(row) || row[j] == unit.NotMeasured || row[j] == "" {
				continue
			}
			v, name, ok := timeOf(row[j])
			if !ok {
				units = nil
				break
			}
			if values[i] = v; v != 0 {
				units[name] = true
			}
		}
		if len(units) < 2 {
			continue
		}
		seconds, name := common(values, 1)
		if name == "" {
			seconds, name = common(values, 0.01)
		}
		for i, v := range values {
			if name != "" {
				g.Rows[i][j] = unit.Digits(v/seconds) + " " + name
			}
		}
	}
}

// common returns the largest unit in which all times, in seconds, are at least least and below
// 10,000, or "".
func common(values map[int]float64, least float64) (seconds float64, name string) {
	for _, u := range times {
		fits := true
		for _, v := range values {
			const rounding = 1e-9 // 10 ms are 0.01 s
			n := max(v, -v) / u.seconds
			fits = fits && (n == 0 || n >= least-rounding && n < 10_000)
		}
		if fits {
			return u.seconds, u.name
		}
	}
	return 0, ""
}

// timeOf parses a time such as "45 ms", in seconds.
func timeOf(cell string) (seconds float64, name string, ok bool) {
	number, name, found := strings.Cut(cell, " ")
	at := slices.IndexFunc(times, func(u struct {
		name    string
		seconds float64
	}) bool {
		return u.name == name
	})
	v, err := strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64)
	if !found || at < 0 || err != nil {
		return 0, "", false
	}
	return v * times[at].seconds, name, true
}
