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
// theirs are lists of buckets as they came, of 4, 8, ... 128 places; only what outgrows
// that gets counts, in blocks of one octave.
type histograms struct {
	all    []histogram
	pages  [][]uint16 // of lists
	used   int        // of the last page
	free   [classes][]uint32
	counts []counts
}

const (
	classes  = 6 // lists of 4<<class places
	pageBits = 16
)

// histogram is a list in class, at place list, or counts[list] where class is classes.
type histogram struct {
	list  uint32
	class uint8
	n     uint8
}

// counts are those of a group with many requests.
type counts [octaves]*[sub]uint64

// touch reads where add(i, b) will write.
func (h *histograms) touch(i int, b uint16) uint64 {
	g := &h.all[i]
	if g.class == classes {
		if block := h.counts[g.list][b>>subBits]; block != nil {
			return block[b&(sub-1)]
		}
		return 0
	}
	if len(h.pages) == 0 {
		return 0
	}
	return uint64(h.pages[g.list>>pageBits][g.list&(1<<pageBits-1)])
}

func (h *histograms) add(i int, b uint16) {
	g := &h.all[i]
	if g.class == classes {
		h.counts[g.list].add(b, 1)
		return
	}
	if g.n == 0 && g.list == 0 {
		g.list = h.place(0)
	} else if int(g.n) == 4<<g.class {
		if h.grow(g); g.class == classes {
			h.counts[g.list].add(b, 1)
			return
		}
	}
	h.pages[g.list>>pageBits][g.list&(1<<pageBits-1)+uint32(g.n)] = b
	g.n++
}

func (c *counts) add(b uint16, n uint64) {
	block := c[b>>subBits]
	if block == nil {
		block = new([sub]uint64)
		c[b>>subBits] = block
	}
	block[b&(sub-1)] += n
}

// place finds room for a list; 0 is no place, so that it can mean none.
func (h *histograms) place(class uint8) uint32 {
	if f := h.free[class]; len(f) > 0 {
		h.free[class] = f[:len(f)-1]
		return f[len(f)-1]
	}
	size := 4 << class
	if len(h.pages) == 0 || h.used+size > 1<<pageBits {
		h.pages = append(h.pages, make([]uint16, 1<<pageBits))
		h.used = 0
		if len(h.pages) == 1 {
			h.used = 4
		}
	}
	at := uint32((len(h.pages)-1)<<pageBits + h.used)
	h.used += size
	return at
}

// grow moves a full list to one of twice the room, or to counts.
func (h *histograms) grow(g *histogram) {
	old := h.list(g)
	was := *g
	if g.class++; g.class == classes {
		g.list = uint32(len(h.counts))
		h.counts = append(h.counts, counts{})
		c := &h.counts[g.list]
		for _, b := range old {
			c.add(b, 1)
		}
	} else {
		g.list = h.place(g.class)
		copy(h.pages[g.list>>pageBits][g.list&(1<<pageBits-1):], old)
	}
	h.free[was.class] = append(h.free[was.class], was.list)
}

func (h *histograms) list(g *histogram) []uint16 {
	at := g.list & (1<<pageBits - 1)
	return h.pages[g.list>>pageBits][at : at+uint32(g.n)]
}

// each calls f with each bucket that has something in it, in no order, and how many.
func (h *histograms) each(i int, f func(b uint16, n uint64)) {
	g := &h.all[i]
	if g.class < classes {
		if g.n > 0 {
			for _, b := range h.list(g) {
				f(b, 1)
			}
		}
		return
	}
	for o, block := range h.counts[g.list] {
		if block == nil {
			continue
		}
		for j, n := range block {
			if n > 0 {
				f(uint16(o<<subBits+j), n)
			}
		}
	}
}

// addMany is add, n times.
func (h *histograms) addMany(i int, b uint16, n uint64) {
	for ; n > 0 && h.all[i].class < classes; n-- {
		h.add(i, b)
	}
	if n > 0 {
		h.counts[h.all[i].list].add(b, n)
	}
}
