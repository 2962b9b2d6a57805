// Package measure counts how long the objects of a run took: the call that makes each, and
// for pods until they were scheduled and ready, by the clock of this machine alone.
package measure

import (
	"slices"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/kube/load/drive"
	"fettle.dev/fettle/internal/kube/load/follow"
	"fettle.dev/fettle/internal/kube/load/journal"
	"fettle.dev/fettle/internal/kube/load/plan"
	"fettle.dev/fettle/internal/load/meter"
)

// most is the longest time that is told apart.
const most = time.Hour

// Meter counts.
type Meter struct {
	plan             *plan.Plan
	create           *meter.Distribution // from when it was due
	scheduled, ready *meter.Distribution

	mu sync.Mutex
	// calls are the times of the calls alone, by kind.
	calls map[plan.Kind]*meter.Distribution
	pods  map[follow.Key]*pod
	// The single times, in the order in which they were known, for Series.
	began                       time.Time // the first one was due
	creates, schedules, readies []single
}

// pod is one between its making and being ready. The watch may be before the answer.
type pod struct{ sent, scheduled, ready time.Time }

// New makes a meter for the run of a plan.
func New(p *plan.Plan) *Meter {
	return &Meter{
		plan: p, create: meter.NewDistribution(most), scheduled: meter.NewDistribution(most), ready: meter.NewDistribution(most),
		calls: map[plan.Kind]*meter.Distribution{}, pods: map[follow.Key]*pod{},
	}
}

// Answer counts what came of a request. How long it took to make what a process before this
// one has made nobody knows.
func (m *Meter) Answer(a drive.Answer) {
	if a.Was != journal.Created || a.Found {
		return
	}
	kind := m.plan.Kind(a.Object)
	m.mu.Lock()
	calls := m.calls[kind]
	if calls == nil {
		calls = meter.NewDistribution(most)
		m.calls[kind] = calls
	}
	if m.began.IsZero() {
		m.began = a.Due
	}
	m.creates = append(m.creates, m.single(a.End, a.End.Sub(a.Due)))
	m.mu.Unlock()
	m.create.Add(a.End.Sub(a.Due))
	calls.Add(a.End.Sub(a.Sent))
	if kind.Kind == "Pod" {
		m.pod(follow.Key{Kind: "Pod", Namespace: m.plan.Namespace(a.Object), Name: m.plan.Name(a.Object)}, func(p *pod) {
			if p.sent = a.Sent; !a.Asked.IsZero() {
				p.sent = a.Asked
			}
		})
	}
}

// Pod counts what was first seen of a pod. Pods that controllers make have no beginning
// that is known here, and are not counted.
func (m *Meter) Pod(k follow.Key, what string, at time.Time) {
	m.pod(k, func(p *pod) {
		if what == "ready" {
			p.ready = at
		} else {
			p.scheduled = at
		}
	})
}

func (m *Meter) pod(k follow.Key, set func(*pod)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[k]
	if p == nil {
		p = &pod{}
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

// Times of the three, and of the calls by kind.
type Times struct {
	// Create is from when an object was due until it was made, Calls the time of the last
	// call for it alone.
	Create meter.Times `json:"create"`
	Calls  []Call      `json:"calls"`
	// Scheduled and Ready are from the call until the watch said so, of pods that the load
	// makes itself.
	Scheduled meter.Times `json:"scheduled"`
	Ready     meter.Times `json:"ready"`
}

// Call is the time of the calls for one kind.
type Call struct {
	APIVersion string      `json:"api_version"`
	Kind       string      `json:"kind"`
	Times      meter.Times `json:"times"`
}

// Times sums it up.
func (m *Meter) Times() Times {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := Times{Create: m.create.Times(), Scheduled: m.scheduled.Times(), Ready: m.ready.Times(), Calls: []Call{}}
	for k, d := range m.calls {
		t.Calls = append(t.Calls, Call{k.APIVersion, k.Kind, d.Times()})
	}
	slices.SortFunc(t.Calls, func(a, b Call) int {
		return strings.Compare(a.Kind+a.APIVersion, b.Kind+b.APIVersion)
	})
	return t
}
