package logformat

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// quick is a fast way to find the end of a step's field, depending on the field's kind.
// Calling a search function for each of ten short fields would take longer than everything
// else. If the literal is not at that position, end is used.
type quick struct {
	how   how
	first byte   // first byte of the literal
	width int    // for byWidth
	every uint64 // first, repeated in each of eight bytes
	value bool   // for byDigits: the number is used, so compute it
	lit   shortLiteral
	over  int          // how much of the literal to skip: all of it or nothing
	port  shortLiteral // after the port, for byPort
}

// shortLiteral is a literal of at most four bytes as a number, with its bit mask.
type shortLiteral struct {
	word, mask uint32
	size       int // in bytes
}

func newShortLiteral(lit []byte) (l shortLiteral) {
	for i, c := range lit {
		l.word |= uint32(c) << (8 * i)
		l.mask |= 0xff << (8 * i)
	}
	l.size = len(lit)
	return l
}

// is reports whether the literal is at position at. One comparison is cheaper than a call.
func (l *shortLiteral) is(text unsafe.Pointer, at int) bool {
	return uint32(eightAt(text, at))&l.mask == l.word
}

// maxShortLiteral is the maximum length of a shortLiteral. Most literals are as short as "] ".
const maxShortLiteral = 4

// how is the method of finding the end of a field.
type how uint8

const (
	byEnd    how = iota // call end
	bySearch            // search for the literal
	byShort             // check the next bytes for the literal
	byDigits            // after up to seven digits
	byWidth             // at a fixed width
	byPort              // an address without colons, followed by a port
	byBrace             // an omitted value: only checks that no brace follows
)

// prepare selects the method for a step's field.
func (s *step) prepare(f *Field) {
	p, lit := &s.quick, s.lit
	p.over = s.skip()
	if s.braced != 0 && !s.keep {
		lit = s.omittedLit()
		p.how, p.over = byBrace, len(lit)
	}
	if len(s.lit) == 0 || len(s.lit) > maxShortLiteral || len(s.port) > maxShortLiteral {
		p.how = byEnd
		return
	}
	p.lit, p.first, p.every = newShortLiteral(lit), s.lit[0], uint64(s.lit[0])*ones
	switch {
	case s.braced != 0:
	case s.port != nil && f.Kind == Address && len(s.port) > 0 && s.port[0] == ' ':
		p.how, p.port = byPort, newShortLiteral(s.port)
	case s.port != nil:
	case s.number && (f.List || p.first-'0' <= 9):
	case s.number:
		p.how, p.value = byDigits, f.Name == FieldDuration || f.Name == FieldStatus
	case f.Kind == Time && f.Layout == CLF:
		p.how, p.width = byWidth, len("18/Mar/2012:04:02:25 +0000")
	case f.Kind == Time && f.Layout == CLFMilli:
		p.how, p.width = byWidth, len("18/Mar/2012:04:02:25.123")
	case f.Kind == Request || f.Kind == URL:
		p.how = bySearch
	default:
		p.how = byShort
	}
}

// Constants for eight bytes in one little-endian number.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
	zeros = 0x3030303030303030 // the digit 0
	tens  = 0x7676767676767676 // added to a byte, sets its high bit if the byte exceeds 9
)

// scanQuick splits fields from step i on as long as the fast way works. It returns the first
// step that it did not split, and that step's position.
func (f *Format) scanQuick(line []byte, i, at int, spans []Span) (int, int) {
	if cap(line)-len(line) < ahead {
		return i, at
	}
	// Fields begin before the line's end, so all reads are within the line's capacity and need
	// no bounds checks.
	text := unsafe.Pointer(unsafe.SliceData(line))
	for ; i < len(f.steps); i++ {
		s := &f.steps[i]
		p := &s.quick
		end, number := at, int64(0)
		switch p.how {
		case byShort:
			end = p.firstIn16(text, at)
		case byPort:
			end = p.firstIn16(text, at)
			if _, n := digitsAt(text, end+1); !p.port.is(text, end+1+n>>3) {
				return i, at
			}
		case byBrace:
			if line[:at+1][at] == s.braced {
				return i, at
			}
		case byDigits:
			d, n := digitsAt(text, at)
			if n == 0 || n == 64 {
				return i, at
			}
			if end = at + n>>3; p.value {
				number = eight(d<<(64-n)) + 1
			}
		case byWidth:
			end += p.width
		case bySearch:
			n := bytes.IndexByte(line[at:], p.first)
			if n < 0 {
				return i, at
			}
			end += n
		default:
			return i, at
		}
		if !p.lit.is(text, end) || end+p.lit.size > len(line) ||
			s.quoted && end > at && line[end-1] == '\\' {
			return i, at
		}
		spans[s.field] = Span{int32(at), int32(end), number}
		at = end + p.over
	}
	return i, at
}

// ahead is the number of bytes that scanQuick may read beyond the end of a line. It is the
// length of the longest field that is not searched for.
const ahead = len("18/Mar/2012:04:02:25 +0000") + 8

// firstIn16 returns the position of the byte first among the next 16 bytes. If the byte is not
// there, the result is any position in these bytes or after them.
func (p *quick) firstIn16(text unsafe.Pointer, at int) int {
	// The lowest remaining high bit marks the first byte equal to first.
	w := eightAt(text, at) ^ p.every
	if w = (w - ones) &^ w & highs; w == 0 {
		at += 8
		w = eightAt(text, at) ^ p.every
		w = (w - ones) &^ w & highs
	}
	return at + bits.TrailingZeros64(w)>>3
}

// digitsAt returns eight bytes, in which digits are their values, and eight times the number of
// digits before the first other byte.
func digitsAt(text unsafe.Pointer, at int) (d uint64, n int) {
	d = eightAt(text, at) ^ zeros
	return d, bits.TrailingZeros64((d+tens|d)&highs) &^ 7
}

// eightAt returns eight bytes from position at on.
func eightAt(text unsafe.Pointer, at int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(text, at))[:])
}

// eight returns the number of eight digits, given as bytes from 0 to 9. It combines pairs,
// then fours, then halves.
func eight(d uint64) int64 {
	d = d*10 + d>>8
	return int64((d&0x000000ff000000ff*(100+1000000<<32) + d>>16&0x000000ff000000ff*(1+10000<<32)) >> 32)
}

// quickIPv4 reports whether part of a line is certainly an IPv4 address, without a branch per
// byte.
func quickIPv4(line []byte, from, to int) bool {
	n := to - from
	if n < len("0.0.0.0") || n > len("255.255.255.255") || cap(line)-from < 16 {
		return false
	}
	text := unsafe.Pointer(unsafe.SliceData(line))
	a, b := eightAt(text, from)^zeros, eightAt(text, from+8)^zeros
	if n < 8 {
		a, b = a&(1<<(8*n)-1), 0
	} else {
		b &= 1<<(8*(n-8)) - 1
	}
	const point = ('.' ^ '0') * ones
	pa, pb := isZero(a^point), isZero(b^point)
	if (a&^highs+tens|a)&highs != pa || (b&^highs+tens|b)&highs != pb {
		return false
	}
	points := uint(pa>>7*0x0102040810204080>>56 | pb>>7*0x0102040810204080>>56<<8)
	at := from
	for range 3 {
		end := from + bits.TrailingZeros(points)
		points &= points - 1
		if !octet(line, at, end) {
			return false
		}
		at = end + 1
	}
	return points == 0 && octet(line, at, to)
}

// isZero sets the high bit of each byte that is zero.
func isZero(w uint64) uint64 { return ^(w&^highs + ^uint64(highs) | w) & highs }

func octet(line []byte, from, to int) bool {
	switch to - from {
	case 1, 2:
		return true
	case 3:
		return line[from] < '2' || line[from] == '2' && (line[from+1] < '5' || line[from+1] == '5' && line[from+2] <= '5')
	}
	return false
}
