package network

import "math"

// way has the counts of one direction of a train.
type way struct {
	received   int64
	next       uint32 // the expected sequence number
	reordered  int64  // came after a later one (RFC 4737)
	duplicates int64  // came a second time
	seen       map[uint32]bool
	jitter     float64 // sum of the differences of transit times between neighbors, in seconds
	transit    float64 // of the last one
}

// take counts a datagram with its transit time, which may include the difference of two clocks. It
// reports whether the datagram came for the first time.
func (w *way) take(seq uint32, transit float64) bool {
	if w.seen == nil {
		w.seen = map[uint32]bool{}
	}
	if w.seen[seq] {
		w.duplicates++
		return false
	}
	w.seen[seq] = true
	if w.received > 0 {
		w.jitter += math.Abs(transit - w.transit)
	}
	w.transit = transit
	w.received++
	if seq >= w.next {
		w.next = seq + 1
	} else {
		w.reordered++
	}
	return true
}

// wayReport is the count of one direction of a train.
type wayReport struct {
	Received   int64
	Reordered  int64
	Duplicates int64
	// Overflowed is the number of datagrams that arrived, but were dropped by a full socket buffer.
	Overflowed int64
	// JitterS is the mean difference of the transit times of neighbors. RFC 3550 (6.4.1) smooths the
	// same difference over the last 16 or so, which is noisier.
	JitterS float64
}

func (w *way) report(overflowed int64) wayReport {
	return wayReport{Received: w.received, Reordered: w.reordered, Duplicates: w.duplicates, Overflowed: overflowed, JitterS: w.jitter / float64(max(1, w.received-1))}
}

// overflows counts the datagrams that found a socket's buffer full during a train.
type overflows struct {
	begun bool
	first uint32 // the socket's count when the first datagram of the train came
	count uint32
}

// take takes the socket's count from a datagram.
func (o *overflows) take(total uint32) {
	if !o.begun {
		o.begun, o.first = true, total
	}
	o.count = total - o.first
}
