package unit

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Year and Month are systemd's averages: 365.25 days and a twelfth of that.
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

// ParseDuration parses a time span like systemd.time(7): whole numbers with units, which are
// added up. White space is optional: "1h 30min", "500ms", "1min30s". "m" means minutes and "M"
// months. bare is the unit of numbers without a unit (time.Second for systemd's default). If
// bare is 0, such numbers are errors. Negative spans and fractions are errors.
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

// NotMeasured is printed instead of a time that was not measured.
const NotMeasured = "-"

// FormatSecondsOf formats a statistic of n times, such as a percentile, like FormatSeconds. If
// n is 0, it returns NotMeasured.
func FormatSecondsOf(n int64, s float64) string {
	if n == 0 {
		return NotMeasured
	}
	return FormatSeconds(s)
}

// FormatSecondsMeasured formats a time like FormatSeconds. For 0 it returns NotMeasured.
func FormatSecondsMeasured(s float64) string {
	if s == 0 {
		return NotMeasured
	}
	return FormatSeconds(s)
}

// FormatSeconds formats s seconds for people, with three digits and a suitable
// unit: "45 ms", "1.2 s", "13.8 min", "2.5 d".
func FormatSeconds(s float64) string {
	if s == 0 {
		return "0 s"
	}
	return SecondsLike(s)(s)
}

// SecondsLike returns a function that formats times like FormatSeconds, all in the unit that
// suits s seconds, such as the longest time of a column.
func SecondsLike(s float64) func(float64) string {
	seconds, name := 86400.0, "d"
	// At its limit, a unit would round up to the next one: 999.5 ms to 1 s with three digits.
	for _, u := range []struct {
		below, seconds float64
		name           string
	}{{999.5e-9, 1e-9, "ns"}, {999.5e-6, 1e-6, "us"}, {0.9995, 1e-3, "ms"}, {119.5, 1, "s"}, {7195, 60, "min"}, {172500, 3600, "h"}} {
		if math.Abs(s) < u.below {
			seconds, name = u.seconds, u.name
			break
		}
	}
	return func(s float64) string { return Digits(s/seconds) + " " + name }
}
