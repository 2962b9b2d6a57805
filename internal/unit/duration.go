package unit

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Year and Month are systemd's averages: 365.25 days and a twelfth of it.
const (
	Day   = 24 * time.Hour
	Week  = 7 * Day
	Month = Year / 12
	Year  = 365*Day + 6*time.Hour
)

var durationUnits = map[string]time.Duration{
	"ns": time.Nanosecond, "nsec": time.Nanosecond,
	"us": time.Microsecond, "usec": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "msec": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": Day, "day": Day, "days": Day,
	"w": Week, "week": Week, "weeks": Week,
	"M": Month, "month": Month, "months": Month,
	"y": Year, "year": Year, "years": Year,
}

// ParseDuration reads a time span as systemd.time(7) writes it: whole numbers
// with units, added up, with or without white space: "1h 30min", "500ms",
// "1min30s". "m" is minutes and "M" months. bare is the unit of a number
// without one (time.Second where systemd would take seconds); with bare 0 such
// a number is an error. Negative spans and fractions are errors.
func ParseDuration(s string, bare time.Duration) (time.Duration, error) {
	rest := strings.TrimSpace(s)
	if rest == "" {
		return 0, fmt.Errorf("duration %q: empty", s)
	}
	var sum uint64
	for rest != "" {
		number, tail := splitUnit(rest)
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("duration %q: %s", s, whyNotNumberAt(number, rest))
		}
		end := strings.IndexAny(tail, "0123456789 \t")
		if end < 0 {
			end = len(tail)
		}
		name := tail[:end]
		factor, ok := durationUnits[name]
		switch {
		case name == "" && bare > 0:
			factor = bare
		case name == "":
			return 0, fmt.Errorf("duration %q: %s has no unit (use us, ms, s, min, h, d)", s, number)
		case !ok:
			return 0, fmt.Errorf("duration %q: unknown unit %q (use us, ms, s, min, h, d)", s, name)
		}
		hi, lo := bits.Mul64(n, uint64(factor))
		if hi != 0 || lo > math.MaxInt64-sum {
			return 0, fmt.Errorf("duration %q: more than 292 years", s)
		}
		sum += lo
		rest = strings.TrimLeft(tail[end:], " \t")
	}
	return time.Duration(sum), nil
}

func whyNotNumberAt(number, rest string) string {
	if number == "" {
		return fmt.Sprintf("%q does not begin with a whole number", rest)
	}
	return whyNotNumber(number)
}

// FormatDuration prints a span that is not negative exactly, in systemd's
// units from weeks down: "1h 30min", "250ms", "0s". ParseDuration reads it
// back. A negative span is printed as Go does.
func FormatDuration(d time.Duration) string {
	if d < 0 {
		return d.String()
	}
	if d == 0 {
		return "0s"
	}
	var parts []string
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"w", Week}, {"d", Day}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second},
		{"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", time.Nanosecond}} {
		if n := d / u.size; n > 0 {
			parts = append(parts, strconv.FormatInt(int64(n), 10)+u.name)
			d %= u.size
		}
	}
	return strings.Join(parts, " ")
}
