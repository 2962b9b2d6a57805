package logformat

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// quick is how the end of a step's field is found where nothing is out of the ordinary: by
// what the field is, since a call to search the line for each of ten short fields costs
// more than all else that is done with it. Where the literal is not found so, end is asked.
type quick struct {
	how   how
	first byte   // of the literal
	width int    // of byWidth
	every uint64 // first, eight times
	// The literal, if it has at most four bytes, as one number and the bits of it that count.
	word, mask uint32
	size       int // of the literal
	over       int // how much of it is skipped: all, or nothing
}

// how is the way in which the end of a field is found.
type how uint8

const (
	byEnd    how = iota // not so: end is asked
	bySearch            // the literal is searched for
	byShort             // the literal is expected soon
	byDigits            // behind the last digit, of seven at the most
	byWidth             // it is as long as every other
)

// prepare sets how the end of a step's field is found.
func (s *step) prepare(f *Field) {
	p := &s.quick
	p.over = s.skip()
	if len(s.lit) == 0 || len(s.lit) > 4 || s.braced != 0 || s.port != nil {
		return
	}
	for i, c := range s.lit {
		p.word |= uint32(c) << (8 * i)
		p.mask |= 0xff << (8 * i)
	}
	p.first, p.size, p.every = s.lit[0], len(s.lit), uint64(s.lit[0])*ones
	switch {
	case s.number && (f.List || p.first-'0' <= 9):
	case s.number:
		p.how = byDigits
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

// Of eight bytes as one number, the first the lowest.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
	zeros = 0x3030303030303030 // the digit 0
	tens  = 0x7676767676767676 // added to a byte above 9, sets its highest bit
)

// scanQuick cuts fields from the i-th step on, as long as each ends where quick has it. It
// gives the step that it has not cut, and where that begins.
func (f *Format) scanQuick(line []byte, i, at int, spans []Span) (int, int) {
	if cap(line)-len(line) < ahead {
		return i, at
	}
	// No field begins behind the line's end, so what is read is within its capacity, and
	// need not be checked for each of ten fields.
	text := unsafe.Pointer(unsafe.SliceData(line))
	for ; i < len(f.steps); i++ {
		s := &f.steps[i]
		p := &s.quick
		end, number := at, int64(0)
		switch p.how {
		case byShort:
			// The lowest of the high bits that are left is that of the first byte that is first.
			w := eightAt(text, at) ^ p.every
			if w = (w - ones) &^ w & highs; w == 0 {
				end += 8
				w = eightAt(text, end) ^ p.every
				w = (w - ones) &^ w & highs
			}
			end += bits.TrailingZeros64(w) >> 3
		case byDigits:
			d := eightAt(text, at) ^ zeros
			n := bits.TrailingZeros64((d+tens|d)&highs) &^ 7
			if n == 0 || n == 64 {
				return i, at
			}
			end, number = at+n>>3, eight(d<<(64-n))+1
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
		// Most literals are "] " or shorter, and one comparison is cheaper than a call.
		if uint32(eightAt(text, end))&p.mask != p.word || end+p.size > len(line) ||
			s.quoted && end > at && line[end-1] == '\\' {
			return i, at
		}
		spans[s.field] = Span{int32(at), int32(end), number}
		at = end + p.over
	}
	return i, at
}

// ahead is how far behind the end of a line quickly may read, in bytes: behind the longest of
// its fields that is not searched for.
const ahead = len("18/Mar/2012:04:02:25 +0000") + 8

// eightAt is the eight bytes from at on.
func eightAt(text unsafe.Pointer, at int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(text, at))[:])
}

// eight is the number that eight digits are, each a byte from 0 to 9: pairs are added, then
// fours, then both.
func eight(d uint64) int64 {
	d = d*10 + d>>8
	return int64((d&0x000000ff000000ff*(100+1000000<<32) + d>>16&0x000000ff000000ff*(1+10000<<32)) >> 32)
}

// quickIPv4 reports whether a part of a line is an address as ipv4 has it, without a branch
// for each byte. After false the address may still be valid.
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

// isZero has the highest bit of each byte that is zero.
func isZero(w uint64) uint64 { return ^(w&^highs + ^uint64(highs) | w) & highs }

// octet reports whether the digits of a line from one place to another are at most 255.
func octet(line []byte, from, to int) bool {
	switch to - from {
	case 1, 2:
		return true
	case 3:
		return line[from] < '2' || line[from] == '2' && (line[from+1] < '5' || line[from+1] == '5' && line[from+2] <= '5')
	}
	return false
}
