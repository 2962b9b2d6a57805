package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	internaltext "fettle.dev/fettle/internal/text"
)

// shorthands maps words to whole expressions (systemd.time(7)).
var shorthands = map[string]string{
	"minutely":     "*:*:00",
	"hourly":       "*:00:00",
	"daily":        "00:00:00",
	"weekly":       "Mon 00:00:00",
	"monthly":      "*-*-01 00:00:00",
	"quarterly":    "*-01,04,07,10-01 00:00:00",
	"semiannually": "*-01,07-01 00:00:00",
	"yearly":       "*-01-01 00:00:00",
	"annually":     "*-01-01 00:00:00",
}

var errEmptyCalendar = errors.New(`empty calendar expression: want for example "Mon-Fri 08:00"`)

// ParseCalendar parses a calendar expression.
func ParseCalendar(text string) (Calendar, error) {
	c := Calendar{
		text: strings.Join(strings.Fields(text), " "), weekdays: ones(0, 6),
		months: ones(1, 12), days: ones(1, 31), hours: 1, minutes: 1, seconds: 1,
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return c, errEmptyCalendar
	}
	if n := len(words); n > 1 && words[n-1] == "UTC" {
		c.utc, words = true, words[:n-1]
	}
	if len(words) == 1 {
		if long, ok := shorthands[strings.ToLower(words[0])]; ok {
			words = strings.Fields(long)
		}
	}
	var haveDays, haveDate, haveTime bool
	for _, w := range words {
		var err error
		switch {
		case isLetter(w[0]) && !haveDays && !haveDate && !haveTime:
			haveDays, err = true, c.parseWeekdays(w)
		case strings.Contains(w, ":") && !haveTime:
			haveTime, err = true, c.parseTime(w)
		case strings.Contains(w, "-") && !haveDate && !haveTime:
			haveDate, err = true, c.parseDate(w)
		default:
			err = fmt.Errorf("unknown expression %q", w)
		}
		if err != nil {
			return c, fmt.Errorf("calendar expression %q: %w; want [weekdays] [date] [time], such as \"Mon-Fri 08:00\" or \"*-*-01 00:00\"", internaltext.Truncate(c.text, 60), err)
		}
	}
	if !c.possible() {
		return c, fmt.Errorf("calendar expression %q: no such day exists", internaltext.Truncate(c.text, 60))
	}
	return c, nil
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

var weekdayNames = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

func weekday(word string) (int, error) {
	for i, full := range weekdayNames {
		if strings.EqualFold(word, full) || strings.EqualFold(word, full[:3]) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%q is not a weekday", word)
}

func (c *Calendar) parseWeekdays(w string) error {
	c.weekdays = 0
	for item := range strings.SplitSeq(strings.TrimSuffix(w, ","), ",") {
		from, to, found := strings.Cut(item, "..")
		if !found {
			from, to, found = strings.Cut(item, "-") // Mon-Fri, systemd's old notation
		}
		a, err := weekday(from)
		if err != nil {
			return err
		}
		b := a
		if found {
			if b, err = weekday(to); err != nil {
				return err
			}
		}
		for d := a; ; d = (d + 1) % 7 { // Sat..Mon crosses the end of the week
			c.weekdays |= 1 << d
			if d == b {
				break
			}
		}
	}
	return nil
}

func (c *Calendar) parseDate(w string) error {
	f := strings.Split(w, "-")
	if len(f) == 2 {
		f = append([]string{"*"}, f...)
	}
	if len(f) != 3 {
		return fmt.Errorf("date %q: want year-month-day or month-day", w)
	}
	var err error
	if f[0] != "*" {
		if c.years, err = parseSpans(f[0], firstYear, lastYear); err != nil {
			return fmt.Errorf("year %w", err)
		}
	}
	if c.months, err = parseSet(f[1], 1, 12); err != nil {
		return fmt.Errorf("month %w", err)
	}
	if c.days, err = parseSet(f[2], 1, 31); err != nil {
		return fmt.Errorf("day %w", err)
	}
	return nil
}

func (c *Calendar) parseTime(w string) error {
	f := strings.Split(w, ":")
	if len(f) != 2 && len(f) != 3 {
		return fmt.Errorf("time %q: want hour:minute or hour:minute:second", w)
	}
	var err error
	if c.hours, err = parseSet(f[0], 0, 23); err != nil {
		return fmt.Errorf("hour %w", err)
	}
	if c.minutes, err = parseSet(f[1], 0, 59); err != nil {
		return fmt.Errorf("minute %w", err)
	}
	if len(f) == 3 {
		if c.seconds, err = parseSet(f[2], 0, 59); err != nil {
			return fmt.Errorf("second %w", err)
		}
	}
	return nil
}

// parseSpans parses "*", "3", "1..5", "0/15", "1..30/10" and lists of them.
func parseSpans(text string, low, high int) ([]span, error) {
	var out []span
	for item := range strings.SplitSeq(text, ",") {
		body, stepText, stepped := strings.Cut(item, "/")
		s := span{step: 1}
		from, to, ranged := strings.Cut(body, "..")
		var err error
		if body == "*" {
			s.from, s.to = low, high
		} else {
			if s.from, err = number(from, low, high); err != nil {
				return nil, err
			}
			s.to = s.from
			if ranged {
				if s.to, err = number(to, low, high); err != nil {
					return nil, err
				}
				if s.to < s.from {
					return nil, fmt.Errorf("%q ends before it begins", body)
				}
			} else if stepped {
				s.to = high
			}
		}
		if stepped {
			if s.step, err = number(stepText, 1, high); err != nil {
				return nil, err
			}
		}
		out = append(out, s)
	}
	return out, nil
}

func number(text string, low, high int) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || int(n) < low || int(n) > high {
		return 0, internaltext.Errorf("%q: want a number from %d to %d", text, low, high)
	}
	return int(n), nil
}

// parseSet is like parseSpans, but for numbers below 64, and returns a bit set.
func parseSet(text string, low, high int) (uint64, error) {
	spans, err := parseSpans(text, low, high)
	var set uint64
	for _, s := range spans {
		for n := s.from; n <= s.to; n += s.step {
			set |= 1 << n
		}
	}
	return set, err
}
