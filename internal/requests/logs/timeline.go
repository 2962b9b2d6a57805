package logs

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// timeline holds the number of requests that arrived, and that were in progress, by interval
// of time. A log of a week has intervals of a second. Longer logs have longer intervals, so no
// log takes more than 50 MB, even if a line has a wrong year.
//
// The intervals and all figures depend only on the requests: not on their order, and not on which
// of them were added to which of several merged timelines.
type timeline struct {
	step   int // index into steps
	chunks map[int64]*timeChunk
	used   int   // number of used chunks
	last   int64 // last accessed chunk
	chunk  *timeChunk

	from, to int64 // last used interval, in microseconds
	stretch  int64
}

// steps lists the possible interval lengths, in microseconds.
var steps = []int64{1e6, 10e6, 60e6, 600e6, 3600e6, 86400e6}

const (
	chunkCells = 64
	// mostChunks is the number of used chunks from which on the intervals become longer.
	mostChunks = 16 << 10
)

// timeChunk holds the cells of 64 intervals.
type timeChunk struct {
	cells [chunkCells]cell
	used  bool // a request arrives or ends in it
}

// cell holds the figures of one interval. busy is the time in the interval, in microseconds,
// of requests that begin or end in it. through is the number of requests that span the whole
// interval, as a difference from the previous interval.
type cell struct {
	count, errors uint32
	busy          uint64
	through       int64
}

func (t *timeline) at(stretch int64) *cell {
	n := stretch >> 6
	if t.chunk == nil || n != t.last {
		c := t.chunks[n]
		if c == nil {
			if t.chunks == nil {
				t.chunks = map[int64]*timeChunk{}
			}
			c = new(timeChunk)
			t.chunks[n] = c
		}
		t.last, t.chunk = n, c
	}
	return &t.chunk.cells[stretch&(chunkCells-1)]
}

// use is like at, for an interval in which a request arrives or ends.
func (t *timeline) use(stretch int64) *cell {
	c := t.at(stretch)
	if !t.chunk.used {
		t.chunk.used = true
		t.used++
	}
	return c
}

// bound makes the intervals longer until few enough chunks are used.
func (t *timeline) bound() {
	for t.used >= mostChunks && t.step < len(steps)-1 {
		t.coarsen(t.step + 1)
	}
}

// add adds a request; at and took are in microseconds.
func (t *timeline) add(at, took int64, failed bool) {
	t.bound()
	step := steps[t.step]
	// Most requests are in the interval of the previous request. This check saves a division,
	// which costs as much as the rest.
	if at < t.from || at >= t.to {
		t.stretch = floor(at, step)
		t.from = t.stretch * step
		t.to = t.from + step
	}
	first := t.stretch
	c := t.use(first)
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
	c = t.use(last)
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

// coarsen increases the length of the intervals to steps[step].
func (t *timeline) coarsen(step int) {
	old := *t
	*t = timeline{step: step}
	t.merge(&old)
}

// merge adds another timeline.
func (t *timeline) merge(o *timeline) {
	if o.step > t.step {
		t.coarsen(o.step)
	}
	from, to := steps[o.step], steps[t.step]
	for n, c := range o.chunks {
		if c.used {
			t.use(floor(n<<6*from, to)) // a chunk of shorter intervals is within one of longer ones
		}
		for i := range c.cells {
			if c.cells[i] != (cell{}) {
				t.mergeCell(&c.cells[i], (n<<6+int64(i))*from)
			}
		}
	}
	t.bound()
}

// mergeCell adds a cell of an interval that begins at begin and is not longer than those of t.
func (t *timeline) mergeCell(c *cell, begin int64) {
	to := steps[t.step]
	n := floor(begin, to)
	d := t.at(n)
	d.count += c.count
	d.errors += c.errors
	d.busy += c.busy
	switch {
	case c.through == 0:
	case begin == n*to:
		d.through += c.through
	default:
		// From begin on, through more are in progress: until the end of the longer interval as
		// time, from the next one on as through.
		d.busy += uint64(c.through * ((n+1)*to - begin)) // may wrap; the sum does not
		t.at(n + 1).through += c.through
	}
}

// mean returns the average number of requests in progress, from the first request's interval
// to the last request's interval. first and last are in microseconds. Later time is excluded:
// it could raise the mean above the maximum.
func (t *timeline) mean(first, last int64) float64 {
	step := steps[t.step]
	from, to := floor(first, step), floor(last, step)
	busy, whole, through, at := int64(0), int64(0), int64(0), from
	for _, n := range slices.Sorted(maps.Keys(t.chunks)) {
		for i := range t.chunks[n].cells {
			s, x := n<<6+int64(i), &t.chunks[n].cells[i]
			if s > to {
				break
			}
			if *x == (cell{}) {
				continue
			}
			whole += through * (s - at)
			at, through = s, through+x.through
			busy += int64(x.busy)
		}
	}
	whole += through * (to + 1 - at)
	return inProgress(busy, whole, step) / float64(to+1-from)
}

// inProgress returns how many intervals of a length are filled by an amount of time and by whole
// intervals. The result, to its last digit, does not depend on how the sum is divided between the
// two.
func inProgress(busy, whole, step int64) float64 {
	n := floor(busy, step)
	return float64(busy-n*step)/float64(step) + float64(whole+n)
}

// Moment holds the requests of an interval of time.
type Moment struct {
	Start  time.Time
	Count  uint64
	Errors uint64
	Busy   float64 // mean number of requests in progress
}

// moments returns the intervals from the first to the last, and their length, at least least.
// It omits intervals without any request in progress.
func (t *timeline) moments(least time.Duration) (length time.Duration, each iter.Seq[Moment]) {
	long := t.step
	for long < len(steps)-1 && steps[long] < least.Microseconds() {
		long++
	}
	c := t
	if long > t.step { // avoids copying the half million intervals of a week
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
		if k > 0 && through > 0 { // chunks in between, in which nothing begins or ends
			first := (order[k-1] + 1) << 6
			for s := first; s < n<<6 && s-first < 4*mostChunks*chunkCells; s++ {
				if !yield(Moment{Start: time.UnixMicro(s * step).UTC(), Busy: float64(through)}) {
					return
				}
			}
		}
		for i := range t.chunks[n].cells {
			x := &t.chunks[n].cells[i]
			through += x.through
			busy := inProgress(int64(x.busy), through, step)
			if x.count > 0 || busy > 0 {
				if !yield(Moment{time.UnixMicro((n<<6 + int64(i)) * step).UTC(), uint64(x.count), uint64(x.errors), busy}) {
					return
				}
			}
		}
	}
}
