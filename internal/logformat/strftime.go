package logformat

import (
	"strings"
	"time"
)

// pattern is a strftime(3) pattern for times in the C locale, extended by Apache's fractions
// of a second.
type pattern struct {
	items []item
	width int  // maximum length, in bytes
	has   uint // bits of the contained parts of a time, below
}

// item is a conversion or literal text.
type item struct {
	letter byte // 0 for literal text; f and F are fractions of 3 and 6 digits
	lit    string
}

const (
	hasYear = 1 << iota
	hasMonth
	hasDay
	hasYearDay
	hasHour
	hasHalf // AM or PM
	hasMinute
	hasSecond
	hasFraction
	hasZone
	hasEpoch
)

// widths maps each conversion to its maximum length and its part of a time. Part 0 adds no
// information.
var widths = map[byte]struct {
	width int
	part  uint
}{
	'Y': {4, hasYear}, 'y': {2, hasYear}, 'm': {2, hasMonth}, 'b': {3, hasMonth}, 'h': {3, hasMonth}, 'B': {9, hasMonth}, 'd': {2, hasDay}, 'e': {2, hasDay}, 'j': {3, hasYearDay},
	'H': {2, hasHour}, 'k': {2, hasHour}, 'I': {2, hasHour}, 'l': {2, hasHour}, 'p': {2, hasHalf}, 'P': {2, hasHalf}, 'M': {2, hasMinute}, 'S': {2, hasSecond}, 's': {12, hasEpoch}, 'z': {5, hasZone}, ':': {6, hasZone},
	'f': {3, hasFraction}, 'F': {6, hasFraction}, 'Z': {6, 0}, 'a': {3, 0}, 'A': {9, 0}, 'u': {1, 0}, 'w': {1, 0}, 'U': {2, 0}, 'W': {2, 0}, 'V': {2, 0}, 'G': {4, 0}, 'g': {2, 0}, 'C': {2, 0},
}

// shorthands maps conversions to the conversions that they stand for.
var shorthands = map[byte]string{
	'D': "%m/%d/%y", 'x': "%m/%d/%y", 'F': "%Y-%m-%d", 'T': "%H:%M:%S", 'X': "%H:%M:%S", 'R': "%H:%M", 'r': "%I:%M:%S %p", 'c': "%a %b %e %H:%M:%S %Y", 'n': "\n", 't': "\t", '%': "",
}

// strftime parses a pattern. ok is false if it is invalid.
func strftime(text string) (p pattern, ok bool) {
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			p.add(item{lit: text[i : i+1]})
			continue
		}
		if i++; i < len(text) && (text[i] == 'E' || text[i] == 'O') { // alternative calendar; no effect in the C locale
			i++
		}
		if i >= len(text) {
			return p, false
		}
		c := text[i]
		if c == '%' {
			p.add(item{lit: "%"})
			continue
		}
		if whole, is := shorthands[c]; is {
			q, _ := strftime(whole)
			p.join(q)
			continue
		}
		if _, is := widths[c]; !is || c == 'f' || c == ':' {
			return p, false
		}
		p.add(item{letter: c})
	}
	return p, true
}

func (p *pattern) add(one item) {
	if one.letter == 0 {
		p.width += len(one.lit)
		if n := len(p.items); n > 0 && p.items[n-1].letter == 0 {
			p.items[n-1].lit += one.lit
			return
		}
	} else {
		p.width += widths[one.letter].width
		p.has |= widths[one.letter].part
	}
	p.items = append(p.items, one)
}

func (p *pattern) join(q pattern) {
	for _, one := range q.items {
		p.add(one)
	}
}

// hasMinute reports whether the pattern determines the minute.
func (p *pattern) hasMinute() bool {
	day := p.has&(hasYear|hasMonth|hasDay) == hasYear|hasMonth|hasDay || p.has&(hasYear|hasYearDay) == hasYear|hasYearDay
	return p.has&hasEpoch != 0 || day && p.has&(hasHour|hasMinute) == hasHour|hasMinute
}

// lacksZone reports whether the pattern has no time zone.
func (p *pattern) lacksZone() bool { return p.has&(hasZone|hasEpoch) == 0 }

var fullMonths = []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}

// time parses a text written with the pattern and returns microseconds since 1970.
func (p *pattern) time(text []byte) (int64, bool) {
	var year, month, day, yearDay, hour, minute, second, micro, east, epoch int64
	month, day, year = 1, 1, 1970
	half := int64(-1)
	for _, one := range p.items {
		if one.letter == 0 {
			if len(text) < len(one.lit) || string(text[:len(one.lit)]) != one.lit {
				return 0, false
			}
			text = text[len(one.lit):]
			continue
		}
		var n int64
		var ok bool
		size := widths[one.letter].width
		switch one.letter {
		case 'b', 'h', 'B':
			n, size = monthName(text, one.letter == 'B')
			ok = n > 0
		case 'p', 'P':
			if ok = len(text) >= 2 && text[1]|0x20 == 'm'; ok {
				ok = text[0]|0x20 == 'a' || text[0]|0x20 == 'p'
				half = 0
				if text[0]|0x20 == 'p' {
					half = 12
				}
			}
		case 'a', 'A', 'Z':
			size = 0
			for size < len(text) && size < widths[one.letter].width && (text[size]|0x20 >= 'a' && text[size]|0x20 <= 'z' || one.letter == 'Z' && strings.IndexByte("+-0123456789", text[size]) >= 0) {
				size++ // zones without a name are written as +03
			}
			ok = size > 0
		case 'z':
			if ok = len(text) >= 5 && (text[0] == '+' || text[0] == '-'); ok {
				h, ok1 := two(text[1:])
				m, ok2 := two(text[3:])
				if east = h*3600 + m*60; text[0] == '-' {
					east = -east
				}
				ok = ok1 && ok2 && h < 24 && m < 60
			}
		case ':': // +01:00 or Z
			if ok = len(text) > 0 && text[0] == 'Z'; ok {
				size = 1
			} else if ok = len(text) >= 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':'; ok {
				h, ok1 := two(text[1:])
				m, ok2 := two(text[4:])
				if east = h*3600 + m*60; text[0] == '-' {
					east = -east
				}
				ok = ok1 && ok2 && h < 24 && m < 60
			}
		case 's':
			size = 0
			for size < len(text) && size < 12 && text[size] >= '0' && text[size] <= '9' {
				size++
			}
			n, ok = Int(text[:size])
		default:
			n, ok = digits(text, size, one.letter == 'e' || one.letter == 'k' || one.letter == 'l')
		}
		if !ok || size > len(text) {
			return 0, false
		}
		switch one.letter {
		case 'Y':
			year = n
		case 'y': // as in POSIX: 69 to 99 are in the last century
			if year = 2000 + n; n >= 69 {
				year = 1900 + n
			}
		case 'm', 'b', 'h', 'B':
			month = n
		case 'd', 'e':
			day = n
		case 'j':
			yearDay = n
		case 'H', 'k', 'I', 'l':
			hour = n
		case 'M':
			minute = n
		case 'S':
			second = n
		case 'f':
			micro = n * 1000
		case 'F':
			micro = n
		case 's':
			epoch = n
		}
		text = text[size:]
	}
	if len(text) > 0 {
		return 0, false
	}
	if p.has&hasEpoch != 0 {
		return epoch*1e6 + micro, true
	}
	if half >= 0 {
		if hour < 1 || hour > 12 {
			return 0, false
		}
		hour = hour%12 + half
	}
	if yearDay > 0 {
		month, day = 1, yearDay
	} else if month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	if hour > 23 || minute > 59 || second > 60 || yearDay > 366 {
		return 0, false
	}
	date := time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
	if yearDay == 0 && date.Month() != time.Month(month) { // 31 February
		return 0, false
	}
	return (date.Unix()+hour*3600+minute*60+second-east)*1e6 + micro, true
}

// digits parses a number of size digits. blank reports whether the first one may be a space.
func digits(text []byte, size int, blank bool) (int64, bool) {
	if len(text) < size {
		return 0, false
	}
	text = text[:size]
	if blank && text[0] == ' ' {
		text = text[1:]
	}
	return Int(text)
}

// monthName parses the name of a month. It returns the month's number from 1, or 0, and the
// length of the name.
func monthName(text []byte, full bool) (n int64, size int) {
	if !full {
		if len(text) < 3 {
			return 0, 0
		}
		return int64(month(text[:3])), 3
	}
	for i, name := range fullMonths {
		if strings.HasPrefix(string(text[:min(len(text), 9)]), name) {
			return int64(i + 1), len(name)
		}
	}
	return 0, 0
}
