package logs

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
	// batch is how many requests are added together. Each pass over them ends with a wait
	// for the last read, which of fewer would show; all that is known of so many stays in a
	// core's own caches.
	batch = 512
	// inCache is how many groups there may be that a core's own caches still have.
	inCache = 512
)

// NewAdder adds to a table, which nobody else may change until Flush.
func NewAdder(t *Table) *Adder { return &Adder{table: t} }

// Add adds a request to its group. The key's text has to stay until Flush.
func (a *Adder) Add(k Key, text []byte, x Sample) {
	if t := a.table; t.n <= inCache {
		s := t.slots[k.slot&uint64(len(t.slots)-1)]
		i := int(uint32(s)) - 1
		if s>>32 != k.tag>>32 || i < 0 || t.At(i).tag != uint32(k.tag) {
			i = t.Find(k, text)
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

// Flush adds what was not added yet.
func (a *Adder) Flush() {
	t, keys, groups := a.table, a.keys[:a.n], a.groups[:a.n]
	a.n = 0
	if len(groups) == 0 {
		return
	}
	// What is read below for its place alone is summed up, so that it is read.
	slots, sink := t.slots, uint64(0)
	mask := uint64(len(slots) - 1)
	for i := range keys {
		sink += slots[keys[i].slot&mask]
	}
	// What a slot has of a hash is nearly always enough to know whose it is. A third of
	// all keys are not in their first slot.
	for i := range keys {
		at, tag := keys[i].slot, keys[i].tag>>32
		s := slots[at&mask]
		for s>>32 != tag && s != 0 {
			at++
			s = slots[at&mask]
		}
		groups[i] = int32(uint32(s)) - 1
	}
	// Nothing else is done here, so that as many reads as there can be wait together.
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
			groups[i] = int32(t.Find(keys[i], a.texts[i]))
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
