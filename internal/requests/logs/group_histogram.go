package logs

import (
	"math"
	"math/bits"
)

// A bucket is 1/64 of an octave. Each value below 64 has its own bucket; above, the middle of
// a bucket differs from its values by at most 0.8 %.
const (
	subBits = 6
	sub     = 1 << subBits
	octaves = 64 - subBits + 1
	buckets = octaves * sub
)

// bucket returns the bucket of a value.
func bucket(v uint64) uint16 {
	if v < sub {
		return uint16(v)
	}
	e := bits.Len64(v) - subBits - 1
	return uint16(e<<subBits + int(v>>e))
}

// middle returns the middle value of a bucket.
func middle(b int) float64 {
	if b < sub {
		return float64(b)
	}
	e := b>>subBits - 1
	low := uint64(sub+b&(sub-1)) << e
	return float64(low) + (float64(uint64(1)<<e)-1)/2
}

// histograms holds the histograms of a table's groups. Each group has a head, one cache line
// with its latest buckets. So adding a request writes only to that line. A full head is moved
// to the group's store. The store is first a list with room for 32, 64, ... 1024 buckets,
// later counts in blocks of one octave.
//
// If a group has n durations, the last n modulo headRoom are in the head and the others in the
// store. These numbers are not recorded anywhere else.
type histograms struct {
	pages  [][]uint16 // of lists
	used   int        // used entries of the last page
	free   [groupClasses + 1][]histogram
	counts []*counts
	// settled is true if the heads are not used (see settle).
	settled bool
}

// groupRecord is a group with a histogram. The head is next to the other figures, so both are
// in one page of memory.
type groupRecord struct {
	Stats
	head [headRoom]uint16
}

const (
	headRoom     = 32
	groupClasses = 6 // lists of headRoom<<(class-1) buckets
	counted      = 15
	pageBits     = 16
	mostList     = 1 << 28 // limit of a list's position, in units of four
)

// histogram identifies the store of a group. The lower 4 bits are the class (0: no store). The
// other bits are the position of the list in units of four, or the index of the counts.
type histogram uint32

// room returns the capacity of a list, in buckets.
func (g histogram) room() uint64 { return headRoom << (g & 15) >> 1 &^ (headRoom - 1) }

// counts are the buckets of a group with many requests, by octave.
type counts [octaves]*octave

// octave holds the counts of the buckets of an octave. Nearly all counts are small: with 64 bits
// each, the groups of a long log would take four times the memory.
type octave struct {
	low   [sub]uint16  // the lower 16 bits of each count
	upper *[sub]uint64 // the other bits; nil if all are 0
}

func (o *octave) add(j int, n uint64) {
	n += uint64(o.low[j])
	o.low[j] = uint16(n)
	if n >>= 16; n == 0 {
		return
	}
	if o.upper == nil {
		o.upper = new([sub]uint64)
	}
	o.upper[j] += n
}

func (o *octave) at(j int) uint64 {
	n := uint64(o.low[j])
	if o.upper != nil {
		n += o.upper[j] << 16
	}
	return n
}

// add adds a bucket to the histogram of a group, before the request is added to the group.
func (h *histograms) add(r *groupRecord, b uint16) {
	n := r.Timed()
	r.head[n&(headRoom-1)] = b
	if n&(headRoom-1) == headRoom-1 {
		h.empty(r, n&^(headRoom-1))
	}
}

// addMany adds a bucket k times to the histogram of a group that already has n durations.
func (h *histograms) addMany(r *groupRecord, n uint64, b uint16, k uint64) {
	for ; k > 0; k-- {
		if r.hist&15 == counted && k >= headRoom { // whole heads at once
			h.counts[r.hist>>4].add(b, k&^(headRoom-1))
			if k &= headRoom - 1; k == 0 {
				return
			}
		}
		r.head[n&(headRoom-1)] = b
		if n&(headRoom-1) == headRoom-1 {
			h.empty(r, n&^(headRoom-1))
		}
		n++
	}
}

// empty moves the full head of a group to its store. n is the number of buckets in the store.
func (h *histograms) empty(r *groupRecord, n uint64) {
	if r.hist&15 != counted {
		if n == r.hist.room() {
			h.grow(&r.Stats)
		}
		if r.hist&15 != counted {
			copy(h.list(r.hist)[n:], r.head[:])
			return
		}
	}
	c := h.counts[r.hist>>4]
	for _, b := range r.head {
		c.add(b, 1)
	}
}

func (c *counts) add(b uint16, n uint64) {
	o := c[b>>subBits]
	if o == nil {
		o = new(octave)
		c[b>>subBits] = o
	}
	o.add(int(b&(sub-1)), n)
}

// list returns the memory of a list.
func (h *histograms) list(g histogram) []uint16 {
	if g == 0 {
		return nil
	}
	at := uint64(g>>4) << 2
	page := h.pages[at>>pageBits]
	at &= 1<<pageBits - 1
	return page[at : at+g.room()]
}

// place allocates a list of a class. ok is false if there is no room.
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

// grow moves a full list to a list of twice the size, or converts it to counts.
func (h *histograms) grow(s *Stats) {
	was := s.hist
	old := h.list(was)
	if was != 0 {
		h.free[was&15] = append(h.free[was&15], was)
	}
	if class := was&15 + 1; class <= groupClasses {
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

// count makes the store of a group counts.
func (h *histograms) count(s *Stats) {
	s.hist = histogram(len(h.counts))<<4 | counted
	h.counts = append(h.counts, new(counts))
}

// settle moves the head of the only group to its counts. Its number of durations may then grow
// without their buckets; nothing may be added to the histogram any more.
func (h *histograms) settle(r *groupRecord) {
	for _, b := range r.head[:r.Timed()&(headRoom-1)] {
		h.counts[r.hist>>4].add(b, 1)
	}
	h.settled = true
}

// each calls f with each bucket of a group and the number of durations in it. The order is
// undefined, and buckets may repeat.
func (h *histograms) each(r *groupRecord, f func(b uint16, n uint64)) {
	n := r.Timed()
	if !h.settled {
		for _, b := range r.head[:n&(headRoom-1)] {
			f(b, 1)
		}
	}
	if r.hist&15 != counted {
		for _, b := range h.list(r.hist)[:n&^(headRoom-1)] {
			f(b, 1)
		}
		return
	}
	h.counts[r.hist>>4].each(f)
}

// merge adds the histogram of another table's group to a group, before the group is added.
func (h *histograms) merge(r *groupRecord, o *histograms, of *groupRecord) {
	n := r.Timed()
	o.each(of, func(b uint16, k uint64) {
		h.addMany(r, n, b, k)
		n += k
	})
}

// Quantiles returns quantiles of group i's durations, in microseconds. qs are 0 to 1,
// ascending. The results are NaN if there are no durations.
func (t *Table) Quantiles(i int, qs []float64) []float64 {
	var c counts
	if t.Percentiles {
		t.hists.each(t.record(i), c.add)
	}
	return c.quantiles(t.At(i), qs)
}

func (c *counts) quantiles(s *Stats, qs []float64) []float64 {
	out := make([]float64, len(qs))
	for k := range out {
		out[k] = math.NaN()
	}
	all, seen, k := uint64(0), uint64(0), 0
	c.each(func(_ uint16, n uint64) { all += n })
	c.each(func(b uint16, n uint64) {
		seen += n
		for k < len(qs) && float64(seen) >= qs[k]*float64(all) {
			out[k] = min(max(middle(int(b)), float64(s.Min)), float64(s.Max))
			k++
		}
	})
	return out
}
