package network

import (
	"context"
	"encoding/binary"
	"fmt"
)

// passage is a probe of a train at the peer.
type passage struct {
	Seq  uint32
	Came int64     // ns of the peer's clock
	Left departure // of its reply
}

// trainLog is a part of the peer's log of a train: the probes in the order of their arrival,
// duplicates included.
type trainLog struct {
	Probes     int    `json:"probes"`            // of the whole log
	Part       []byte `json:"part"`              // passages, big endian
	Overflowed int64  `json:"overflowed_probes"` // arrived, but were dropped by a full socket buffer
}

// maxPassages is the maximum number of passages in a message: 140 kB, for which a slow path has the time
// limit of an answer.
const maxPassages = 5000

// log returns a part of the log, from a probe on.
func (r *reflector) log(from int) *trainLog {
	l := &trainLog{Probes: len(r.passages), Overflowed: int64(r.overflowed.count)}
	from = min(max(from, 0), len(r.passages))
	part := r.passages[from:min(from+maxPassages, len(r.passages))]
	l.Part, _ = binary.Append(nil, binary.BigEndian, part) // cannot fail: the fields have fixed sizes
	return l
}

// passages returns the passages of the part.
func (l *trainLog) passages() ([]passage, error) {
	size := binary.Size(passage{})
	part := make([]passage, len(l.Part)/size)
	if _, err := binary.Decode(l.Part, binary.BigEndian, part); err != nil || len(part)*size != len(l.Part) {
		return nil, fmt.Errorf("%d bytes of a log of probes, want a multiple of %d", len(l.Part), size)
	}
	return part, nil
}

// log asks the peer for its log of a train, and for the number of probes that found its buffer full.
func (c *Client) log(ctx context.Context, train uint32) (all []passage, overflowed int64, err error) {
	for {
		a, err := c.ask(ctx, request{Train: train, From: len(all)}, greeting)
		if err != nil {
			return nil, 0, err
		}
		if a.Train == nil {
			return nil, 0, fmt.Errorf("the peer %s did not report its probes", c.Peer)
		}
		part, err := a.Train.passages()
		if err != nil {
			return nil, 0, fmt.Errorf("peer %s: %w", c.Peer, err)
		}
		all = append(all, part...)
		if len(part) == 0 || len(all) >= a.Train.Probes {
			return all, a.Train.Overflowed, nil
		}
	}
}
