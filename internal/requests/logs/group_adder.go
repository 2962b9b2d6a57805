package logs

// adder adds requests to a table in batches. A table with many groups exceeds the caches, so
// waiting for memory takes most of the time. Looking up many groups before adding to any
// overlaps the waits.
type adder struct {
	table *Table

	n       int
	keys    [batch]Key
	texts   [batch][]byte
	samples [batch]Sample
	groups  [batch]int32
	sink    uint64 // keeps the compiler from removing reads that only load the cache
}

const (
	// batch is the number of requests added together. Each pass ends with a wait for its last
	// read, which would make smaller batches slow. A batch fits into a core's own caches.
	batch = 512
	// inCache is the maximum number of groups that fit into a core's own caches.
	inCache = 512
)

// newAdder returns an adder to a table. Nothing else may change the table until Flush.
func newAdder(t *Table) *adder { return &adder{table: t} }

// Add adds a request to a group. The key's text must stay valid until Flush.
func (a *adder) Add(k Key, text []byte, x Sample) {
	if t := a.table; t.n <= inCache {
		s := t.slots[k.slot&uint64(len(t.slots)-1)]
		i := int(uint32(s)) - 1
		if s>>32 != k.tag>>32 || i < 0 || t.At(i).tag != uint32(k.tag) {
			i = t.findOrPrune(k, text)
		}
		if t.wide || i < 0 {
			t.Add(i, x)
			return
		}
		t.At(i).add(x)
		return
	}
	i := a.n
	a.keys[i], a.texts[i], a.samples[i] = k, text, x
	if a.n++; a.n == batch {
		a.Flush()
	}
}

// Flush adds the pending requests.
func (a *adder) Flush() {
	n := a.n
	t, keys, groups := a.table, a.keys[:n], a.groups[:n]
	a.n = 0
	if len(groups) == 0 {
		return
	}
	// These reads load the cache; the sum keeps the compiler from removing them.
	slots, sink := t.slots, uint64(0)
	mask := uint64(len(slots) - 1)
	for i := range keys {
		sink += slots[keys[i].slot&mask]
	}
	// The hash bits in a slot nearly always identify the key. A third of all keys are not in
	// their first slot.
	for i := range keys {
		at, tag := keys[i].slot, keys[i].tag>>32
		s := slots[at&mask]
		for s>>32 != tag && s != 0 {
			at++
			s = slots[at&mask]
		}
		groups[i] = int32(uint32(s)) - 1
	}
	// Keep other work out of this loop, so that as many reads as possible overlap.
	if t.wide {
		for _, g := range groups {
			g = max(g, 0)
			r := &t.records[g>>chunkBits][g&(chunk-1)]
			sink += r.Count + uint64(r.head[0])
		}
	} else {
		for _, g := range groups {
			g = max(g, 0)
			sink += t.stats[g>>chunkBits][g&(chunk-1)].Count
		}
	}
	for i := range keys {
		if g := int(groups[i]); g < 0 || t.At(g).tag != uint32(keys[i].tag) {
			if groups[i] = int32(t.Find(keys[i], a.texts[i])); groups[i] < 0 {
				a.sink += sink
				a.addEach(n)
				return
			}
		}
	}
	if t.wide {
		for i, g := range groups {
			t.Add(int(g), a.samples[i])
		}
	} else {
		for i, g := range groups {
			if g < 0 {
				t.Add(int(g), a.samples[i])
				continue
			}
			t.stats[g>>chunkBits][g&(chunk-1)].add(a.samples[i])
		}
	}
	a.sink += sink
}

// addEach adds a batch of n requests one by one to a full table, whose groups may move with each of them.
func (a *adder) addEach(n int) {
	for i := range n {
		a.table.Add(a.table.findOrPrune(a.keys[i], a.texts[i]), a.samples[i])
	}
}
