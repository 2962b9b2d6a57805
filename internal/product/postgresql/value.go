package postgresql

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// measure is a PostgreSQL unit, in bytes or microseconds.
type measure struct {
	name string
	size int64
}

// memoryUnits and timeUnits are PostgreSQL's case-sensitive units, the largest first (section
// 20.1.1).
var (
	memoryUnits = []measure{{"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"kB", 1 << 10}, {"B", 1}}
	timeUnits   = []measure{{"d", 86400e6}, {"h", 3600e6}, {"min", 60e6}, {"s", 1e6}, {"ms", 1e3}, {"us", 1}}
)

// leadingNumber parses the number at the beginning of a text and returns the rest. It works like
// strtol with base 0, then strtod (PostgreSQL 15 to 18, src/backend/utils/misc/guc.c, parse_int):
// 0100 is 64, 0x10 is 16; a point or an exponent makes the number decimal.
func leadingNumber(text string, whole bool) (n float64, rest string, ok bool) {
	bare := text
	text = strings.TrimLeft(text, blank)
	digits := strings.TrimLeft(text, "+-")
	sign := text[:len(text)-len(digits)]
	base, prefix := 10, 0
	switch {
	case len(digits) > 2 && strings.EqualFold(digits[:2], "0x") && hexadecimal(digits[2]):
		base, prefix = 16, 2
	case whole && strings.HasPrefix(digits, "0"):
		base = 8
	}
	if whole || base == 16 {
		end := prefix
		for end < len(digits) && (base == 16 && hexadecimal(digits[end]) || base != 16 && digits[end] >= '0' && int(digits[end]-'0') < base) {
			end++
		}
		v, err := strconv.ParseInt(sign+digits[prefix:end], base, 64)
		switch {
		case err == nil && (end == len(digits) || digits[end] != '.' && digits[end]|0x20 != 'e'):
			return float64(v), digits[end:], true
		case end == prefix && !strings.HasPrefix(bare, "."):
			return 0, text, false // no digit, and no decimal point
		}
	}
	end := decimal(text)
	n, err := strconv.ParseFloat(text[:end], 64)
	return n, text[end:], err == nil && end > 0
}

// blank holds the blanks of isspace.
const blank = " \t\n\v\f\r"

func hexadecimal(c byte) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// decimal returns the length of the decimal number at the beginning of a text, 0 if none exists.
func decimal(text string) (end int) {
	run := func(is func(byte) bool) (n int) {
		for end < len(text) && is(text[end]) {
			end++
			n++
		}
		return n
	}
	one := func(of string) bool {
		if end < len(text) && strings.IndexByte(of, text[end]) >= 0 {
			end++
			return true
		}
		return false
	}
	one("+-")
	if len(text) > end+2 && strings.EqualFold(text[end:end+2], "0x") {
		return 0 // strtod and the server accept hexadecimal fractions; fettle does not
	}
	digits := run(digit)
	if one(".") {
		digits += run(digit)
	}
	if digits == 0 {
		return 0
	}
	if at := end; one("eE") {
		if one("+-"); run(digit) == 0 {
			end = at
		}
	}
	return end
}

// converted converts n units to units of base; ok is false for an unknown unit. A fraction is first
// rounded to the next smaller unit, half to even (convert_to_base_unit).
func converted(n float64, unit string, all []measure, base int64) (float64, bool) {
	// As in the server, a factor is a whole number or the reciprocal of one.
	factor := func(size int64) float64 {
		if size >= base {
			return float64(size / base)
		}
		return 1 / float64(base/size)
	}
	for i, u := range all {
		if u.name != unit {
			continue
		}
		v := n * factor(u.size)
		if i+1 < len(all) {
			next := factor(all[i+1].size)
			v = math.RoundToEven(v/next) * next
		}
		return v, true
	}
	return 0, false
}

// in returns a parser for whole numbers, in units of base or with a unit. It returns bytes or
// seconds. -1 stays -1: it means off, or that the server decides.
func in(units []measure, base int64) func(string) (any, error) {
	one := float64(base)
	if units[0].name == timeUnits[0].name {
		one /= 1e6
	}
	return func(text string) (any, error) {
		n, rest, ok := leadingNumber(text, true)
		if unit := strings.Trim(rest, blank); ok && unit != "" {
			n, ok = converted(n, unit, units, base)
		}
		n = math.RoundToEven(n) + 0 // not -0
		switch {
		case !ok:
			return nil, fmt.Errorf("%q is not a PostgreSQL size or time", text)
		case n > math.MaxInt32 || n < math.MinInt32:
			return nil, fmt.Errorf("%q is above PostgreSQL's maximum", text)
		case n == -1:
			return n, nil
		}
		return n * one, nil
	}
}

// readCount parses a number without a unit and rounds it, half to even.
func readCount(text string) (any, error) {
	n, rest, ok := leadingNumber(text, true)
	n = math.RoundToEven(n) + 0 // not -0
	if !ok || strings.Trim(rest, blank) != "" || n > math.MaxInt32 || n < math.MinInt32 {
		return nil, fmt.Errorf("%q is not a whole number", text)
	}
	return n, nil
}

// readReal parses a decimal number (parse_real): 0100 is 100.
func readReal(text string) (any, error) {
	n, rest, ok := leadingNumber(text, false)
	if !ok || strings.Trim(rest, blank) != "" {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

// readTruth parses a bool; like parse_bool it accepts unique prefixes of words.
func readTruth(text string) (any, error) {
	t := strings.ToLower(strings.TrimSpace(text))
	switch {
	case t == "":
	case t == "1" || t == "on" || strings.HasPrefix("true", t) || strings.HasPrefix("yes", t):
		return true, nil
	case t == "0" || t == "of" || t == "off" || strings.HasPrefix("false", t) || strings.HasPrefix("no", t):
		return false, nil
	}
	return nil, fmt.Errorf("%q: want on or off", text)
}

func readText(text string) (any, error) { return text, nil }

// readWord parses an enum value, ignoring case.
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

// canonical returns one spelling of values that are equal for every parameter. Values that are
// equal only for some parameters stay different, such as 16384 (blocks) and 128MB, or 0100 and 64.
func canonical(value string) string {
	value = strings.TrimSpace(value)
	n, rest, ok := leadingNumber(value, true)
	unit := strings.Trim(rest, blank)
	if other, more, isReal := leadingNumber(value, false); ok && isReal && (other != n || more != rest) {
		ok = false // octal
	}
	switch {
	case !ok:
	case unit == "":
		return strconv.FormatFloat(n, 'f', -1, 64)
	default:
		for _, units := range [][]measure{memoryUnits, timeUnits} {
			if v, known := converted(n, unit, units, 1); known {
				return strconv.FormatFloat(v, 'f', -1, 64) + " " + units[len(units)-1].name
			}
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
