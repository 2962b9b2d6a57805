// Package schedule says which profiles hold when: calendar expressions, the file
// that keeps them, and what they mean at a moment. It is pure.
package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Calendar is a set of moments by the wall clock, in the usual part of
// systemd.time(7), CALENDAR EVENTS: "[weekdays] [date] [time] [UTC]".
//
//	Mon-Fri 08:00        weekdays, also Mon..Fri and Mon,Wed,Fri
//	*-*-01 00:00         date: year-month-day or month-day
//	22:00, *:0/15        time: hour:minute[:second]; without one midnight
//	daily, weekly, monthly, hourly, quarterly, semiannually, yearly
//
// Each number may be *, a list (1,15), a range (1..5) or a repetition (0/15).
type Calendar struct {
	text     string
	weekdays uint64 // bit 0 is Sunday, as time.Weekday counts
	years    []span // empty: every year
	months   uint64
	days     uint64
	hours    uint64
	minutes  uint64
	seconds  uint64
	utc      bool
}

// span is a range of years.
type span struct{ from, to, step int }

// The years that a calendar knows; systemd's are the same.
const firstYear, lastYear = 1970, 2199

func (c Calendar) String() string { return c.text }

// shorthands are the words for whole expressions (systemd.time(7)).
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

// ParseCalendar reads an expression.
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
			err = fmt.Errorf("%q is not understood", w)
		}
		if err != nil {
			return c, fmt.Errorf("calendar expression %q: %w; want [weekdays] [date] [time], such as \"Mon-Fri 08:00\" or \"*-*-01 00:00\"", clip(c.text), err)
		}
	}
	if !c.possible() {
		return c, fmt.Errorf("calendar expression %q: there is no such day", clip(c.text))
	}
	return c, nil
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
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
			from, to, found = strings.Cut(item, "-") // Mon-Fri, as systemd used to write it
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
		for d := a; ; d = (d + 1) % 7 { // Sat..Mon goes over the end of the week
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

// parseSpans reads "*", "3", "1..5", "0/15", "1..30/10" and lists of them.
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
		return 0, fmt.Errorf("%q: want a number from %d to %d", text, low, high)
	}
	return int(n), nil
}

// parseSet is parseSpans as bits, for numbers below 64.
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

func ones(from, to int) uint64 { return 1<<(to+1) - 1<<from }

// possible is false for dates that no month has.
func (c Calendar) possible() bool {
	for m := 1; m <= 12; m++ {
		longest := time.Date(2000, time.Month(m+1), 0, 0, 0, 0, 0, time.UTC).Day() // 2000 has a 29th of February
		if c.months&(1<<m) != 0 && c.days&ones(1, longest) != 0 {
			return true
		}
	}
	return false
}

func (c Calendar) hasYear(y int) bool {
	if len(c.years) == 0 {
		return firstYear <= y && y <= lastYear
	}
	for _, s := range c.years {
		if s.from <= y && y <= s.to && (y-s.from)%s.step == 0 {
			return true
		}
	}
	return false
}

func (c Calendar) hasDay(d time.Time) bool {
	return c.weekdays&(1<<d.Weekday()) != 0 && c.months&(1<<d.Month()) != 0 && c.days&(1<<d.Day()) != 0 && c.hasYear(d.Year())
}

func (c Calendar) zone(t time.Time) *time.Location {
	if c.utc {
		return time.UTC
	}
	return t.Location()
}

// Last is the latest moment of the calendar that is not after t, by the clock of
// t's location; false if there is none since 1970.
func (c Calendar) Last(t time.Time) (time.Time, bool) {
	loc := c.zone(t)
	y, m, d := t.In(loc).Date()
	for day := time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC); day.Year() >= firstYear; day = day.AddDate(0, 0, -1) {
		if !c.hasDay(day) {
			continue
		}
		if at, ok := c.lastOfDay(day, t, loc); ok {
			return at.In(t.Location()), true
		}
	}
	return time.Time{}, false
}

// Next is the earliest moment of the calendar after t; false if there is none
// until 2199.
func (c Calendar) Next(t time.Time) (time.Time, bool) {
	loc := c.zone(t)
	y, m, d := t.In(loc).Date()
	for day := time.Date(y, m, d-1, 0, 0, 0, 0, time.UTC); day.Year() <= lastYear; day = day.AddDate(0, 0, 1) {
		if !c.hasDay(day) {
			continue
		}
		if at, ok := c.nextOfDay(day, t, loc); ok {
			return at.In(t.Location()), true
		}
	}
	return time.Time{}, false
}

// lastOfDay finds the latest moment of a day that is not after t. Moments of a
// day follow its wall clock, so hours and minutes can be skipped whole.
func (c Calendar) lastOfDay(day, t time.Time, loc *time.Location) (time.Time, bool) {
	for h := highest(c.hours); h >= 0; h = below(c.hours, h) {
		if instant(day, h, lowest(c.minutes), lowest(c.seconds), loc).After(t) {
			continue
		}
		for m := highest(c.minutes); m >= 0; m = below(c.minutes, m) {
			if instant(day, h, m, lowest(c.seconds), loc).After(t) {
				continue
			}
			for s := highest(c.seconds); s >= 0; s = below(c.seconds, s) {
				if at := instant(day, h, m, s, loc); !at.After(t) {
					return at, true
				}
			}
		}
	}
	return time.Time{}, false
}

func (c Calendar) nextOfDay(day, t time.Time, loc *time.Location) (time.Time, bool) {
	for h := lowest(c.hours); h >= 0; h = above(c.hours, h) {
		if !instant(day, h, highest(c.minutes), highest(c.seconds), loc).After(t) {
			continue
		}
		for m := lowest(c.minutes); m >= 0; m = above(c.minutes, m) {
			if !instant(day, h, m, highest(c.seconds), loc).After(t) {
				continue
			}
			for s := lowest(c.seconds); s >= 0; s = above(c.seconds, s) {
				if at := instant(day, h, m, s, loc); at.After(t) {
					return at, true
				}
			}
		}
	}
	return time.Time{}, false
}

func highest(set uint64) int { return bits.Len64(set) - 1 }
func lowest(set uint64) int  { return bits.TrailingZeros64(set) } // no set is empty

// below and above are the neighbours of n in a set, -1 where there is none.
func below(set uint64, n int) int { return highest(set & (1<<n - 1)) }

func above(set uint64, n int) int {
	if set >>= n + 1; set == 0 {
		return -1
	}
	return n + 1 + lowest(set)
}

// instant is the moment at which a wall clock first shows a time. A time that
// the clock skips is the moment at which it skips.
func instant(day time.Time, h, m, s int, loc *time.Location) time.Time {
	naive := time.Date(day.Year(), day.Month(), day.Day(), h, m, s, 0, time.UTC).Unix()
	// The offsets before and after a change that may be near: none are nearer to
	// each other than days.
	_, before := time.Unix(naive-48*3600, 0).In(loc).Zone()
	_, after := time.Unix(naive+48*3600, 0).In(loc).Zone()
	a, b := time.Unix(naive-int64(before), 0).In(loc), time.Unix(naive-int64(after), 0).In(loc)
	shows := func(t time.Time) bool {
		_, offset := t.Zone()
		return t.Unix()+int64(offset) == naive
	}
	switch {
	case shows(a) && (!shows(b) || a.Before(b)):
		return a
	case shows(b):
		return b
	}
	if start, _ := a.ZoneBounds(); !start.IsZero() {
		return start
	}
	return a
}
