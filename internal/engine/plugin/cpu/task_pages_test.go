package cpu

import (
	"testing"

	"fettle.dev/fettle/internal/host"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		from, to string
		away     float64
	}{
		{"0=100kB 1=100kB", "0=200kB", 0.5},
		{"0=200kB", "0=100kB 1=100kB", 0.5},
		{"0=100kB 1=300kB", "0=1kB 1=3kB", 0},
		{"2=96kB 3=4kB", "2=5000kB", 0.04},
		{"", "0=1kB", 0},
	} {
		from, err := ParseSpread(c.from)
		to, err2 := ParseSpread(c.to)
		if err != nil || err2 != nil || from.String() != c.from {
			t.Fatalf("%q is read as %q (%v, %v)", c.from, from, err, err2)
		}
		if away := from.Away(to); away < c.away-0.001 || away > c.away+0.001 {
			t.Errorf("%q against %q: %g away, want %g", c.from, c.to, away, c.away)
		}
	}
	for _, bad := range []string{"0", "x=1kB", "0=-1kB", "1-2=5kB"} {
		if s, err := ParseSpread(bad); err == nil {
			t.Errorf("%q is read as %v", bad, s)
		}
	}
}

// TestMover decides about each page of a mapping, in order. It moves as many pages as the requested
// spread needs, and takes them evenly from the whole mapping.
func TestMover(t *testing.T) {
	const page, pages = 4096, 4000
	for _, c := range []struct{ from, to Spread }{
		{Spread{0: 1000, 1: 1000, 2: 1000, 3: 1000}, Spread{2: 4000}},
		{Spread{2: 4000}, Spread{0: 1000, 1: 1000, 2: 1000, 3: 1000}},
		{Spread{0: 1000, 1: 3000}, Spread{1: 1, 3: 3}}, // in proportion: the process has grown
		{Spread{0: 4000}, Spread{0: 4000}},
	} {
		on := Spread{}
		var nodes []int
		for n, count := range c.from {
			on[n] = count * page
		}
		for left := int64(pages); left > 0; { // one of each node in turn
			for n := range 4 {
				if c.from[n] > 0 && int64(len(nodes)) < pages {
					nodes = append(nodes, n)
					left--
				}
			}
		}
		if c.from[1] == 3000 {
			for i := range nodes {
				nodes[i] = min(i%4, 1)
			}
		}
		m := newMover(nil, host.TaskID{}, []area{{page: page, on: on}}, c.to)
		first, last := -1, -1
		for i, n := range nodes {
			if to, ok := m.next(n, page); ok {
				nodes[i], last = to, i
				if first < 0 {
					first = i
				}
			}
		}
		got := Spread{}
		for _, n := range nodes {
			got[n] += page
		}
		if away := got.Away(c.to); away > 0.001 {
			t.Errorf("%v to %v: %v", c.from, c.to, got)
		}
		if first >= 0 && (first > pages/100 || last < pages*99/100) {
			t.Errorf("%v to %v: pages %d to %d have moved, want pages of the whole mapping", c.from, c.to, first, last)
		}
	}
}
