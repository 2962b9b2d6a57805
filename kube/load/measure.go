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

// most is the longest time that is distinguished.
const most = time.Hour

// Meter measures how long the objects of a run took: the calls for each, and for pods until
// they were scheduled and ready. Objects that the load makes itself are measured by the clock
// of this machine alone, pods of controllers by the API's timestamps.
type Meter struct {
	plan             *plan.Plan
	create           *engine.Distribution // from when it was due
	scheduled, ready *engine.Distribution

	mu sync.Mutex
	// calls are the times of the calls alone.
	calls map[call]*engine.Distribution
	pods  map[run.Key]*measurePod
	// coarse counts the times that are differences of whole seconds.
	coarse WholeSeconds
	// The individual times, in the order in which they became known, for Series.
	began                       time.Time // the first one was due
	creates, schedules, readies []single
}

// call is a kind of call: an operation on objects of a kind, "" for their creation.
type call struct {
	kind plan.Kind
	do   string
}

// measurePod is a pod between creation and readiness. The watch may precede the answer.
type measurePod struct{ sent, scheduled, ready time.Time }

// New returns a meter for the run of a plan.
func New(p *plan.Plan) *Meter {
	return &Meter{
		plan: p, create: engine.NewDistribution(most), scheduled: engine.NewDistribution(most), ready: engine.NewDistribution(most),
		calls: map[call]*engine.Distribution{}, pods: map[run.Key]*measurePod{},
	}
}

// Answer counts the answer to a request. Objects created by an earlier process have no time.
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

// of returns the distribution of a kind of call. The caller holds the lock.
func (m *Meter) of(c call) *engine.Distribution {
	d := m.calls[c]
	if d == nil {
		d = engine.NewDistribution(most)
		m.calls[c] = d
	}
	return d
}

// Act counts the call of an action.
func (m *Meter) Act(a run.Acted) {
	m.mu.Lock()
	d := m.of(call{a.Kind, a.Do})
	m.mu.Unlock()
	d.Add(a.End.Sub(a.Sent))
}

// Pod records an event of a pod.
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

// owned records an event of a pod that a controller has created.
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

// Times are the distributions of all times, and of the calls by kind.
type Times struct {
	// Create is the time from when an object was due until it was created, Calls the time of its
	// last call alone.
	Create engine.Times `json:"create"`
	Calls  []Call       `json:"calls"`
	// Scheduled and Ready are times of pods: for the load's own pods from the call until the watch
	// reported it, for controllers' pods from their creation until the condition became true, by
	// the API's timestamps.
	Scheduled engine.Times `json:"scheduled"`
	Ready     engine.Times `json:"ready"`
	// WholeSeconds counts the times of controllers' pods: differences of whole seconds, accurate
	// to one second.
	WholeSeconds WholeSeconds `json:"whole_seconds"`
}

// WholeSeconds counts times that are differences of whole seconds.
type WholeSeconds struct {
	Scheduled int64 `json:"scheduled"`
	Ready     int64 `json:"ready"`
}

// Call is the time of the calls for one kind.
type Call struct {
	APIVersion string       `json:"api_version"`
	Kind       string       `json:"kind"`
	Do         string       `json:"do,omitempty"` // patch, delete or read; "" for the creation
	Times      engine.Times `json:"times"`
}

// Times returns the summary.
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
