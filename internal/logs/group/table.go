// Package group holds what is known of each group of requests: how many, how long in
// sum, the squares, the extremes and a histogram, for hundreds of thousands of groups,
// so that two tables merge into exactly the one that would have come of all requests.
package group

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/bits"
)

// Stats are of one group. Durations are in microseconds. They are as long as a line of
// the cache: of hundreds of thousands of groups each request waits for one line.
type Stats struct {
	tag     uint32 // the last quarter of the key's hash
	hist    histogram
	Count   uint64 // requests
	Sum     uint64
	squares uint64 // the lower half of the sum of squares
	Min     uint64
	Max     uint64
	upper   uint64 // the upper half of it
	Errors  uint32 // answers of 500 and above
	Untimed uint32 // requests without a duration
}

// Timed is how many requests had a duration.
func (s *Stats) Timed() uint64 { return s.Count - uint64(s.Untimed) }

// Mean is their mean, in microseconds.
func (s *Stats) Mean() float64 {
	if s.Timed() == 0 {
		return math.NaN()
	}
	return float64(s.Sum) / float64(s.Timed())
}

// Deviation is the standard deviation of the requests' durations, in microseconds: of
// all of them, not of a sample (source 003's STD.DEV).
func (s *Stats) Deviation() float64 {
	n := s.Timed()
	if n == 0 {
		return math.NaN()
	}
	// n*squares - sum^2 in 192 bits would be exact; a double of the mean of squares
	// loses what cancels, so the difference is made in integers first.
	hi, lo := bits.Mul64(s.Sum, s.Sum)
	ahi, alo := bits.Mul64(s.squares, n)
	ahi += s.upper * n
	dlo, borrow := bits.Sub64(alo, lo, 0)
	dhi, _ := bits.Sub64(ahi, hi, borrow)
	return math.Sqrt(float64(dhi)*0x1p64+float64(dlo)) / float64(n)
}

func (s *Stats) add(duration int64, failed bool) {
	s.Count++
	if failed {
		s.Errors++
	}
	if duration < 0 {
		s.Untimed++
		return
	}
	d := uint64(duration)
	s.Sum += d
	hi, lo := bits.Mul64(d, d)
	var carry uint64
	s.squares, carry = bits.Add64(s.squares, lo, 0)
	s.upper += hi + carry
	if d < s.Min {
		s.Min = d
	}
	if d > s.Max {
		s.Max = d
	}
}

func (s *Stats) merge(o *Stats) {
	s.Count += o.Count
	s.Sum += o.Sum
	s.Errors += o.Errors
	s.Untimed += o.Untimed
	var carry uint64
	s.squares, carry = bits.Add64(s.squares, o.squares, 0)
	s.upper += o.upper + carry
	s.Min, s.Max = min(s.Min, o.Min), max(s.Max, o.Max)
}

// Table is a set of groups by key.
type Table struct {
	Percentiles bool
	// Limit is the most groups; what comes beyond is added to Other.
	Limit int
	Other Stats

	slots []uint64 // tag32<<32 | index+1
	stats [][]Stats
	n     int
	keys  keys
	hists histograms
	sink  uint64 // of what was read for its place alone, so that it is read
}

// inCache is how many groups there may be that a core's own cache still has.
const inCache = 4096

const (
	chunkBits = 12
	chunk     = 1 << chunkBits
)

// Key is a key's hash. 128 bits make a collision of even a thousand million keys less
// likely than a fault of the memory they lie in (2^-69), so texts are not compared.
type Key struct{ slot, tag uint64 }

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// Hash is a text's.
func Hash(text []byte) Key {
	return Key{maphash.Bytes(seeds[0], text), maphash.Bytes(seeds[1], text)}
}

// Then is the key of a part and another behind it.
func (k Key) Then(next Key) Key {
	// The multipliers are odd, so that no part is lost, and differ, so that the order
	// counts.
	return Key{bits.RotateLeft64(k.slot, 23)*0x9e3779b97f4a7c15 ^ next.slot, bits.RotateLeft64(k.tag, 29)*0xc2b2ae3d27d4eb4f ^ next.tag}
}

// New makes an empty table.
func New(percentiles bool, limit int) *Table {
	t := &Table{Percentiles: percentiles, Limit: limit, slots: make([]uint64, 1024)}
	t.Other.Min = math.MaxUint64
	return t
}

// Len is how many groups there are.
func (t *Table) Len() int { return t.n }

// At is the i-th group.
func (t *Table) At(i int) *Stats { return &t.stats[i>>chunkBits][i&(chunk-1)] }

// Text is the i-th group's key.
func (t *Table) Text(i int) []byte { return t.keys.at(i) }

// Find finds a key's group, and makes one of a copy of its text where there is none. -1
// is what belongs to Other.
func (t *Table) Find(k Key, text []byte) int {
	mask := uint64(len(t.slots) - 1)
	tag := k.tag >> 32
	for at := k.slot & mask; ; at = (at + 1) & mask {
		s := t.slots[at]
		if s == 0 {
			if t.n >= t.Limit {
				return -1
			}
			return t.insert(at, k, text)
		}
		if s>>32 == tag {
			if i := int(uint32(s)) - 1; t.At(i).tag == uint32(k.tag) {
				return i
			}
		}
	}
}

// Batch is requests that are added together. A table of many groups lies in memory, and
// a processor waits for memory longer than it works: it waits for many groups at a time
// when their places are looked up before any is added to.
type Batch struct {
	Keys   []Key
	Texts  [][]byte // of the keys, valid until AddAll returns
	Took   []int64  // microseconds; below 0 is none
	Failed []bool

	groups []int32
	sink   uint64
}

// AddAll adds a batch's requests.
func (t *Table) AddAll(b *Batch) {
	if cap(b.groups) < len(b.Keys) {
		b.groups = make([]int32, len(b.Keys))
	}
	groups := b.groups[:len(b.Keys)]
	if t.n > inCache {
		mask, sink := uint64(len(t.slots)-1), uint64(0)
		for i := range b.Keys {
			sink += t.slots[b.Keys[i].slot&mask]
		}
		// Of nearly all keys the first slot is the right one.
		for i := range b.Keys {
			if n := uint32(t.slots[b.Keys[i].slot&mask]); n != 0 {
				sink += t.At(int(n - 1)).Count
			}
		}
		b.sink += sink
	}
	for i := range b.Keys {
		groups[i] = int32(t.Find(b.Keys[i], b.Texts[i]))
	}
	if t.Percentiles {
		for i, g := range groups {
			if g >= 0 {
				b.sink += t.hists.touch(t.At(int(g)), bucket(uint64(max(b.Took[i], 0))))
			}
		}
	}
	for i, g := range groups {
		t.Add(int(g), b.Took[i], b.Failed[i])
	}
}

func (t *Table) insert(at uint64, k Key, text []byte) int {
	i := t.n
	if i&(chunk-1) == 0 {
		t.stats = append(t.stats, make([]Stats, chunk))
	}
	t.n++
	s := t.At(i)
	s.tag, s.Min = uint32(k.tag), math.MaxUint64
	t.keys.add(text)
	t.slots[at] = k.tag>>32<<32 | uint64(i+1)
	if t.n > len(t.slots)*3/5 {
		t.grow()
	}
	return i
}

// grow makes more slots. They do not have the first half of the hash, which is made
// again from the keys; so a small table grows by more, and seldom.
func (t *Table) grow() {
	times := 4
	if len(t.slots) >= 1<<20 {
		times = 2
	}
	t.slots = make([]uint64, times*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for i := range t.n {
		k := t.keys.hash(i)
		at := k.slot & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = k.tag>>32<<32 | uint64(i+1)
	}
}

// Add adds a request to the group i, or to Other for -1. A duration below 0 is none.
func (t *Table) Add(i int, duration int64, failed bool) {
	if i < 0 {
		t.Other.add(duration, failed)
		return
	}
	s := t.At(i)
	if t.Percentiles && duration >= 0 {
		t.hists.add(s, bucket(uint64(duration)))
	}
	s.add(duration, failed)
}

// Merge adds another table's groups to this one's, in batches as AddAll does. Of a table
// without percentiles and one with them there are none.
func (t *Table) Merge(o *Table) {
	t.Percentiles = t.Percentiles && o.Percentiles
	var found [256]Key
	var groups [256]int
	sink := uint64(0)
	for from := 0; from < o.n; from += len(found) {
		n := min(len(found), o.n-from)
		mask := uint64(len(t.slots) - 1)
		for k := range n {
			found[k] = o.keys.hash(from + k)
			sink += t.slots[found[k].slot&mask]
		}
		for k := range n {
			groups[k] = t.Find(found[k], o.Text(from+k))
		}
		for k, i := range groups[:n] {
			of := o.At(from + k)
			if i < 0 {
				t.Other.merge(of)
				continue
			}
			if t.Percentiles {
				t.hists.merge(t.At(i), &o.hists, of)
			}
			t.At(i).merge(of)
		}
	}
	t.sink = sink
	t.Other.merge(&o.Other)
}

// Sum is a table of one group, which is all groups together.
func (t *Table) Sum() *Table {
	sum := New(t.Percentiles, 1)
	sum.Find(Hash(nil), nil)
	one := sum.At(0)
	sum.hists.count(one) // no list: the requests of Other are in no histogram
	for i := range t.n {
		sum.hists.merge(one, &t.hists, t.At(i))
		one.merge(t.At(i))
	}
	one.merge(&t.Other)
	return sum
}

// Separator stands between the parts of a key of several.
const Separator = 0

// HashParts is the key of a text whose parts have Separator between them.
func HashParts(text []byte) Key {
	part, rest, more := bytes.Cut(text, []byte{Separator})
	k := Hash(part)
	for more {
		part, rest, more = bytes.Cut(rest, []byte{Separator})
		k = k.Then(Hash(part))
	}
	return k
}

// Quantiles are the durations, in microseconds, at or below which so many (0 to 1) of a
// group's requests are; NaN without any. qs have to be in ascending order.
func (t *Table) Quantiles(i int, qs []float64) []float64 {
	var c counts
	if t.Percentiles {
		t.hists.each(t.At(i), c.add)
	}
	return c.quantiles(t.At(i), qs)
}

func (c *counts) quantiles(s *Stats, qs []float64) []float64 {
	out := make([]float64, len(qs))
	for k := range out {
		out[k] = math.NaN()
	}
	all, seen, k := uint64(0), uint64(0), 0
	for _, block := range c {
		if block != nil {
			for _, n := range block {
				all += n
			}
		}
	}
	for o, block := range c {
		if block == nil {
			continue
		}
		for j, n := range block {
			if n == 0 {
				continue
			}
			seen += n
			for k < len(qs) && float64(seen) >= qs[k]*float64(all) {
				out[k] = min(max(middle(o<<subBits+j), float64(s.Min)), float64(s.Max))
				k++
			}
		}
	}
	return out
}

// keys are the texts of a table's keys, one behind the other.
type keys struct {
	pages [][]byte
	where []uint64 // page<<40 | begin<<20 | length
}

const keyPage = 1 << 18

func (k *keys) add(text []byte) {
	if len(text) > keyPage {
		text = text[:keyPage]
	}
	last := len(k.pages) - 1
	if last < 0 || len(k.pages[last])+len(text) > keyPage {
		k.pages = append(k.pages, make([]byte, 0, keyPage))
		last++
	}
	begin := len(k.pages[last])
	k.pages[last] = append(k.pages[last], text...)
	k.where = append(k.where, uint64(last)<<40|uint64(begin)<<20|uint64(len(text)))
}

func (k *keys) at(i int) []byte {
	w := k.where[i]
	page := k.pages[w>>40]
	begin := w >> 20 & (1<<20 - 1)
	return page[begin : begin+w&(1<<20-1) : begin+w&(1<<20-1)]
}

func (k *keys) hash(i int) Key { return HashParts(k.at(i)) }
