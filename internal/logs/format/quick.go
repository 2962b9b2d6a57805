package format

import (
	"encoding/binary"
	"math/bits"
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
	if len(s.lit) == 0 || len(s.lit) > 4 || s.braced != 0 {
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

// short is where the literal's first byte is, if within sixteen bytes of at, or -1.
func (p *quick) short(wide []byte, at int) int {
	if at+16 > len(wide) {
		return -1
	}
	// The lowest of the high bits that are left is that of the first byte that is first.
	w := binary.LittleEndian.Uint64(wide[at:]) ^ p.every
	if w = (w - ones) &^ w & highs; w != 0 {
		return at + bits.TrailingZeros64(w)>>3
	}
	w = binary.LittleEndian.Uint64(wide[at+8:]) ^ p.every
	if w = (w - ones) &^ w & highs; w != 0 {
		return at + 8 + bits.TrailingZeros64(w)>>3
	}
	return -1
}

// eight is the number that eight digits are, each a byte from 0 to 9: pairs are added, then
// fours, then both.
func eight(d uint64) int64 {
	d = d*10 + d>>8
	return int64((d&0x000000ff000000ff*(100+1000000<<32) + d>>16&0x000000ff000000ff*(1+10000<<32)) >> 32)
}
