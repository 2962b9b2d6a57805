package scenario

import (
	"errors"
	"maps"
	"sync"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// meetings are the meeting points of a run: steps that one host runs when all others that have
// not failed wait for it.
type meetings struct {
	mu    sync.Mutex
	alive int // hosts that have not ended
	all   map[*step]*meeting
}

type meeting struct {
	arrived int
	runner  chan struct{} // gets a token when all have arrived
	done    chan struct{} // closed after the step
	over    bool
	outcome outcome
	values  map[slot]value
}

func newMeetings(steps []*step, hosts int) *meetings {
	m := &meetings{alive: hosts, all: map[*step]*meeting{}}
	for _, s := range steps {
		if s.once {
			m.all[s] = &meeting{runner: make(chan struct{}, 1), done: make(chan struct{})}
		}
	}
	return m
}

// leave removes hosts that have ended.
func (m *meetings) leave(n int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive -= n
	for one := range maps.Values(m.all) {
		m.check(one)
	}
}

// check lets one host run the step if all have arrived.
func (m *meetings) check(one *meeting) {
	if one.arrived > 0 && one.arrived >= m.alive && !one.over {
		one.over = true
		one.runner <- struct{}{}
	}
}

// meet waits for the other hosts. One of them runs the step; the others go on with the values
// that it took.
func (m *meetings) meet(h *virtual, s *step, due time.Duration) outcome {
	one := m.all[s]
	m.mu.Lock()
	one.arrived++
	m.check(one)
	m.mu.Unlock()
	select {
	case <-h.ctx.Done():
		return outcome{cause: string(engine.Interrupted), end: due}
	case <-one.runner:
		one.outcome = h.step(s, h.now())
		one.values = map[slot]value{}
		for i := range s.takes {
			one.values[s.takes[i].slot] = h.values[s.takes[i].slot]
		}
		close(one.done)
		return one.outcome
	case <-one.done:
	}
	for at, v := range one.values {
		h.values[at] = v
	}
	if one.outcome.cause != "" {
		return outcome{cause: gaveUp, err: errors.New("the host that ran the step failed"), end: h.now()}
	}
	return outcome{end: h.now()}
}
