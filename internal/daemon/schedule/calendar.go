// Package schedule decides which profiles are in force at a time. It parses calendar expressions
// and the file of entries. It is pure.
package schedule

import (
	"math/bits"
	"time"
)

// Calendar is a set of moments on the wall clock, in a common subset of
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

// The range of years of a calendar, as in systemd.
const firstYear, lastYear = 1970, 2199

func (c Calendar) String() string { return c.text }

func ones(from, to int) uint64 { return 1<<(to+1) - 1<<from }

// possible reports whether the dates of the calendar exist in any month.
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

// Last returns the latest time of the calendar that is not after t, in t's location. It returns
// false if none exists since 1970.
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

// Next returns the earliest time of the calendar after t. It returns false if none exists until
// 2199.
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

// lastOfDay returns the latest calendar time of a day that is not after t. Times follow the wall
// clock of that day, which may skip hours and minutes.
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

// below and above return the neighbors of n in a set, or -1.
func below(set uint64, n int) int { return highest(set & (1<<n - 1)) }

func above(set uint64, n int) int {
	if set >>= n + 1; set == 0 {
		return -1
	}
	return n + 1 + lowest(set)
}

// instant returns the moment at which the wall clock first shows a time of day. For a time that
// the clock skips, it returns the moment of the skip.
func instant(day time.Time, h, m, s int, loc *time.Location) time.Time {
	naive := time.Date(day.Year(), day.Month(), day.Day(), h, m, s, 0, time.UTC).Unix()
	// Offsets before and after a possible clock change nearby; two changes are always days apart.
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
