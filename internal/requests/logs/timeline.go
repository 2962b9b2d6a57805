package logs

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// timeline says how many requests came, and how many were at work, in each stretch of
// time. A log of a week has seconds; a longer one has longer stretches, so that no log,
// and no line with a wrong year, takes more than 25 MB.
type timeline struct {
	step   int // in steps
	chunks map[int64]*[chunkCells]cell
	last   int64 // a chunk that was just used
	cells  *[chunkCells]cell

	from, to int64 // the stretch that was just used, in microseconds
	stretch  int64
}

// steps are the stretches that there may be.
var steps = []int64{1e6, 10e6, 60e6, 600e6, 3600e6, 86400e6}

const (
	chunkCells = 64
	mostChunks = 16 << 10
)

// cell is one stretch. busy is the time that requests which begin or end in it were at
// work in it, in microseconds; through is by how many more (or fewer) than in the cell
// before are at work in all of it.
type cell struct {
	count, errors uint32
	busy          uint64
	through       int64
}

func (t *timeline) at(stretch int64) *cell {
	chunk := stretch >> 6
	if t.cells == nil || chunk != t.last {
		c := t.chunks[chunk]
		if c == nil {
			if t.chunks == nil {
				t.chunks = map[int64]*[chunkCells]cell{}
			}
			c = new([chunkCells]cell)
			t.chunks[chunk] = c
		}
		t.last, t.cells = chunk, c
	}
	return &t.cells[stretch&(chunkCells-1)]
}

// add adds a request that came at, in microseconds, and took so many.
func (t *timeline) add(at, took int64, failed bool) {
	if len(t.chunks) >= mostChunks && t.step < len(steps)-1 {
		t.coarsen(t.step + 1)
	}
	step := steps[t.step]
	// Most requests come in the second of the one before: a division costs as much as
	// the rest of this.
	if at < t.from || at >= t.to {
		t.stretch = floor(at, step)
		t.from = t.stretch * step
		t.to = t.from + step
	}
	first := t.stretch
	c := t.at(first)
	c.count++
	if failed {
		c.errors++
	}
	if took <= 0 {
		return
	}
	end := at + took
	if end < t.to {
		c.busy += uint64(took)
		return
	}
	last := floor(end, step)
	c.busy += uint64((first+1)*step - at)
	t.at(first+1).through++
	c = t.at(last)
	c.through--
	c.busy += uint64(end - last*step)
}

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// coarsen makes stretches longer.
func (t *timeline) coarsen(step int) {
	old := *t
	*t = timeline{step: step}
	t.merge(&old)
}

// merge adds another timeline, of the same or shorter stretches.
func (t *timeline) merge(o *timeline) {
	if o.step > t.step {
		t.coarsen(o.step)
	}
	from, to := steps[o.step], steps[t.step]
	for n, c := range o.chunks {
		for i := range c {
			s := n<<6 + int64(i)
			if c[i] == (cell{}) {
				continue
			}
			d := t.at(floor(s*from, to))
			d.count += c[i].count
			d.errors += c[i].errors
			d.busy += c[i].busy
			if through := c[i].through; through != 0 {
				// From s on, that many more are at work: until the end of the longer
				// stretch as time in it, from the next one on through all.
				next := floor(s*from, to) + 1
				if s*from == (next-1)*to {
					d.through += through
				} else {
					d.busy += uint64(through * (next*to - s*from)) // wraps for those that end, and the sum does not
					t.at(next).through += through
				}
			}
		}
	}
}

// mean is how many requests were at work at a time, on average, from the stretch in which
// the first came to that in which the last did, both in microseconds. What they were at
// work after that is in no mean: it would be more than there ever were at a time.
func (t *timeline) mean(first, last int64) float64 {
	step := steps[t.step]
	from, to := floor(first, step), floor(last, step)
	busy, through, at := 0.0, int64(0), from
	for _, n := range slices.Sorted(maps.Keys(t.chunks)) {
		for i := range t.chunks[n] {
			s, x := n<<6+int64(i), &t.chunks[n][i]
			if s > to {
				break
			}
			if *x == (cell{}) {
				continue
			}
			busy += float64(through) * float64(s-at)
			at, through = s, through+x.through
			busy += float64(int64(x.busy)) / float64(step)
		}
	}
	busy += float64(through) * float64(to+1-at)
	return busy / float64(to+1-from)
}

// Moment is a stretch of time in a log.
type Moment struct {
	Start  time.Time
	Count  uint64
	Errors uint64
	Busy   float64 // requests at work at a time, on average
}

// moments are the stretches of time from the first to the last, in order, of at least
// the length wanted; those in which nothing was at work are left out.
func (t *timeline) moments(least time.Duration) (length time.Duration, each iter.Seq[Moment]) {
	long := t.step
	for long < len(steps)-1 && steps[long] < least.Microseconds() {
		long++
	}
	c := t
	if long > t.step { // a log of a week has half a million stretches: only fewer are copied
		c = &timeline{step: long}
		c.merge(t)
	}
	return time.Duration(steps[long]) * time.Microsecond, c.each
}

func (t *timeline) each(yield func(Moment) bool) {
	step := steps[t.step]
	order := slices.Sorted(maps.Keys(t.chunks))
	through := int64(0)
	for k, n := range order {
		if k > 0 && through > 0 { // chunks between, in which nothing begins or ends
			first := (order[k-1] + 1) << 6
			for s := first; s < n<<6 && s-first < 4*mostChunks*chunkCells; s++ {
				if !yield(Moment{Start: time.UnixMicro(s * step).UTC(), Busy: float64(through)}) {
					return
				}
			}
		}
		for i := range t.chunks[n] {
			x := &t.chunks[n][i]
			through += x.through
			busy := float64(int64(x.busy))/float64(step) + float64(through)
			if x.count > 0 || busy > 0 {
				if !yield(Moment{time.UnixMicro((n<<6 + int64(i)) * step).UTC(), uint64(x.count), uint64(x.errors), busy}) {
					return
				}
			}
		}
	}
}
