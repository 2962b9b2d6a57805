package group

import "math/bits"

// A bucket is 1/64 of an octave: below 64 each value has its own, above it a bucket's
// middle is at most 0.8 % from what is in it.
const (
	subBits = 6
	sub     = 1 << subBits
	octaves = 64 - subBits + 1
	buckets = octaves * sub
)

// bucket is where a value belongs.
func bucket(v uint64) uint16 {
	if v < sub {
		return uint16(v)
	}
	e := bits.Len64(v) - subBits - 1
	return uint16(e<<subBits + int(v>>e))
}

// middle is the value in the middle of a bucket.
func middle(b int) float64 {
	if b < sub {
		return float64(b)
	}
	e := b>>subBits - 1
	low := uint64(sub+b&(sub-1)) << e
	return float64(low) + (float64(uint64(1)<<e)-1)/2
}

// histograms are those of a table's groups. Most groups of a log have few requests:
// theirs are lists of buckets as they came, of 4, 8, ... 1024 places, to which is written
// at the end alone; only what outgrows that gets counts, in blocks of one octave.
type histograms struct {
	pages  [][]uint16 // of lists
	used   int        // of the last page
	free   [classes + 1][]histogram
	counts []counts
}

const (
	classes  = 9 // lists of 4<<(class-1) places
	counted  = 15
	pageBits = 16
	mostList = 1 << 28 // where places end, in fours
)

// histogram is where a group's is: in the lower 4 bits the class, 0 for none, and above
// them the place of the list, in fours, or which of the counts. A list has as many
// buckets as its group has requests with a duration: nothing else says how many.
type histogram uint32

// room is how many buckets a list can have.
func (g histogram) room() uint64 {
	if g == 0 {
		return 0
	}
	return 2 << (g & 15)
}

// counts are those of a group with many requests.
type counts [octaves]*[sub]uint64

// touch reads where add will write.
func (h *histograms) touch(s *Stats, b uint16) uint64 {
	switch s.hist & 15 {
	case 0:
		return 0
	case counted:
		if block := h.counts[s.hist>>4][b>>subBits]; block != nil {
			return block[b&(sub-1)]
		}
		return 0
	}
	n := s.Timed()
	return uint64(h.list(s.hist)[min(n, s.hist.room()-1)])
}

// add adds a request's bucket to its group's histogram, before the request is added to
// the group.
func (h *histograms) add(s *Stats, b uint16) { h.addMany(s, s.Timed(), b, 1) }

// addMany adds a bucket k times to the histogram of a group, which has n.
func (h *histograms) addMany(s *Stats, n uint64, b uint16, k uint64) {
	for ; k > 0 && s.hist&15 != counted; k-- {
		if n == s.hist.room() {
			if h.grow(s); s.hist&15 == counted {
				break
			}
		}
		h.list(s.hist)[n] = b
		n++
	}
	if k > 0 {
		h.counts[s.hist>>4].add(b, k)
	}
}

func (c *counts) add(b uint16, n uint64) {
	block := c[b>>subBits]
	if block == nil {
		block = new([sub]uint64)
		c[b>>subBits] = block
	}
	block[b&(sub-1)] += n
}

// list is the room of a list.
func (h *histograms) list(g histogram) []uint16 {
	at := uint64(g>>4) << 2
	page := h.pages[at>>pageBits]
	at &= 1<<pageBits - 1
	return page[at : at+g.room()]
}

// place finds room for a list.
func (h *histograms) place(class histogram) (g histogram, ok bool) {
	if f := h.free[class]; len(f) > 0 {
		h.free[class] = f[:len(f)-1]
		return f[len(f)-1], true
	}
	size := int(class.room())
	if len(h.pages) == 0 || h.used+size > 1<<pageBits {
		if (len(h.pages)+1)<<pageBits>>2 > mostList {
			return 0, false
		}
		h.pages = append(h.pages, make([]uint16, 1<<pageBits))
		h.used = 0
	}
	at := (len(h.pages)-1)<<pageBits + h.used
	h.used += size
	return histogram(at>>2)<<4 | class, true
}

// grow moves a full list to one of twice the room, or to counts.
func (h *histograms) grow(s *Stats) {
	was := s.hist
	var old []uint16
	if was != 0 {
		old = h.list(was)
		h.free[was&15] = append(h.free[was&15], was)
	}
	if class := was&15 + 1; class <= classes {
		if g, ok := h.place(class); ok {
			copy(h.list(g), old)
			s.hist = g
			return
		}
	}
	h.count(s)
	for _, b := range old {
		h.counts[s.hist>>4].add(b, 1)
	}
}

// count gives a group counts.
func (h *histograms) count(s *Stats) {
	s.hist = histogram(len(h.counts))<<4 | counted
	h.counts = append(h.counts, counts{})
}

// each calls f with each bucket of a group that has something in it, in no order, and
// how many.
func (h *histograms) each(s *Stats, f func(b uint16, n uint64)) {
	switch s.hist & 15 {
	case 0:
		return
	case counted:
		for o, block := range h.counts[s.hist>>4] {
			if block == nil {
				continue
			}
			for j, n := range block {
				if n > 0 {
					f(uint16(o<<subBits+j), n)
				}
			}
		}
		return
	}
	for _, b := range h.list(s.hist)[:s.Timed()] {
		f(b, 1)
	}
}

// merge adds the histogram of a group of another table, before the group is added.
func (h *histograms) merge(s *Stats, o *histograms, of *Stats) {
	n := s.Timed()
	o.each(of, func(b uint16, k uint64) {
		h.addMany(s, n, b, k)
		n += k
	})
}
