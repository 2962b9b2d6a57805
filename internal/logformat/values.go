package logformat

import (
	"bytes"
	"encoding/binary"
	"time"
)

// Int parses a count, which consists of digits only.
func Int(text []byte) (int64, bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range text {
		if c -= '0'; c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	return n, true
}

// maxDuration is the maximum valid duration, one year in nanoseconds. It excludes times of day
// that a wrong format reads as seconds.
const maxDuration = int64(365 * 24 * time.Hour)

// Duration parses a duration and returns microseconds, rounded half up. It returns false if
// the text is not a number, or if the duration is absent: - or negative, such as HAProxy's -1
// for a phase that was not reached.
func (f *Field) Duration(text []byte) (int64, bool) {
	if f.List {
		return f.durations(text)
	}
	us, ok := f.strictDuration(text)
	if !ok && f.Lenient {
		return f.lenientDuration(text)
	}
	return us, ok
}

// strictDuration parses digits with an optional decimal point.
func (f *Field) strictDuration(text []byte) (int64, bool) {
	whole, digits := int64(0), 0
	i := 0
	if i < len(text) && text[i] == '+' { // HAProxy's logasap: the request was in progress
		i++
	}
	for ; i < len(text); i++ {
		c := text[i] - '0'
		if c > 9 {
			break
		}
		if digits++; digits > 18 {
			return 0, false
		}
		whole = whole*10 + int64(c)
	}
	if digits == 0 || f.Unit <= 0 {
		return 0, false
	}
	if i == len(text) {
		return f.Whole(whole)
	}
	if text[i] != '.' || f.Digits || i+1 == len(text) || whole > maxDuration/f.Unit {
		return 0, false
	}
	part, scale := int64(0), int64(1)
	for i++; i < len(text); i++ {
		c := text[i] - '0'
		if c > 9 {
			return 0, false
		}
		if scale < 1e9 {
			part, scale = part*10+int64(c), scale*10
		}
	}
	// f.Unit is at most an hour in nanoseconds and part below 1e9, so seconds (1e9) fit.
	return (whole*f.Unit + part*(f.Unit/scale) + part*(f.Unit%scale)/scale + 500) / 1000, true
}

// Whole converts a whole number in the field's unit to microseconds, like Duration.
func (f *Field) Whole(n int64) (int64, bool) {
	switch f.Unit { // divisions by constants are faster
	case 1e3:
		return n, n <= maxDuration/1e3
	case 1e6:
		return n * 1e3, n <= maxDuration/1e6
	}
	if f.Unit <= 0 || n > maxDuration/f.Unit { // a number without a unit is meaningless
		return 0, false
	}
	if f.Unit%1000 == 0 {
		return n * (f.Unit / 1000), true
	}
	return (n*f.Unit + 500) / 1000, true
}

// durations adds up the numbers of a list: "0.010, 0.002 : 0.1". It ignores -, but in a Sum a
// - makes the duration absent.
func (f *Field) durations(text []byte) (int64, bool) {
	one := Field{Unit: f.Unit}
	sum, some := int64(0), false
	for len(text) > 0 {
		n := bytes.IndexAny(text, ",: ")
		word := text
		if n >= 0 {
			word, text = text[:n], text[n+1:]
		} else {
			text = nil
		}
		if len(word) == 0 || string(word) == "-" && !f.Sum {
			continue // an empty part, or an attempt without a response
		}
		d, ok := one.Duration(word)
		if !ok {
			return 0, false
		}
		sum, some = sum+d, true
	}
	return sum, some
}

// Clock caches parts of the last parsed time, because most lines have the same second, minute or
// day as the previous line.
type Clock struct {
	text  [26]byte
	micro int64
	day   [11]byte
	start int64 // start of the day, in seconds since 1970

	minute      [len("2012-03-18T04:02:")]byte
	zone        [len("+00:00")]byte
	zoneLength  int
	minuteStart int64 // in microseconds since 1970
}

// Time parses a time and returns microseconds since 1970, UTC. It returns false if the text is
// not a time. clock may be nil.
func (f *Field) Time(text []byte, clock *Clock) (int64, bool) {
	switch f.Layout {
	case CLF:
		if clock == nil {
			clock = &Clock{}
		}
		return clock.clf(text)
	case CLFMilli:
		if len(text) != 24 || text[20] != '.' {
			return 0, false
		}
		if clock == nil {
			clock = &Clock{}
		}
		whole, ok := clock.local(text[:20])
		milli, ok2 := Int(text[21:])
		return whole*1e6 + milli*1e3, ok && ok2
	case Unix:
		us, ok := f.epoch(text)
		if !ok && f.Lenient {
			return f.lenientTime(text)
		}
		return us, ok
	case DateAndTime:
		return pairTime(text)
	case Strftime:
		return f.pattern.time(text)
	}
	if clock != nil {
		return clock.iso(text)
	}
	return iso(text)
}

// iso parses 2012-03-18T04:02:25.123+00:00 like the function iso, which parses each minute once.
func (c *Clock) iso(text []byte) (int64, bool) {
	const minute, whole, maxFraction = len(c.minute), len("2012-03-18T04:02:25"), len(".123456789")
	if len(text) <= whole {
		return iso(text)
	}
	second, ok := two(text[minute:])
	end, micro, scale := whole, second*1e6, int64(1e6)
	if text[end] == '.' {
		for end++; end < len(text) && text[end]-'0' <= 9; end++ {
			scale /= 10
			micro += int64(text[end]-'0') * scale // digits after microseconds add nothing
		}
	}
	zone := text[end:]
	if !ok || second > 59 || end == whole+1 || end-whole > maxFraction || string(zone) != "Z" && (len(zone) != len(c.zone) || zone[3] != ':') {
		return iso(text)
	}
	if [len(c.minute)]byte(text) != c.minute || string(zone) != string(c.zone[:c.zoneLength]) {
		var b [len("2012-03-18T04:02:00+00:00")]byte
		n := copy(b[:], text[:minute])
		n += copy(b[n:], "00")
		start, ok := iso(b[:n+copy(b[n:], zone)])
		if !ok {
			return 0, false
		}
		c.minute, c.minuteStart = [len(c.minute)]byte(text), start
		c.zoneLength = copy(c.zone[:], zone)
	}
	return c.minuteStart + micro, true
}

// clf parses 18/Mar/2012:04:02:25 +0000.
func (c *Clock) clf(text []byte) (int64, bool) {
	if len(text) != 26 {
		return 0, false
	}
	if le := binary.LittleEndian; le.Uint64(text) == le.Uint64(c.text[:]) && le.Uint64(text[8:]) == le.Uint64(c.text[8:]) &&
		le.Uint64(text[16:]) == le.Uint64(c.text[16:]) && text[24] == c.text[24] && text[25] == c.text[25] {
		return c.micro, true
	}
	seconds, ok := c.local(text[:20])
	if !ok || text[20] != ' ' || text[21] != '+' && text[21] != '-' {
		return 0, false
	}
	h, ok1 := two(text[22:])
	m, ok2 := two(text[24:])
	if !ok1 || !ok2 || h > 23 || m > 59 {
		return 0, false
	}
	east := h*3600 + m*60
	if text[21] == '-' {
		east = -east
	}
	c.text, c.micro = [26]byte(text), (seconds-east)*1e6
	return c.micro, true
}

// local parses 18/Mar/2012:04:02:25 as UTC and returns seconds since 1970.
func (c *Clock) local(text []byte) (int64, bool) {
	if text[11] != ':' || text[14] != ':' || text[17] != ':' {
		return 0, false
	}
	if [11]byte(text) != c.day {
		day, ok1 := two(text)
		month := month(text[3:6])
		hundreds, ok2 := two(text[7:])
		years, ok3 := two(text[9:])
		if !ok1 || !ok2 || !ok3 || month == 0 || text[2] != '/' || text[6] != '/' || day < 1 || day > 31 {
			return 0, false
		}
		start := time.Date(int(hundreds*100+years), month, int(day), 0, 0, 0, 0, time.UTC)
		if start.Month() != month { // 31 February
			return 0, false
		}
		c.day, c.start = [11]byte(text), start.Unix()
	}
	h, ok1 := two(text[12:])
	m, ok2 := two(text[15:])
	s, ok3 := two(text[18:])
	return c.start + h*3600 + m*60 + s, ok1 && ok2 && ok3 && h < 24 && m < 60 && s < 61
}

func two(text []byte) (int64, bool) {
	a, b := text[0]-'0', text[1]-'0'
	return int64(a)*10 + int64(b), a <= 9 && b <= 9
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

func month(text []byte) time.Month {
	for i := 0; i < len(months); i += 3 {
		if months[i:i+3] == string(text) {
			return time.Month(i/3 + 1)
		}
	}
	return 0
}

// epoch parses a number of Unit nanoseconds since 1970, optionally with a fraction.
func (f *Field) epoch(text []byte) (int64, bool) {
	whole, part, _ := bytes.Cut(text, []byte("."))
	n, ok := Int(whole)
	if !ok || f.Unit <= 0 || n > (1<<62)/f.Unit {
		return 0, false
	}
	micro := n * f.Unit / 1000
	if len(part) > 0 {
		for _, c := range part[min(len(part), 9):] { // a fraction has only digits, no exponent
			if c < '0' || c > '9' {
				return 0, false
			}
		}
		part = part[:min(len(part), 9)]
		p, ok := Int(part)
		if !ok {
			return 0, false
		}
		scale := int64(1)
		for range part {
			scale *= 10
		}
		micro += p * (f.Unit / 1000) / scale
	}
	return micro, true
}

// iso parses 2012-03-18T04:02:25.123+00:00. T may be a space, and the point a comma (logback).
// A missing zone means UTC.
func iso(text []byte) (int64, bool) {
	if len(text) < 19 || len(text) > 40 {
		return 0, false
	}
	var b [40]byte
	t := b[:copy(b[:], text)]
	if t[10] == ' ' {
		t[10] = 'T'
	}
	if t[4] == '/' && t[7] == '/' { // Go's log package
		t[4], t[7] = '-', '-'
	}
	if len(t) > 19 && t[19] == ',' {
		t[19] = '.'
	}
	layout := "2006-01-02T15:04:05.999999999"
	switch last := t[len(t)-1]; {
	case last == 'Z':
		layout += "Z07:00"
	case len(t) > 25 && t[len(t)-3] == ':' && (t[len(t)-6] == '+' || t[len(t)-6] == '-'), len(t) == 25:
		layout += "Z07:00"
	case len(t) > 23 && (t[len(t)-5] == '+' || t[len(t)-5] == '-'):
		layout += "Z0700"
	}
	when, err := time.Parse(layout, string(t))
	if err != nil {
		return 0, false
	}
	return when.UnixMicro(), true
}
