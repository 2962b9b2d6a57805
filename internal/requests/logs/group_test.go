package logs

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive calculates the expected content of a table from all requests.
type naive map[string][]int64

func (n naive) check(t *testing.T, table *Table) {
	t.Helper()
	if table.Len() != len(n) {
		t.Fatalf("%d groups, want %d", table.Len(), len(n))
	}
	for i := range table.Len() {
		key := string(table.Text(i))
		all, ok := n[key]
		if !ok {
			t.Fatalf("a group %q that there is not", key)
		}
		var took []int64
		for _, d := range all {
			if d >= 0 {
				took = append(took, d)
			}
		}
		slices.Sort(took)
		s := table.At(i)
		if s.Count != uint64(len(all)) || s.Timed() != uint64(len(took)) {
			t.Fatalf("%q: %d requests, %d of them timed, want %d and %d", key, s.Count, s.Timed(), len(all), len(took))
		}
		if len(took) == 0 {
			continue
		}
		var sum uint64
		for _, d := range took {
			sum += uint64(d)
		}
		mean := float64(sum) / float64(len(took))
		squares := 0.0
		for _, d := range took {
			squares += (float64(d) - mean) * (float64(d) - mean)
		}
		deviation := math.Sqrt(squares / float64(len(took)))
		if s.Sum != sum || s.Min != uint64(took[0]) || s.Max != uint64(took[len(took)-1]) {
			t.Fatalf("%q: sum %d, extremes %d and %d; want %d, %d, %d", key, s.Sum, s.Min, s.Max, sum, took[0], took[len(took)-1])
		}
		if math.Abs(s.Deviation()-deviation) > 1e-9*deviation+1e-6 {
			t.Fatalf("%q: standard deviation %g, want %g", key, s.Deviation(), deviation)
		}
		qs := []float64{0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1}
		for k, got := range table.Quantiles(i, qs) {
			want := float64(took[max(int(math.Ceil(qs[k]*float64(len(took))))-1, 0)])
			if math.Abs(got-want) > want/127 {
				t.Fatalf("%q: quantile %g of %d is %g, want %g", key, qs[k], len(took), got, want)
			}
		}
	}
}

// requests generates the requests of a log: a few large groups and many small ones, with durations
// over nine powers of ten.
func requests(r *rand.Rand, n int, f func(key string, took int64)) {
	for range n {
		key := fmt.Sprint(int(math.Exp(r.Float64() * 9)))
		if r.IntN(50) == 0 {
			key = ""
		}
		took := int64(math.Exp(r.Float64() * 21))
		if r.IntN(20) == 0 {
			took = -1
		}
		f(key, took)
	}
}

func TestTable(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		want, one := naive{}, New(true, 1e6)
		parts := []*Table{New(true, 1e6), New(true, 1e6), New(true, 1e6)}
		adder := newAdder(one)
		requests(r, 30_000, func(key string, took int64) {
			want[key] = append(want[key], took)
			p := parts[r.IntN(3)]
			p.Add(p.Find(hashOf([]byte(key)), []byte(key)), p.Sample(took, false))
			adder.Add(hashOf([]byte(key)), []byte(key), one.Sample(took, false))
		})
		adder.Flush()
		want.check(t, one)
		merged := New(true, 1e6)
		for _, p := range parts {
			merged.Merge(p)
		}
		want.check(t, merged)
		// Exactly the same, not only as close: the buckets too.
		for i := range one.Len() {
			j := merged.Find(HashParts(one.Text(i)), nil)
			a, b := map[uint16]uint64{}, map[uint16]uint64{}
			one.hists.each(one.record(i), func(k uint16, n uint64) { a[k] += n })
			merged.hists.each(merged.record(j), func(k uint16, n uint64) { b[k] += n })
			x, y := *one.At(i), *merged.At(j)
			x.hist, y.hist = 0, 0 // where a histogram lies may differ
			if fmt.Sprint(a) != fmt.Sprint(b) || x != y {
				t.Fatalf("%q: merged %+v %v, want %+v %v", one.Text(i), merged.At(j), b, one.At(i), a)
			}
		}
	}
}

// TestHash tests that similar texts have different hashes, in both numbers.
func TestHash(t *testing.T) {
	// fettle draws these numbers; one draw in a hundred leaves a bit 4 % from half.
	defer func(s [4]uint64, l [17]uint64) { secrets, lengths = s, l }(secrets, lengths)
	draw := rand.New(rand.NewPCG(1, 2))
	for i := range secrets {
		secrets[i] = draw.Uint64()
	}
	for i := range lengths {
		lengths[i] = draw.Uint64()
	}
	texts := map[string]bool{}
	for n := range 40 {
		zero := make([]byte, n)
		texts[string(zero)] = true
		for i := range n {
			for bit := range 8 {
				zero[i] ^= 1 << bit
				texts[string(zero)] = true
				zero[i] = 0
			}
		}
	}
	for i := range 200_000 {
		texts[fmt.Sprint("host", i)], texts[fmt.Sprint(i)] = true, true
	}
	slots, tags := map[uint64]string{}, map[uint64]string{}
	ones := [128]int{}
	for text := range texts {
		k := hashOf([]byte(text))
		if other, ok := slots[k.slot]; ok {
			t.Fatalf("%q and %q have one slot", text, other)
		}
		if other, ok := tags[k.tag]; ok {
			t.Fatalf("%q and %q have one tag", text, other)
		}
		slots[k.slot], tags[k.tag] = text, text
		for i := range 64 {
			ones[i] += int(k.slot >> i & 1)
			ones[64+i] += int(k.tag >> i & 1)
		}
	}
	for i, n := range ones { // each bit is set in about half of them
		if want := float64(len(texts)) / 2; math.Abs(float64(n)-want) > want/25 {
			t.Errorf("bit %d is set in %d of %d hashes", i, n, len(texts))
		}
	}
}

// TestLongKeys tests that long keys cannot exceed the memory limit.
func TestLongKeys(t *testing.T) {
	table := New(false, 1e6)
	key := bytes.Repeat([]byte("x"), keyPage-100)
	for i := range 2000 {
		copy(key, fmt.Sprintf("%08d", i))
		table.Add(table.Find(hashOf(key), key), table.Sample(1, false))
	}
	if n := table.Len(); n > mostText/keyPage || len(table.keys.pages) != n || table.Other.Count != uint64(2000-n) {
		t.Errorf("%d groups, %d pages, %d beyond", n, len(table.keys.pages), table.Other.Count)
	}
}

// TestLimit reads far more groups than a table may have, alone and as parts that are merged. No
// request is lost, and what occurs often is found although the table was full before, with at most
// the requests missing that it says.
func TestLimit(t *testing.T) {
	const limit, rare, heavy = 1000, 100_000, 2000
	parts := func(n int) (all []*Table, want map[string]uint64) {
		want = map[string]uint64{}
		adders := make([]*adder, n)
		for i := range n {
			all = append(all, New(true, limit))
			adders[i] = newAdder(all[i])
		}
		for i := range rare {
			add := func(text string, took int64) {
				a := adders[i%n]
				a.Add(hashOf([]byte(text)), []byte(text), a.table.Sample(took, i%2 == 0))
				want[text]++
			}
			add(fmt.Sprint("rare ", i), int64(i))
			if i > rare/2 && i%(rare/2/heavy) < 3 {
				add(fmt.Sprint("heavy ", i%3), 1000)
			}
			if i == rare/2 {
				add("slow", 1e9)
			}
		}
		for _, a := range adders {
			a.Flush()
		}
		return all, want
	}
	for _, n := range []int{1, 4} {
		all, want := parts(n)
		table := all[0]
		for _, o := range all[1:] {
			table.Merge(o)
		}
		if table.Len() > limit || !table.folded() {
			t.Errorf("%d parts: %d groups, missing %+v", n, table.Len(), table.Missing)
		}
		found, count, timed := map[string]bool{}, table.Other.Count, uint64(0)
		for i := range table.Len() {
			s, text := table.At(i), string(table.Text(i))
			found[text] = true
			count += s.Count
			if s.Count > want[text] || s.Count+table.Missing.Requests < want[text] {
				t.Errorf("%d parts: %s has %d requests of %d, and may lack %d", n, text, s.Count, want[text], table.Missing.Requests)
			}
			timed = 0
			table.hists.each(table.record(i), func(_ uint16, k uint64) { timed += k })
			if timed != s.Timed() {
				t.Errorf("%d parts: %s has %d durations and %d in its histogram", n, text, s.Timed(), timed)
			}
		}
		for text, requests := range want {
			if requests > table.Missing.Requests && !found[text] || text == "slow" && !found[text] {
				t.Errorf("%d parts: %s with %d requests is not found, and a group may lack %d", n, text, requests, table.Missing.Requests)
			}
			count -= requests
		}
		if count != 0 {
			t.Errorf("%d parts: %d requests too many", n, int64(count))
		}
	}
}

// TestSumBeyondLimit tests that the histogram of the sum has the durations of the groups, and only
// those, for any number of requests in Other, which have none.
func TestSumBeyondLimit(t *testing.T) {
	for others := range uint64(2 * headRoom) {
		table := New(true, 100)
		want := map[uint16]uint64{}
		for i := range 45 {
			x := table.Sample(int64(i), false)
			text := fmt.Append(nil, "group ", i%3)
			table.Add(table.Find(hashOf(text), text), x)
			want[x.bucket]++
		}
		for range others {
			table.Add(-1, table.Sample(1e6, false))
		}
		sum, got := table.Sum(), map[uint16]uint64{}
		sum.hists.each(sum.record(0), func(b uint16, n uint64) { got[b] += n })
		if !maps.Equal(got, want) || sum.At(0).Timed() != 45+others {
			t.Fatalf("%d others: %v, want %v; %d durations", others, got, want, sum.At(0).Timed())
		}
	}
}

// TestGroupParts tests keys with several parts, which are all different.
func TestGroupParts(t *testing.T) {
	seen := map[Key]string{}
	for _, text := range []string{"a\x00b", "ab\x00", "\x00ab", "b\x00a", "a\x00b\x00", "a\x00\x00b", "\x00a\x00b", "ab", "a", "", "\x00", "\x00\x00"} {
		k := HashParts([]byte(text))
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q are one", text, other)
		}
		seen[k] = text
	}
	k := hashOf([]byte("GET")).Then(hashOf([]byte("catalog"))).Then(hashOf(nil))
	if k != HashParts([]byte("GET\x00catalog\x00")) {
		t.Error("a key of parts is not that of its text")
	}
}

// TestBuckets tests that the middle of a bucket is within the documented error.
func TestBuckets(t *testing.T) {
	last := -1
	for v := uint64(0); v < 1<<52; v += 1 + v/1000 {
		b := int(bucket(v))
		if b < last || b >= buckets {
			t.Fatalf("%d is in bucket %d behind %d", v, b, last)
		}
		last = b
		if d := math.Abs(middle(b) - float64(v)); d > float64(v)/127 {
			t.Fatalf("%d is in a bucket with the middle %g", v, middle(b))
		}
	}
	if b := bucket(math.MaxUint64); int(b) != buckets-1 {
		t.Errorf("the largest is in bucket %d of %d", b, buckets)
	}
}

// TestEncode tests that a written table is read again exactly, and that a damaged one is refused.
func TestEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for _, percentiles := range []bool{true, false} {
		table := New(percentiles, 500)
		requests(r, 5000, func(key string, took int64) {
			table.Add(table.Find(hashOf([]byte(key)), []byte(key)), table.Sample(took, took%7 == 0))
		})
		var text bytes.Buffer
		w := bufio.NewWriter(&text)
		if err := table.Encode(w); err != nil || w.Flush() != nil {
			t.Fatal(err)
		}
		back, err := decode(bufio.NewReader(bytes.NewReader(text.Bytes())), 500)
		if err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		w = bufio.NewWriter(&again)
		if err := back.Encode(w); err != nil || w.Flush() != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text.Bytes(), again.Bytes()) {
			t.Error("what was read writes itself otherwise")
		}
		for n := range min(text.Len(), 300) {
			if _, err := decode(bufio.NewReader(bytes.NewReader(text.Bytes()[:n])), 500); err == nil {
				t.Fatalf("%d bytes of %d are a table", n, text.Len())
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01a\x01\x05\x19\x00\x05\x05\x00\x00\x01\x05\x01"))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := decode(bufio.NewReader(bytes.NewReader(text)), 1000)
		if err == nil {
			for i := range table.Len() {
				table.Quantiles(i, []float64{.5, 1})
			}
		}
	})
}

// TestOctave: counts beyond 16 and 32 bits are exact.
func TestOctave(t *testing.T) {
	var c counts
	want := map[uint16]uint64{}
	for _, n := range []uint64{1, 65534, 1, 1, 65536, 1<<32 - 1, 1, 1 << 40, 0} {
		for _, b := range []uint16{0, 63, 64, 200, buckets - 1} {
			c.add(b, n+uint64(b))
			want[b] += n + uint64(b)
		}
	}
	got := map[uint16]uint64{}
	c.each(func(b uint16, n uint64) { got[b] = n })
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
