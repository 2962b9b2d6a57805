package load

import (
	"slices"
	"sync"

	"fettle.dev/fettle/internal/requests/load/fleet"
)

// sum adds up the progress of several clients.
type sum struct {
	mu   sync.Mutex
	last []fleet.Now
	told []bool // clients that have reported since the last sum
	idle []bool // clients without a start
	tell func(fleet.Now)
}

// add records the progress of a client. Once each client has reported, it calls tell. The
// answers are added up; of the times and error shares, the highest count.
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
