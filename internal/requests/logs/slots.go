package logs

import "maps"

// slots holds the latencies and status classes of a log by interval of time, for charts.
// Beyond mostSlots the intervals become longer, so no log takes more than 20 MB.
type slots struct {
	step int // index into steps
	by   map[int64]*slot
	last int64 // last used slot
	now  *slot
}

// slot is one interval of time.
type slot struct {
	took    counts             // durations by bucket, in microseconds
	classes [numClasses]uint64 // by hundreds of the status; 0: none
}

const (
	numClasses = 6
	mostSlots  = 1500
)

func newSlots() *slots { return &slots{by: map[int64]*slot{}} }

// add adds a request. at and took are in microseconds; a negative took means no duration.
func (s *slots) add(at, took int64, status int) {
	n := floor(at, steps[s.step])
	if s.now == nil || n != s.last {
		s.last, s.now = n, s.at(n)
		if s.bound() {
			s.last = floor(at, steps[s.step])
			s.now = s.at(s.last)
		}
	}
	class := status / 100
	if class < 0 || class >= numClasses {
		class = 0
	}
	s.now.classes[class]++
	if took >= 0 {
		s.now.took.add(bucket(uint64(took)), 1)
	}
}

func (s *slots) at(n int64) *slot {
	if s.by[n] == nil {
		s.by[n] = &slot{}
	}
	return s.by[n]
}

// bound makes the intervals longer until there are few enough, and reports whether it did.
func (s *slots) bound() (longer bool) {
	for len(s.by) > mostSlots && s.step < len(steps)-1 {
		s.coarsen(s.step + 1)
		longer = true
	}
	return longer
}

// coarsen increases the length of the intervals to steps[step].
func (s *slots) coarsen(step int) {
	old := *s
	*s = slots{step: step, by: map[int64]*slot{}}
	s.merge(&old)
}

// merge adds other slots.
func (s *slots) merge(o *slots) {
	if o.step > s.step {
		s.coarsen(o.step)
	}
	for n, from := range maps.All(o.by) {
		s.at(floor(n*steps[o.step], steps[s.step])).merge(from)
	}
	s.now = nil
	s.bound()
}

func (s *slot) merge(o *slot) {
	for i, n := range o.classes {
		s.classes[i] += n
	}
	o.took.each(func(b uint16, n uint64) { s.took.add(b, n) })
}

// each calls f with each bucket and the number of durations in it, in order.
func (c *counts) each(f func(b uint16, n uint64)) {
	for i, o := range c {
		if o == nil {
			continue
		}
		for j := range sub {
			if n := o.at(j); n > 0 {
				f(uint16(i<<subBits+j), n)
			}
		}
	}
}
