// The meter counts requests in the time slice in which they were due. Each slice has histograms.
// The number of slices is fixed before the run, so memory does not grow with the requests.

package engine

import (
	"sort"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	internaltext "fettle.dev/fettle/internal/text"
)

// The histograms have three significant digits from Resolution on: the error of a value is
// at most 0.1 % or half of Resolution, whichever is larger.
const (
	Digits     = 3
	Resolution = 64 * time.Nanosecond
)

// Sample is one request.
type Sample struct {
	// Begin is when the request was due, Sent when it was sent, and End when its answer was
	// complete or it failed. All are relative to the beginning of the run.
	Begin, Sent, End time.Duration
	Request          int
	Answer           Answer
	// Waited reports whether the request started late because no connection was free.
	Waited bool
}

// Tally counts the requests that were due in a period of time.
type Tally struct {
	// Starts is the number of requests due. Good ones got an expected status, Wrong ones another
	// status, Failed ones no complete answer. Interrupted requests are only in Failures.
	Starts, Good, Wrong, Failed int64
	// Answered is the number of complete answers that arrived in the period.
	Answered int64
	In       int64 // bytes
	// Late is the number of requests started more than LateAfter late although a connection
	// was free. Waited is the number of requests that waited for a connection.
	Late, Waited int64
	Statuses     map[int]int64
	Failures     map[Failure]int64
}

func newTally() Tally { return Tally{Statuses: map[int]int64{}, Failures: map[Failure]int64{}} }

func (t *Tally) add(o *Tally) {
	t.Starts += o.Starts
	t.Good += o.Good
	t.Wrong += o.Wrong
	t.Failed += o.Failed
	t.Answered += o.Answered
	t.In += o.In
	t.Late += o.Late
	t.Waited += o.Waited
	for status, n := range o.Statuses {
		t.Statuses[status] += n
	}
	for f, n := range o.Failures {
		t.Failures[f] += n
	}
}

// Slice holds the requests that were due in a short period of time.
type Slice struct {
	From, To time.Duration
	Stage    int // of the schedule; 0 without stages
	Tally
	// CPU is the share of its processors that this process used. Wanted also includes the time
	// spent waiting for a processor, so it may exceed 1. Both are 0 if not measured.
	CPU, Wanted float64

	latency, service *hdrhistogram.PackedHistogram
}

// LateAfter is the delay above which a start is late.
const LateAfter = time.Millisecond

// Stretch is a period of time that is divided into slices separately.
type Stretch struct {
	For   time.Duration
	Stage int
}

// Meter counts requests by time slice.
type Meter struct {
	good func(status int) bool
	most int64 // highest recordable latency, ns

	mu       sync.Mutex
	slices   []*Slice
	delay    *hdrhistogram.Histogram
	requests []MeteredRequest
	examples map[Failure]string
}

// MeteredRequest holds the counts of one line of the request list; In is in bytes.
type MeteredRequest struct{ Starts, Wrong, Failed, In int64 }

// MaxSlices is the approximate maximum number of slices.
const MaxSlices = 300

// NewMeter divides the stretches into slices of at least one second. The longest recordable
// latency is the sum of the stretches and wait, plus one minute. good reports whether a status
// counts as success.
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
			m.slices = append(m.slices, &Slice{From: at + s.For*i/n, To: at + s.For*(i+1)/n, Stage: s.Stage, Tally: newTally()})
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

// at returns the slice that contains t, or nil after the last slice.
func (m *Meter) at(t time.Duration) *Slice {
	i := sort.Search(len(m.slices), func(i int) bool { return t < m.slices[i].To })
	if i == len(m.slices) {
		return nil
	}
	return m.slices[i]
}

// Add counts samples. It is safe for concurrent use.
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
			m.examples[f] = internaltext.PlainMessage(x.Answer.Err.Error())
		}
		if !f.Waited() {
			return
		}
	default:
		s.Statuses[x.Answer.Status]++
		if !m.good(x.Answer.Status) {
			s.Wrong++
			r.Wrong++
			return // a quick error would improve the latency figures
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

// within limits a time to the range of the histograms and returns nanoseconds.
func (m *Meter) within(d time.Duration) int64 { return min(max(0, int64(d)), m.most) }

// CPU records the process's share of the processors in the current slice: the share used, and
// the share used or waited for.
func (m *Meter) CPU(at time.Duration, took, wanted float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.at(at); s != nil {
		s.CPU, s.Wanted = max(s.CPU, took), max(s.Wanted, wanted)
	}
}

// Now returns the figures of the last complete slice, for a live display.
func (m *Meter) Now(at time.Duration) *Total {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := sort.Search(len(m.slices), func(i int) bool { return at < m.slices[i].To })
	return m.sum(max(0, i-1), max(1, i))
}

// Slices returns the slices up to a time. Later slices were not measured.
func (m *Meter) Slices(until time.Duration) []*Slice {
	n := sort.Search(len(m.slices), func(i int) bool { return m.slices[i].From >= until })
	return m.slices[:n]
}

// Requests returns the counts of each line of the request list, over the whole run.
func (m *Meter) Requests() []MeteredRequest { return m.requests }

// Example returns the text of the first error of a kind of failure, or "".
func (m *Meter) Example(f Failure) string { return m.examples[f] }

// Delay returns the delays of starts that had a free connection.
func (m *Meter) Delay() Times { return times(m.delay) }

// Median returns the median latency in seconds. It returns false if there are no latencies.
func (s *Slice) Median() (float64, bool) {
	if s.latency == nil || s.latency.TotalCount() == 0 {
		return 0, false
	}
	return seconds(s.latency.ValueAtPercentile(50)), true
}

// Percentile returns a percentile of the latency in seconds, or 0 without latencies.
func (s *Slice) Percentile(p float64) float64 {
	if s.latency == nil {
		return 0
	}
	return seconds(s.latency.ValueAtPercentile(p))
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
