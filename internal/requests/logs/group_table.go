// group holds what is known of each group of requests: how many, how long in
// sum, the squares, the extremes and a histogram, for hundreds of thousands of groups,
// so that two tables merge into exactly the one that would have come of all requests.

package logs

import (
	"math"
)

// Table is a set of groups by key. Its memory is of pages of the usual size: huge ones saved
// a tenth of the time where they lay ready, and in the guest that this was measured in they
// mostly did not, and cost more than that; why is not known.
type Table struct {
	Percentiles bool
	// Limit is the most groups; what comes beyond, or beyond mostText of their keys, is
	// added to Other.
	Limit int
	Other Stats

	slots []uint64 // tag32<<32 | index+1
	// The groups, in chunks: in records if it was made with percentiles.
	wide    bool
	stats   [][]Stats
	records [][]groupRecord
	n       int

	keys  keys
	hists histograms
	sink  uint64 // of what was read for its place alone, so that it is read
}

const (
	chunkBits = 12
	chunk     = 1 << chunkBits
)

// New makes an empty table.
func New(percentiles bool, limit int) *Table {
	t := &Table{Percentiles: percentiles, wide: percentiles, Limit: limit, slots: make([]uint64, 1024)}
	t.Other.Min = math.MaxUint64
	return t
}

// Len is how many groups there are.
func (t *Table) Len() int { return t.n }

// At is the i-th group.
func (t *Table) At(i int) *Stats {
	if t.wide {
		return &t.records[i>>chunkBits][i&(chunk-1)].Stats
	}
	return &t.stats[i>>chunkBits][i&(chunk-1)]
}

// record is the i-th group of a table with percentiles.
func (t *Table) record(i int) *groupRecord { return &t.records[i>>chunkBits][i&(chunk-1)] }

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
			if t.n >= t.Limit || t.keys.full(text) {
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

func (t *Table) insert(at uint64, k Key, text []byte) int {
	i := t.n
	switch {
	case i&(chunk-1) != 0:
	case t.wide:
		t.records = append(t.records, make([]groupRecord, chunk))
	default:
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
	if len(t.slots) >= 1<<18 {
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

// Add adds a request to the group i, or to Other for -1.
func (t *Table) Add(i int, x Sample) {
	switch {
	case i < 0:
		t.Other.add(x)
	case !t.wide:
		t.stats[i>>chunkBits][i&(chunk-1)].add(x)
	default:
		r := t.record(i)
		if t.Percentiles && x.took >= 0 {
			t.hists.add(r, x.bucket)
		}
		r.add(x)
	}
}

// Merge adds another table's groups to this one's, in batches as an Adder does. Of a table
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
				t.hists.merge(t.record(i), &o.hists, o.record(from+k))
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
		if t.Percentiles {
			sum.hists.merge(sum.record(0), &t.hists, t.record(i))
		}
		one.merge(t.At(i))
	}
	one.merge(&t.Other)
	return sum
}
