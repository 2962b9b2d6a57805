package network

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
)

// logEntry is a probe in the peer's log of a train. The times are of the peer's clock.
type logEntry struct {
	Seq        uint32
	ReceivedAt int64     // in ns
	SentAt     departure // of the reply; unset while the peer has not sent it
}

// trainLog is a part of the peer's log of a train: the probes in the order of their arrival,
// duplicates included.
type trainLog struct {
	Probes     int    `json:"probes"`                    // of the whole log
	Part       []byte `json:"part"`                      // log entries, big endian
	Overflowed int64  `json:"overflowed_probes"`         // arrived, but were dropped by a full socket buffer
	Unlogged   int64  `json:"unlogged_probes,omitempty"` // came when the log was full
}

// maxEntries is the maximum number of log entries in a message: 140 kB as base64. A log must arrive
// within 5 s for each of its messages.
const maxEntries = 5000

// maxLog is the maximum number of entries of a log. The longest train of a plan has fewer probes.
const maxLog = 1 << 22

// maxCopies is the number of times that a network may deliver a probe on average.
const maxCopies = 4

// log returns a part of the log of a train, from an entry on. All parts show the log as it was when
// the first was requested.
func (r *reflector) log(train uint32, from int) *trainLog {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.train != train {
		return &trainLog{} // no probe of it has come
	}
	if from <= 0 {
		r.reported = len(r.entries)
	}
	l := &trainLog{Probes: r.reported, Overflowed: int64(r.overflowed.count), Unlogged: r.unlogged}
	from = min(max(from, 0), r.reported)
	part := r.entries[from:min(from+maxEntries, r.reported)]
	l.Part, _ = binary.Append(nil, binary.BigEndian, part) // cannot fail: the fields have fixed sizes
	return l
}

// entries returns the log entries of the part.
func (l *trainLog) entries() ([]logEntry, error) {
	size := binary.Size(logEntry{})
	part := make([]logEntry, len(l.Part)/size)
	if _, err := binary.Decode(l.Part, binary.BigEndian, part); err != nil || len(part)*size != len(l.Part) {
		return nil, fmt.Errorf("%d bytes of a log of probes, want a multiple of %d", len(l.Part), size)
	}
	return part, nil
}

// log asks the peer for its log of a train of sent probes, and for the number of probes that found its
// buffer full.
func (c *Client) log(ctx context.Context, train uint32, sent int64) (all []logEntry, overflowed int64, err error) {
	end := time.Now().Add(greeting * time.Duration(1+sent/maxEntries))
	for probes := -1; len(all) != probes; {
		a, err := c.ask(ctx, request{Train: train, From: len(all)}, time.Until(end))
		if err != nil {
			return nil, 0, err
		}
		if a.Train == nil {
			return nil, 0, fmt.Errorf("the peer %s did not report its probes", c.Peer)
		}
		if probes < 0 {
			probes = a.Train.Probes
		}
		part, err := a.Train.entries()
		if err == nil {
			err = a.Train.check(probes, len(all), len(part), sent)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("peer %s: %w", c.Peer, err)
		}
		all, overflowed = append(all, part...), a.Train.Overflowed
	}
	return all, overflowed, nil
}

// check returns an error if a part cannot belong to the log of a train of sent probes. probes is the
// length of the log in the first part, before the number of entries in earlier parts, and n the number
// of entries in this part.
func (l *trainLog) check(probes, before, n int, sent int64) error {
	switch {
	case l.Unlogged > 0:
		return fmt.Errorf("%d probes arrived after its log of %d was full; does the network duplicate packets?", l.Unlogged, l.Probes)
	case l.Probes < 0 || int64(l.Probes) > maxCopies*sent:
		return fmt.Errorf("its log has %d probes, but %d were sent", l.Probes, sent)
	case l.Probes != probes:
		return fmt.Errorf("its log had %d probes at first, and %d later", probes, l.Probes)
	case n == 0 && before < probes || before+n > probes:
		return fmt.Errorf("its log has %d probes, but it sent %d", probes, before+n)
	}
	return nil
}
