// A table holds the figures of hundreds of thousands of groups of requests: count, sum, squares,
// extremes and a histogram. A table into which others were merged has the same figures as one to
// which all their requests were added, as long as none has more groups than its limit. Beyond the
// limit, the figures of a group may be too small by up to Missing.

package logs

import (
	"math"
	"slices"
)

// Table holds groups by key. It uses memory pages of normal size. Huge pages saved a tenth of
// the time if available; in the measured guest they mostly were not, and cost more, for an
// unknown reason.
type Table struct {
	Percentiles bool
	// Limit is the maximum number of groups. If more are needed, or more than mostText of keys,
	// those with the least are moved to Other. The groups left, and later ones, may then lack
	// requests.
	Limit   int
	Other   Stats
	Missing Missing

	slots []uint64 // upper half of the tag<<32 | index+1
	// Groups in chunks: records if wide (created with percentiles), otherwise stats.
	wide    bool
	stats   [][]Stats
	records [][]groupRecord
	n       int

	keys  keys
	hists histograms
	sink  uint64 // keeps the compiler from removing reads that only load the cache
}

// Missing is the maximum number of requests, and their time, that a group of a table may lack
// because they were counted in Other. Each group with more requests or more time than this is in
// the table.
type Missing struct {
	Requests uint64 `json:"requests"`
	TotalUS  uint64 `json:"total_us"` // of the durations
}

const (
	chunkBits = 12
	chunk     = 1 << chunkBits
)

// New returns an empty table.
func New(percentiles bool, limit int) *Table {
	t := &Table{Percentiles: percentiles, wide: percentiles, Limit: limit, slots: make([]uint64, 1024)}
	t.Other.Min = math.MaxUint64
	return t
}

// Len returns the number of groups.
func (t *Table) Len() int { return t.n }

// At returns group i.
func (t *Table) At(i int) *Stats {
	if t.wide {
		return &t.records[i>>chunkBits][i&(chunk-1)].Stats
	}
	return &t.stats[i>>chunkBits][i&(chunk-1)]
}

// record returns group i of a table with percentiles.
func (t *Table) record(i int) *groupRecord { return &t.records[i>>chunkBits][i&(chunk-1)] }

// Text returns the key of group i.
func (t *Table) Text(i int) []byte { return t.keys.at(i) }

// Find returns the index of a key's group. If necessary it creates the group, with a copy of
// the text. It returns -1 if the table is full, or the text too long for any table.
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

// findOrPrune is like Find, but makes room if the table is full. Indexes of groups are then no
// longer valid.
func (t *Table) findOrPrune(k Key, text []byte) int {
	i := t.Find(k, text)
	if i >= 0 || len(text) > keyPage || t.n == 0 {
		return i
	}
	t.prune()
	return t.Find(k, text)
}

// prune makes room in a full table: it moves groups to Other that have neither more requests than
// half of the groups nor more time than three quarters of them. At least a quarter of the groups
// goes. (Misra and Gries, "Finding repeated elements", 1982, with many counters removed at once.)
func (t *Table) prune() {
	requests, times := make([]uint64, t.n), make([]uint64, t.n)
	for i := range t.n {
		requests[i], times[i] = t.At(i).Count, t.At(i).Sum
	}
	slices.Sort(requests)
	slices.Sort(times)
	most := Missing{requests[(t.n-1)/2], times[(t.n-1)*3/4]}
	left := New(t.wide, t.Limit)
	left.Percentiles, left.Other = t.Percentiles, t.Other
	left.Missing = Missing{t.Missing.Requests + most.Requests, t.Missing.TotalUS + most.TotalUS}
	for i := range t.n {
		s := t.At(i)
		if s.Count <= most.Requests && s.Sum <= most.TotalUS {
			left.Other.merge(s)
			continue
		}
		left.take(left.Find(t.keys.hash(i), t.Text(i)), t, i)
	}
	*t = *left
}

// take adds group from of another table to group to, or to Other if to is -1.
func (t *Table) take(to int, o *Table, from int) {
	s := o.At(from)
	if to < 0 {
		t.Other.merge(s)
		return
	}
	if t.Percentiles {
		t.hists.merge(t.record(to), &o.hists, o.record(from))
	}
	t.At(to).merge(s)
}

// grow adds slots. A slot lacks the first half of the hash, so grow recomputes it from the
// keys. Small tables grow by a larger factor.
func (t *Table) grow() {
	times := 4
	if len(t.slots) >= 1<<18 {
		times = 2
	}
	t.slots = make([]uint64, times*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	var found [256]Key
	for from := 0; from < t.n; from += len(found) {
		n := min(len(found), t.n-from)
		for k := range n { // overlaps the waits for memory, like adder
			found[k] = t.keys.hash(from + k)
			t.sink += t.slots[found[k].slot&mask]
		}
		for k, key := range found[:n] {
			at := key.slot & mask
			for t.slots[at] != 0 {
				at = (at + 1) & mask
			}
			t.slots[at] = key.tag>>32<<32 | uint64(from+k+1)
		}
	}
}

// Add adds a request to group i, or to Other if i is -1.
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

// Merge adds the groups of another table in batches (see adder). The result has percentiles
// only if both tables have them.
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
		full := false
		for k := range n {
			groups[k] = t.Find(found[k], o.Text(from+k))
			full = full || groups[k] < 0
		}
		for k, i := range groups[:n] {
			if full {
				i = t.findOrPrune(found[k], o.Text(from+k))
			}
			t.take(i, o, from+k)
		}
	}
	t.sink = sink
	t.Other.merge(&o.Other)
	t.Missing.Requests += o.Missing.Requests
	t.Missing.TotalUS += o.Missing.TotalUS
}

// folded reports whether requests are in Other because a limit was reached. A key that is too long
// by itself is in Other in any case.
func (t *Table) folded() bool { return t.Missing.Requests > 0 }

// Sum returns a table with one group that is the sum of all groups. Requests in Other count, but
// have no histogram.
func (t *Table) Sum() *Table {
	sum := New(t.Percentiles, 1)
	sum.Find(hashOf(nil), nil)
	one := sum.At(0)
	sum.hists.count(one)
	for i := range t.n {
		if t.Percentiles {
			sum.hists.merge(sum.record(0), &t.hists, t.record(i))
		}
		one.merge(t.At(i))
	}
	if t.Percentiles {
		sum.hists.settle(sum.record(0))
	}
	one.merge(&t.Other)
	return sum
}
