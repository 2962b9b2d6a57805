package activity

import (
	"strconv"
	"strings"
)

// Pressure is a line of pressure stall information (Documentation/accounting/psi.rst).
type Pressure struct {
	Avg300Percent float64 // share of the last 300 s in which tasks waited
	TotalS        float64 // time in which tasks waited
}

// ParsePressure parses a file of pressure stall information into its lines "some" and "full".
// It omits an invalid line and returns an error for it.
func ParsePressure(text string) (map[string]Pressure, error) {
	out := map[string]Pressure{}
	var bad error
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 || w[0] != "some" && w[0] != "full" {
			continue
		}
		if len(w) < 5 {
			bad = errFormat
			continue
		}
		avg, ok := strings.CutPrefix(w[3], "avg300=")
		total, ok2 := strings.CutPrefix(w[4], "total=")
		percent, err := strconv.ParseFloat(avg, 64)
		us, err2 := number(total)
		if !ok || !ok2 || err != nil || err2 != nil || !(percent >= 0 && percent <= 100) {
			bad = errFormat
			continue
		}
		out[w[0]] = Pressure{percent, us / 1e6}
	}
	if len(out) == 0 {
		return nil, errFormat
	}
	return out, bad
}

// ParseKeyed parses lines of "name number", as in /proc/vmstat. bad holds the values that are
// not numbers.
func ParseKeyed(text string) (values map[string]float64, bad map[string]string) {
	values, bad = map[string]float64{}, map[string]string{}
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) == 0 {
			continue
		}
		word := strings.Join(w[1:], " ")
		if n, err := number(word); err == nil {
			values[w[0]] = n
		} else {
			bad[w[0]] = word
		}
	}
	return values, bad
}

// ParseFileNr parses /proc/sys/fs/file-nr: allocated, free and the limit
// (Documentation/admin-guide/sysctl/fs.rst). Since Linux 2.6 free is 0.
func ParseFileNr(text string) (used, limit float64, err error) {
	w := strings.Fields(text)
	if len(w) != 3 {
		return 0, 0, errFormat
	}
	n, err := numbers(w)
	if err != nil || n[1] > n[0] {
		return 0, 0, errFormat
	}
	return n[0] - n[1], n[2], nil
}
