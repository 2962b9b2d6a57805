package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// train is a sequence of isochronous probes with their replies.
type train struct {
	client *Client
	id     uint32
	every  time.Duration
	size   int

	sent     int64
	late     int64 // sent late by this program
	lastSent time.Time
	up       trainReport // of the peer
	down     trainReport
	rttsS    []float64

	replies replies
	ended   chan struct{} // closed when the replies are no longer read
}

// replies are the replies of a train, as they come.
type replies struct {
	mu      sync.Mutex
	way     way
	rttsS   []float64
	longest time.Duration // round trip
	last    time.Time     // when the last one came
}

// tail is the time that a client waits for the last probes in addition to the round trip. lastWait
// is the maximum wait in total.
const (
	tail     = 100 * time.Millisecond
	lastWait = 5 * time.Second
)

// probes sends a train, waits for its replies, and asks the peer what it received.
func (c *Client) probes(ctx context.Context, run, every time.Duration, size int) (*train, error) {
	t := c.newTrain(every, size)
	err := t.send(ctx, run)
	if err == nil {
		err = t.finish(ctx)
	}
	t.stop()
	if err != nil {
		return nil, err
	}
	return t, nil
}

// newTrain prepares a train of probes of size bytes, one each interval, and reads the replies
// until stop is called.
func (c *Client) newTrain(every time.Duration, size int) *train {
	c.trains++
	t := &train{client: c, id: c.trains, every: every, size: size, ended: make(chan struct{})}
	_ = c.udp.SetReadDeadline(time.Time{})
	go t.read()
	return t
}

// send sends probes for the time.
func (t *train) send(ctx context.Context, run time.Duration) error {
	c := t.client
	p := make([]byte, max(t.size, probeSize))
	tag := c.session.tag()
	copy(p, tag[:])
	binary.BigEndian.PutUint32(p[atTrain:], t.id)
	p[atKind] = echoProbe
	pacer, err := newPacer(ctx, t.every)
	if err != nil {
		return err
	}
	defer pacer.close()
	at := func(n int64) time.Duration { return time.Duration(n) * t.every }
	for begin := time.Now(); time.Since(begin) < run; {
		// A sender that had to wait for a processor sends all probes that are due.
		for due := int64(time.Since(begin)/t.every) + 1; t.sent < due; t.sent++ {
			binary.BigEndian.PutUint32(p[atSeq:], uint32(t.sent))
			t.lastSent = time.Now()
			pacer.started(begin.Add(at(t.sent)), t.lastSent)
			binary.BigEndian.PutUint64(p[atSent:], uint64(t.lastSent.UnixNano()))
			if _, err := c.udp.Write(p); err != nil && !isLoss(err) {
				return err
			}
		}
		if !pacer.until(begin.Add(at(t.sent))) {
			return ctx.Err()
		}
	}
	t.late = int64(pacer.late)
	return nil
}

// read takes the replies until the read deadline, and then those that have come before it.
func (t *train) read() {
	defer close(t.ended)
	c, tag := t.client, t.client.session.tag()
	p, oob := make([]byte, 64<<10), make([]byte, 256)
	for {
		n, m, _, _, err := c.udp.ReadMsgUDPAddrPort(p, oob)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && queued(c.udp):
			_ = c.udp.SetReadDeadline(time.Now().Add(tail)) // a read after the deadline takes nothing
			continue
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return
		case err != nil || n < probeSize || [8]byte(p) != tag || p[atKind] != reply || binary.BigEndian.Uint32(p[atTrain:]) != t.id:
			continue
		}
		came, overflowed := arrival(oob[:m], time.Now())
		t.replies.take(p, came, overflowed)
	}
}

// take counts a reply.
func (r *replies) take(p []byte, came time.Time, overflowed uint32) {
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(p[i:])) }
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	r.way.overflow(overflowed)
	duplicates := r.way.duplicates
	r.way.take(binary.BigEndian.Uint32(p[atSeq:]), float64(came.UnixNano()-at(atLeft))/1e9)
	if r.way.duplicates > duplicates {
		return
	}
	rtt := came.UnixNano() - at(atSent) - (at(atLeft) - at(atCame))
	r.rttsS = append(r.rttsS, float64(rtt)/1e9)
	r.longest = max(r.longest, time.Duration(rtt))
}

// state returns the count of replies, when the last one came, and how long to wait for another.
func (t *train) state() (received int64, last time.Time, wait time.Duration) {
	t.replies.mu.Lock()
	defer t.replies.mu.Unlock()
	return t.replies.way.received, t.replies.last, min(lastWait, tail+3*max(t.client.RTT, t.replies.longest))
}

// finish waits for probes in flight, and asks the peer for its counts. The peer answers when it has
// replied to all received probes, so a slow program on either side loses none.
func (t *train) finish(ctx context.Context) error {
	t.await(ctx, t.sent, t.lastSent)
	a, err := t.client.ask(ctx, request{Train: t.id}, greeting)
	if err != nil {
		return err
	}
	if a.Train == nil {
		return fmt.Errorf("the peer %s did not report its probes", t.client.Peer)
	}
	t.up = *a.Train
	t.await(ctx, t.up.Received, time.Now())
	return ctx.Err()
}

// await waits until a number of replies have arrived, or until no more arrive.
func (t *train) await(ctx context.Context, want int64, since time.Time) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := since.Add(lastWait); time.Now().Before(end) && ctx.Err() == nil; <-tick.C {
		received, last, wait := t.state()
		if received >= want {
			return
		}
		if last.Before(since) {
			last = since
		}
		if time.Since(last) > wait && !queued(t.client.udp) {
			return
		}
	}
}

// stop ends the reading of replies.
func (t *train) stop() {
	_ = t.client.udp.SetReadDeadline(time.Now())
	<-t.ended
	t.down, t.rttsS = t.replies.way.report(), t.replies.rttsS
}

// lost returns the shares of the probes that were lost on each way. Probes that were dropped by a
// full buffer of this program or of the peer were not lost by the network.
func (t *train) lost() (up, down float64) {
	share := func(came trainReport, of int64) float64 {
		if of == 0 {
			return 0
		}
		return max(0, 1-float64(came.Received+came.Overflowed)/float64(of))
	}
	return share(t.up, t.sent), share(t.down, t.up.Received)
}

// sample returns the values of a train.
func (t *train) sample() (sample, error) {
	if t.down.Received == 0 {
		return nil, fmt.Errorf("%d UDP probes were sent, the peer received %d, and no answer came; a firewall may drop UDP", t.sent, t.up.Received)
	}
	up, down := t.lost()
	v := sample{
		jitterUp: t.up.JitterS, jitterDown: t.down.JitterS, lossUp: up, lossDown: down,
		orderUp: float64(t.up.Reordered) / float64(t.up.Received), orderDown: float64(t.down.Reordered) / float64(t.down.Received),
		lateStarts: float64(t.late) / float64(max(1, t.sent)),
	}
	v.setTimes(t.rttsS, p99)
	return v, nil
}
