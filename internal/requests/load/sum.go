package load

import (
	"slices"
	"sync"

	"fettle.dev/fettle/internal/requests/load/fleet"
)

// sum is how a load of several clients goes.
type sum struct {
	mu   sync.Mutex
	last []fleet.Now
	told []bool // since the sum was told
	idle []bool // those that have nothing to say
	tell func(fleet.Now)
}

// add takes what a client says. Once each has said something it tells of all: their
// answers together, and the times and errors of the one that has the highest.
func (s *sum) add(client int, now fleet.Now) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[client], s.told[client] = now, true
	if slices.Contains(s.told, false) {
		return
	}
	var all fleet.Now
	for _, n := range s.last {
		all.At = max(all.At, n.At)
		all.AnswerRate += n.AnswerRate
		all.P50S, all.P99S, all.ErrorShare = max(all.P50S, n.P50S), max(all.P99S, n.P99S), max(all.ErrorShare, n.ErrorShare)
	}
	clear(s.told)
	copy(s.told, s.idle)
	s.tell(all)
}
