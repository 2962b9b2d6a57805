package load

import (
	"slices"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/kube/load/plan"
	"fettle.dev/fettle/kube/load/run"
)

// most is the longest duration that the distributions distinguish.
const most = time.Hour

// Meter measures how long a run's calls took, and how long its pods took to be scheduled and ready.
// The load's own objects are measured with this machine's clock, controllers' pods with the API's
// timestamps.
type Meter struct {
	plan             *plan.Plan
	create           *engine.Distribution // from when the object was due
	scheduled, ready *engine.Distribution

	mu sync.Mutex
	// calls are the times of the calls alone.
	calls map[call]*engine.Distribution
	pods  map[run.Key]*measurePod
	// coarse counts durations calculated from whole-second timestamps.
	coarse WholeSeconds
	// Single durations in the order of arrival, for Series.
	began                       time.Time // when the first object was due
	creates, schedules, readies []single
}

// call is one kind of call: an operation ("" for creation) on a kind of object.
type call struct {
	kind plan.Kind
	do   string
}

// measurePod is a pod from its creation until it is ready. The watch may report it before the
// create call returns.
type measurePod struct{ sent, scheduled, ready time.Time }

// New returns a meter for a run of a plan.
func New(p *plan.Plan) *Meter {
	return &Meter{
		plan: p, create: engine.NewDistribution(most), scheduled: engine.NewDistribution(most), ready: engine.NewDistribution(most),
		calls: map[call]*engine.Distribution{}, pods: map[run.Key]*measurePod{},
	}
}

// Answer records the answer to a create request. It records no duration for objects of an earlier
// process.
func (m *Meter) Answer(a run.Answer) {
	if a.Was != run.Created || a.Found {
		return
	}
	kind := m.plan.Kind(a.Object)
	m.mu.Lock()
	calls := m.of(call{kind: kind})
	if m.began.IsZero() {
		m.began = a.Due
	}
	m.creates = append(m.creates, m.single(a.End, a.End.Sub(a.Due)))
	m.mu.Unlock()
	m.create.Add(a.End.Sub(a.Due))
	calls.Add(a.End.Sub(a.Sent))
	if kind.Kind == "Pod" {
		m.pod(run.Key{Kind: "Pod", Namespace: m.plan.Namespace(a.Object), Name: m.plan.Name(a.Object)}, func(p *measurePod) {
			if p.sent = a.Sent; !a.Asked.IsZero() {
				p.sent = a.Asked
			}
		})
	}
}

// of returns the distribution for a kind of call. The caller holds the lock.
func (m *Meter) of(c call) *engine.Distribution {
	d := m.calls[c]
	if d == nil {
		d = engine.NewDistribution(most)
		m.calls[c] = d
	}
	return d
}

// Act records the call of an action.
func (m *Meter) Act(a run.Acted) {
	m.mu.Lock()
	d := m.of(call{a.Kind, a.Do})
	m.mu.Unlock()
	d.Add(a.End.Sub(a.Sent))
}

// Pod records a pod event.
func (m *Meter) Pod(s run.Seen) {
	if s.Owned {
		m.owned(s)
		return
	}
	m.pod(s.Key, func(p *measurePod) {
		if s.What == "ready" {
			p.ready = s.At
		} else {
			p.scheduled = s.At
		}
	})
}

// owned records an event of a pod that a controller created.
func (m *Meter) owned(s run.Seen) {
	if s.Took < 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.began.IsZero() {
		m.began = s.At
	}
	if s.What == "ready" {
		m.ready.Add(s.Took)
		m.readies = append(m.readies, m.single(s.At, s.Took))
		m.coarse.Ready++
	} else {
		m.scheduled.Add(s.Took)
		m.schedules = append(m.schedules, m.single(s.At, s.Took))
		m.coarse.Scheduled++
	}
}

func (m *Meter) pod(k run.Key, set func(*measurePod)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[k]
	if p == nil {
		p = &measurePod{}
		m.pods[k] = p
	}
	set(p)
	if p.sent.IsZero() {
		return
	}
	if !p.scheduled.IsZero() {
		m.scheduled.Add(p.scheduled.Sub(p.sent))
		m.schedules = append(m.schedules, m.single(p.scheduled, p.scheduled.Sub(p.sent)))
		p.scheduled = time.Time{}
	}
	if !p.ready.IsZero() {
		m.ready.Add(p.ready.Sub(p.sent))
		m.readies = append(m.readies, m.single(p.ready, p.ready.Sub(p.sent)))
		delete(m.pods, k)
	}
}

// Times are the distributions of a run's durations, in total and by kind of call.
type Times struct {
	// Create is the time from when an object was due until it was created. Calls is the duration of
	// the last call for it.
	Create engine.Times `json:"create"`
	Calls  []Call       `json:"calls"`
	// Scheduled and Ready are durations of pods. For the load's own pods they run from the call
	// until the watch reports the state; for controllers' pods from creation to the condition, by
	// API timestamps.
	Scheduled engine.Times `json:"scheduled"`
	Ready     engine.Times `json:"ready"`
	// WholeSeconds counts durations of controllers' pods, which are accurate to one second.
	WholeSeconds WholeSeconds `json:"whole_seconds"`
}

// WholeSeconds counts durations calculated from whole-second timestamps.
type WholeSeconds struct {
	Scheduled int64 `json:"scheduled"`
	Ready     int64 `json:"ready"`
}

// Call is the distribution of durations for one kind of call.
type Call struct {
	APIVersion string       `json:"api_version"`
	Kind       string       `json:"kind"`
	Do         string       `json:"do,omitempty"` // patch, delete or read; "" for creation
	Times      engine.Times `json:"times"`
}

// Times returns the distributions so far.
func (m *Meter) Times() Times {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := Times{Create: m.create.Times(), Scheduled: m.scheduled.Times(), Ready: m.ready.Times(), Calls: []Call{}}
	t.WholeSeconds = m.coarse
	for c, d := range m.calls {
		t.Calls = append(t.Calls, Call{c.kind.APIVersion, c.kind.Kind, c.do, d.Times()})
	}
	slices.SortFunc(t.Calls, func(a, b Call) int {
		return strings.Compare(a.Do+" "+a.Kind+a.APIVersion, b.Do+" "+b.Kind+b.APIVersion)
	})
	return t
}
