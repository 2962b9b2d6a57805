// meter counts what came of requests, by slices of the time at which they were
// meant to start. What it keeps does not grow with their number: a slice has histograms,
// and there are at most as many slices as the run was cut into beforehand.

package engine

import (
	"sort"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The histograms have three significant digits from Resolution on: a value is at most
// 0.1 % off, or half of Resolution where that is more.
const (
	Digits     = 3
	Resolution = 64 * time.Nanosecond
)

// Sample is one request.
type Sample struct {
	// Begin is when it was meant to start, Sent when it did, End when its answer was
	// whole or it failed; all since the beginning of the run.
	Begin, Sent, End time.Duration
	Request          int
	Answer           Answer
	// Waited says that it started late because no connection was free.
	Waited bool
}

// Slice is what is known of the requests that were meant to start in a stretch of time.
type Slice struct {
	From, To time.Duration
	Stage    int // of the schedule; 0 where there is none
	// Starts are all that were meant to start in it. Good ones were answered as wanted,
	// Wrong ones with another status, Failed ones not at all; an interrupted one is none of
	// these.
	Starts, Good, Wrong, Failed int64
	// Answered are whole answers that came in this time, whenever they were asked for.
	Answered int64
	In       int64 // bytes
	// Late are starts more than LateAfter behind though a connection was free, Waited
	// those for which none was.
	Late, Waited int64
	// CPU is the share of its processors that this process took; 0 where not measured.
	CPU float64
	// Wanted is what it took and waited for, as such a share; it may be above 1.
	Wanted   float64
	Statuses map[int]int64
	Failures map[Failure]int64

	latency, service *hdrhistogram.PackedHistogram
}

// LateAfter is how far behind a start is late.
const LateAfter = time.Millisecond

// Stretch is a part of the time that is cut into slices of its own.
type Stretch struct {
	For   time.Duration
	Stage int
}

// Meter counts.
type Meter struct {
	// Good says whether a status is one that is wanted.
	good func(status int) bool
	most int64 // ns

	mu       sync.Mutex
	slices   []*Slice
	delay    *hdrhistogram.Histogram
	requests []MeteredRequest
	examples map[Failure]string
}

// MeteredRequest is what came of one line of the list.
type MeteredRequest struct{ Starts, Wrong, Failed, In int64 }

// MaxSlices is about how many slices a run is cut into at most.
const MaxSlices = 300

// NewMeter cuts stretches of time into slices of a second, or longer ones where that would be
// too many. A latency is no longer than all of it and wait.
func NewMeter(stretches []Stretch, wait time.Duration, requests int, good func(status int) bool) *Meter {
	all := time.Duration(0)
	for _, s := range stretches {
		all += s.For
	}
	length := max(time.Second, all/MaxSlices)
	m := &Meter{good: good, most: int64(all + wait + time.Minute), requests: make([]MeteredRequest, requests), examples: map[Failure]string{}}
	m.delay = m.histogram()
	at := time.Duration(0)
	for _, s := range stretches {
		n := max(1, time.Duration(s.For/length))
		for i := range n {
			m.slices = append(m.slices, &Slice{From: at + s.For*i/n, To: at + s.For*(i+1)/n, Stage: s.Stage, Statuses: map[int]int64{}, Failures: map[Failure]int64{}})
		}
		at += s.For
	}
	return m
}

func (m *Meter) histogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(Resolution), m.most, Digits)
}

func (m *Meter) packed() *hdrhistogram.PackedHistogram {
	return hdrhistogram.NewPacked(int64(Resolution), m.most, Digits)
}

// at is the slice of a time; nil where it is after the last one.
func (m *Meter) at(t time.Duration) *Slice {
	i := sort.Search(len(m.slices), func(i int) bool { return t < m.slices[i].To })
	if i == len(m.slices) {
		return nil
	}
	return m.slices[i]
}

// Add counts samples.
func (m *Meter) Add(samples []Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range samples {
		m.add(&samples[i])
	}
}

func (m *Meter) add(x *Sample) {
	if s := m.at(x.End); s != nil && x.Answer.Failure == None {
		s.Answered++
	}
	s := m.at(x.Begin)
	if s == nil {
		return
	}
	r := &m.requests[x.Request]
	s.Starts++
	r.Starts++
	s.In += x.Answer.In
	r.In += x.Answer.In
	if late := x.Sent - x.Begin; x.Waited {
		s.Waited++
	} else if x.Answer.Failure != Unsent {
		if late > LateAfter {
			s.Late++
		}
		_ = m.delay.RecordValue(m.within(late))
	}
	switch f := x.Answer.Failure; {
	case f != None:
		s.Failures[f]++
		if f != Interrupted {
			s.Failed++
			r.Failed++
		}
		if _, known := m.examples[f]; !known && x.Answer.Err != nil {
			m.examples[f] = x.Answer.Err.Error()
		}
		if !f.Waited() {
			return
		}
	default:
		s.Statuses[x.Answer.Status]++
		if !m.good(x.Answer.Status) {
			s.Wrong++
			r.Wrong++
			return // an error that comes quickly would flatter the answers
		}
		s.Good++
	}
	if s.latency == nil {
		s.latency, s.service = m.packed(), m.packed()
	}
	_ = s.latency.RecordValue(m.within(x.End - x.Begin))
	if x.Answer.Failure != Unsent {
		_ = s.service.RecordValue(m.within(x.End - x.Sent))
	}
}

// within is a time that the histograms can hold.
func (m *Meter) within(d time.Duration) int64 { return min(max(0, int64(d)), m.most) }

// CPU notes what share of its processors the process took until a moment, and what it took
// and waited for, in the slice that was going on.
func (m *Meter) CPU(at time.Duration, took, wanted float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.at(at); s != nil {
		s.CPU, s.Wanted = max(s.CPU, took), max(s.Wanted, wanted)
	}
}

// Now sums up the slice before a moment, for whoever watches.
func (m *Meter) Now(at time.Duration) *Total {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := sort.Search(len(m.slices), func(i int) bool { return at < m.slices[i].To })
	return m.sum(max(0, i-1), max(1, i))
}

// Slices are the slices until a moment, when what came later was not measured.
func (m *Meter) Slices(until time.Duration) []*Slice {
	n := sort.Search(len(m.slices), func(i int) bool { return m.slices[i].From >= until })
	return m.slices[:n]
}

// Requests are the counts of each line of the list, over the whole time.
func (m *Meter) Requests() []MeteredRequest { return m.requests }

// Example is the first error of a failure.
func (m *Meter) Example(f Failure) string { return m.examples[f] }

// Delay is how far behind starts were for which a connection was free.
func (m *Meter) Delay() Times { return times(m.delay) }

// Median is the median latency of a slice, in seconds; false where nothing is in it.
func (s *Slice) Median() (float64, bool) {
	if s.latency == nil || s.latency.TotalCount() == 0 {
		return 0, false
	}
	return seconds(s.latency.ValueAtPercentile(50)), true
}

// Percentile is that of the latencies of a slice, in seconds; 0 where nothing is in it.
func (s *Slice) Percentile(p float64) float64 {
	if s.latency == nil {
		return 0
	}
	return seconds(s.latency.ValueAtPercentile(p))
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
