package group

// Adder adds requests to a table. A table of many groups lies in memory, and a processor
// waits for memory longer than it works: it waits for many groups at a time when their
// places are looked up before any is added to.
type Adder struct {
	table *Table

	n       int
	keys    [batch]Key
	texts   [batch][]byte
	samples [batch]Sample
	groups  [batch]int32
	sink    uint64 // of what was read for its place alone, so that it is read
}

const (
	// batch is how many requests are added together: all that is known of them stays in a
	// core's first cache.
	batch = 128
	// inCache is how many groups there may be that a core's own caches still have.
	inCache = 4096
)

// NewAdder adds to a table, which nobody else may change until Flush.
func NewAdder(t *Table) *Adder { return &Adder{table: t} }

// Add adds a request to its group. The key's text has to stay until Flush.
func (a *Adder) Add(k Key, text []byte, x Sample) {
	if a.table.n <= inCache {
		a.table.Add(a.table.Find(k, text), x)
		return
	}
	i := a.n
	a.keys[i], a.texts[i], a.samples[i] = k, text, x
	if a.n++; a.n == batch {
		a.Flush()
	}
}

// Flush adds what was not added yet.
func (a *Adder) Flush() {
	t, keys, groups := a.table, a.keys[:a.n], a.groups[:a.n]
	a.n = 0
	mask, sink := uint64(len(t.slots)-1), uint64(0)
	for i := range keys {
		groups[i] = int32(uint32(t.slots[keys[i].slot&mask]))
	}
	// Of nearly all keys the first slot is the right one.
	for _, g := range groups {
		if g == 0 {
			continue
		}
		if sink += t.At(int(g - 1)).Count; t.Percentiles {
			sink += uint64(t.hists.heads[(g-1)>>chunkBits][(g-1)&(chunk-1)][0])
		}
	}
	for i := range keys {
		groups[i] = int32(t.Find(keys[i], a.texts[i]))
	}
	if t.Percentiles {
		for _, g := range groups {
			if g >= 0 {
				sink += t.hists.touch(int(g), t.At(int(g)))
			}
		}
	}
	for i, g := range groups {
		t.Add(int(g), a.samples[i])
	}
	a.sink += sink
}
