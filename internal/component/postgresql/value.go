package postgresql

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// memoryUnits are those of PostgreSQL in bytes, timeUnits in seconds (case
// counts; section 20.1.1).
var (
	memoryUnits = map[string]float64{"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
	timeUnits   = map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400}
)

// quantity takes a number and the unit behind it apart.
func quantity(text string) (n float64, unit string, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" || !digit(text[len(text)-1]) && !letter(text[len(text)-1]) && text[len(text)-1] != '.' {
		return 0, "", false
	}
	if hex := strings.TrimPrefix(strings.ToLower(text), "0x"); len(hex) < len(text) {
		if v, err := strconv.ParseUint(hex, 16, 63); err == nil {
			return float64(v), "", true
		}
	}
	end := strings.LastIndexFunc(text, func(r rune) bool { return r >= '0' && r <= '9' || r == '.' }) + 1
	n, err := strconv.ParseFloat(strings.TrimSpace(text[:end]), 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, "", false
	}
	return n, strings.TrimSpace(text[end:]), true
}

// in reads a number with one of the units; without one it is in plain ones. -1
// stays -1: it means off, or that the server decides.
func in(units map[string]float64, plain float64) func(string) (any, error) {
	return func(text string) (any, error) {
		n, unit, ok := quantity(text)
		if ok && unit == "" {
			if n == -1 {
				return n, nil
			}
			return n * plain, nil
		}
		f, known := units[unit]
		if !ok || !known {
			return nil, fmt.Errorf("%q is not a size or a time as PostgreSQL writes one", text)
		}
		return n * f, nil
	}
}

func readNumber(text string) (any, error) {
	n, unit, ok := quantity(text)
	if !ok || unit != "" {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

// readTruth takes what parse_bool does: prefixes too, as long as they are
// unique.
func readTruth(text string) (any, error) {
	t := strings.ToLower(strings.TrimSpace(text))
	switch {
	case t == "":
	case t == "1" || t == "on" || strings.HasPrefix("true", t) || strings.HasPrefix("yes", t):
		return true, nil
	case t == "0" || t == "of" || t == "off" || strings.HasPrefix("false", t) || strings.HasPrefix("no", t):
		return false, nil
	}
	return nil, fmt.Errorf("%q is neither on nor off", text)
}

func readText(text string) (any, error) { return text, nil }

// readWord reads an enum: its words have no case.
func readWord(text string) (any, error) { return strings.ToLower(strings.TrimSpace(text)), nil }

func readList(text string) (any, error) {
	list := []string{}
	for _, e := range strings.Split(text, ",") {
		if e = strings.Trim(strings.TrimSpace(e), `"`); e != "" {
			list = append(list, e)
		}
	}
	return list, nil
}

// canonical is one spelling for values that any parameter takes for the same.
// What is the same for one of them only, 16384 blocks and 128MB, stays apart.
func canonical(value string) string {
	value = strings.TrimSpace(value)
	if n, unit, ok := quantity(value); ok {
		if f, known := memoryUnits[unit]; known {
			return strconv.FormatFloat(n*f, 'g', -1, 64) + " bytes"
		}
		if f, known := timeUnits[unit]; known {
			return strconv.FormatFloat(math.Round(n*f*1e6), 'g', -1, 64) + " us"
		}
		if unit == "" {
			return strconv.FormatFloat(n, 'g', -1, 64)
		}
	}
	switch strings.ToLower(value) {
	case "on", "true", "yes":
		return "on"
	case "off", "false", "no":
		return "off"
	}
	return value
}
