package logformat

import (
	"bytes"
	"strings"
)

// decimal is a number in JSON notation.
type decimal struct {
	digits []byte // without decimal point, at most 64
	point  int    // digits before the decimal point; may be negative, or more than len(digits)
}

// maxDigits is the maximum number of digits of a number. Longer numbers are not times, counts
// or durations.
const maxDigits = 64

// parseDecimal parses a non-negative number, optionally with fraction and
// exponent: 200.0, 9.2e-05, 1.7951688E+09.
func parseDecimal(text []byte) (d decimal, ok bool) {
	if len(text) > 0 && text[0] == '+' {
		text = text[1:]
	}
	if len(text) == 0 || len(text) > maxDigits {
		return d, false
	}
	i, seen := 0, false
	for ; i < len(text); i++ {
		c := text[i]
		if c == '.' && !seen {
			seen = true
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		if !seen {
			d.point++
		}
		d.digits = append(d.digits, c)
	}
	if len(d.digits) == 0 {
		return d, false
	}
	if i == len(text) {
		return d, true
	}
	if text[i]|0x20 != 'e' {
		return d, false
	}
	exponent, negative := text[i+1:], false
	if len(exponent) > 0 && (exponent[0] == '-' || exponent[0] == '+') {
		negative, exponent = exponent[0] == '-', exponent[1:]
	}
	n, ok := Int(exponent)
	if !ok || n > maxDigits {
		return d, false
	}
	if negative {
		n = -n
	}
	d.point += int(n)
	return d, true
}

func (d decimal) zero() bool { return len(bytes.Trim(d.digits, "0")) == 0 }

// integer reports whether the number has no non-zero decimals.
func (d decimal) integer() bool {
	for i, c := range d.digits {
		if i >= d.point && c != '0' {
			return false
		}
	}
	return true
}

// plain formats the number without an exponent, as Int and Field.Duration require.
func (d decimal) plain() []byte {
	out := make([]byte, 0, 2*maxDigits)
	for i := range max(d.point, 1) {
		c := byte('0')
		if i < d.point && i < len(d.digits) {
			c = d.digits[i]
		}
		out = append(out, c)
	}
	out = append(bytes.TrimLeft(out[:len(out)-1], "0"), out[len(out)-1])
	if d.integer() {
		return out
	}
	out = append(out, '.')
	for range -min(d.point, 0) {
		out = append(out, '0')
	}
	return append(out, d.digits[min(max(d.point, 0), len(d.digits)):]...)
}

// lenientInt parses a count in JSON notation: 200, 200.0, 2e2.
func lenientInt(text []byte) (int64, bool) {
	if n, ok := Int(text); ok {
		return n, true
	}
	d, ok := parseDecimal(text)
	if !ok || !d.integer() {
		return 0, false
	}
	return Int(d.plain())
}

// lenientDuration parses a number with an exponent, or a text with a unit (5ms, 1.2s, 4m3s).
// It returns microseconds.
func (f *Field) lenientDuration(text []byte) (int64, bool) {
	if f.Unit > 0 {
		if d, ok := parseDecimal(text); ok {
			return f.strictDuration(d.plain())
		}
	}
	return ownUnit(text)
}

// lenientTime parses a time since 1970 with an exponent.
func (f *Field) lenientTime(text []byte) (int64, bool) {
	d, ok := parseDecimal(text)
	if !ok {
		return 0, false
	}
	return f.epoch(d.plain())
}

// unitWords maps the unit suffixes of durations to nanoseconds.
var unitWords = map[string]int64{
	"ns": 1, "nanos": 1, "nanosecond": 1, "nanoseconds": 1, "nsec": 1,
	"us": 1e3, "µs": 1e3, "μs": 1e3, "micros": 1e3, "microsecond": 1e3, "microseconds": 1e3, "usec": 1e3,
	"ms": 1e6, "millis": 1e6, "millisecond": 1e6, "milliseconds": 1e6, "msec": 1e6,
	"s": 1e9, "sec": 1e9, "secs": 1e9, "second": 1e9, "seconds": 1e9,
	"m": 60e9, "min": 60e9, "mins": 60e9, "minute": 60e9, "minutes": 60e9,
	"h": 3600e9, "hour": 3600e9, "hours": 3600e9,
}

// ownUnit parses a duration with a unit: 5ms, 1.2 s, 4m3s, 1h2m3.5s. It returns microseconds.
func ownUnit(text []byte) (int64, bool) {
	rest := strings.TrimSpace(string(text[:min(len(text), maxDigits)]))
	if len(text) > maxDigits || rest == "" {
		return 0, false
	}
	sum, last := int64(0), int64(3600e9)+1
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if n <= 0 {
			return 0, false
		}
		number := rest[:n]
		rest = strings.TrimLeft(rest[n:], " ")
		n = strings.IndexFunc(rest, func(r rune) bool { return r == ' ' || r >= '0' && r <= '9' })
		if n < 0 {
			n = len(rest)
		}
		unit, ok := unitWords[strings.ToLower(rest[:n])]
		if !ok || unit >= last {
			return 0, false
		}
		d, ok := parseDecimal([]byte(number))
		if !ok {
			return 0, false
		}
		us, ok := (&Field{Unit: unit}).strictDuration(d.plain())
		if !ok {
			return 0, false
		}
		sum, last, rest = sum+us, unit, strings.TrimLeft(rest[n:], " ")
	}
	return sum, sum <= maxDuration/1000
}

// pairTime parses a time in two members (Layout DateAndTime). text begins with one member and
// ends with the other.
func pairTime(text []byte) (int64, bool) {
	a, _, ok := bytes.Cut(text, []byte(`"`))
	z := text[bytes.LastIndexByte(text, '"')+1:]
	if !ok || len(a) > 20 || len(z) > 20 {
		return 0, false
	}
	if len(z) == 10 && z[4] == '-' {
		a, z = z, a
	}
	whole := append(append(append(make([]byte, 0, 41), a...), 'T'), z...)
	return iso(whole)
}
