package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// train is a sequence of isochronous probes with their replies.
type train struct {
	client *Client
	id     uint32
	every  time.Duration
	size   int

	began    time.Time
	started  atomic.Int64 // probes that were sent, or are being sent
	sentAt   []departure  // of each probe
	late     int64        // sent late by this program
	lastSent time.Time

	replies replies
	ended   chan struct{} // closed when the replies are no longer read

	// Results, when the train has finished.
	up, down wayReport
	// Shares of the arrived probes, and of the replies to them, without the kernel's time at which they
	// left.
	unstampedHere, unstampedPeer float64
	rttsS                        []float64
}

// replies are the replies of a train, as they come.
type replies struct {
	mu         sync.Mutex
	way        way // without jitter, which needs the peer's log
	all        []receipt
	overflowed overflows
	longest    time.Duration // round trip, with the time in the peer's program
	last       time.Time     // when the last one came
}

// receipt is the first arrival of a reply.
type receipt struct {
	seq        uint32
	entry      uint32 // index in the peer's log
	receivedAt int64  // ns of this machine's clock
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
	defer t.stop()
	if err := t.send(ctx, run); err != nil {
		return nil, err
	}
	if err := t.finish(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// newTrain prepares a train of probes of size bytes, one each interval, and reads the replies
// until stop is called.
func (c *Client) newTrain(every time.Duration, size int) *train {
	c.trains++
	t := &train{client: c, id: c.trains, every: every, size: size, began: time.Now(), ended: make(chan struct{})}
	_ = c.udp.SetReadDeadline(time.Time{})
	go t.read()
	return t
}

func (t *train) sent() int64 { return int64(len(t.sentAt)) }

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
		for due := int64(time.Since(begin)/t.every) + 1; t.sent() < due; {
			binary.BigEndian.PutUint32(p[atSeq:], uint32(t.sent()))
			t.lastSent = time.Now()
			pacer.started(begin.Add(at(t.sent())), t.lastSent)
			binary.BigEndian.PutUint64(p[atSent:], uint64(t.lastSent.UnixNano()))
			t.started.Store(t.sent() + 1)
			at, err := c.sender.send(p, netip.AddrPort{})
			if err != nil && !isLoss(err) {
				return err
			}
			t.sentAt = append(t.sentAt, at)
		}
		if !pacer.until(begin.Add(at(t.sent()))) {
			return ctx.Err()
		}
	}
	t.late = int64(pacer.late)
	return nil
}

// read takes replies until the read deadline. It then takes those that arrived before the deadline
// and are still in the socket's buffer.
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
		case int64(binary.BigEndian.Uint32(p[atSeq:])) >= t.started.Load(): // a faulty peer
			continue
		}
		came, overflowed := arrival(oob[:m], time.Now())
		t.replies.take(p, came, overflowed)
	}
}

// take counts a reply.
func (r *replies) take(p []byte, came time.Time, overflowed uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	r.overflowed.take(overflowed)
	seq := binary.BigEndian.Uint32(p[atSeq:])
	if !r.way.take(seq, 0) {
		return
	}
	r.all = append(r.all, receipt{seq, binary.BigEndian.Uint32(p[atEntry:]), came.UnixNano()})
	r.longest = max(r.longest, time.Duration(came.UnixNano()-int64(binary.BigEndian.Uint64(p[atSent:]))))
}

// state returns the count of replies, when the last one came, and how long to wait for another.
func (t *train) state() (received int64, last time.Time, wait time.Duration) {
	t.replies.mu.Lock()
	defer t.replies.mu.Unlock()
	return t.replies.way.received, t.replies.last, min(lastWait, tail+3*max(t.client.RTT, t.replies.longest))
}

// finish waits for probes in flight, and asks the peer for its log. The peer answers when it has
// replied to all received probes, so a slow program on either side loses none.
func (t *train) finish(ctx context.Context) error {
	t.await(ctx, t.sent(), t.lastSent)
	entries, overflowed, err := t.client.log(ctx, t.id, t.sent())
	if err != nil {
		return err
	}
	var up way
	for _, e := range entries {
		up.take(e.Seq, 0)
	}
	t.await(ctx, up.received, time.Now())
	t.stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return t.sum(entries, overflowed)
}

// sum computes the results from the peer's log, and its count of probes that found its buffer full.
func (t *train) sum(entries []logEntry, overflowed int64) error {
	seconds := func(from, to int64) float64 { return float64(to-from) / 1e9 }
	var up, down way
	for _, e := range entries {
		if err := t.check(e); err != nil {
			return err
		}
		up.take(e.Seq, seconds(t.sentAt[e.Seq].At, e.ReceivedAt))
		if !t.sentAt[e.Seq].Kernel {
			t.unstampedHere++
		}
		if !e.SentAt.Kernel {
			t.unstampedPeer++
		}
	}
	most := t.sent() - up.received
	if up.duplicates > 0 { // the network duplicates probes, of which some may have been dropped
		most = maxCopies*t.sent() - int64(len(entries))
	}
	if overflowed < 0 || overflowed > most {
		return fmt.Errorf("the peer %s reported that its full buffer dropped %d probes, but %d were sent, of which it received %d", t.client.Peer, overflowed, t.sent(), up.received)
	}
	for _, r := range t.replies.all {
		// A reply may come that the log does not have, or has without the time at which it was sent: the
		// peer waits only a limited time.
		if int(r.entry) >= len(entries) || entries[r.entry].Seq != r.seq || entries[r.entry].SentAt == (departure{}) {
			continue
		}
		e := entries[r.entry]
		down.take(r.seq, seconds(e.SentAt.At, r.receivedAt))
		t.rttsS = append(t.rttsS, seconds(t.sentAt[r.seq].At, r.receivedAt)-seconds(e.ReceivedAt, e.SentAt.At))
	}
	t.up, t.down = up.report(overflowed), down.report(int64(t.replies.overflowed.count))
	t.unstampedHere /= float64(max(1, len(entries)))
	t.unstampedPeer /= float64(max(1, len(entries)))
	return nil
}

// check returns an error if an entry of the peer's log cannot belong to the train.
func (t *train) check(e logEntry) error {
	if int64(e.Seq) >= t.sent() {
		return fmt.Errorf("the peer %s reported a probe that was not sent; use the same version of fettle on both machines", t.client.Peer)
	}
	if e.SentAt == (departure{}) {
		return nil
	}
	// The peer's clock may run a little faster than this machine's.
	after, most := e.SentAt.At-e.ReceivedAt, time.Since(t.began)+tail
	if e.SentAt.At < e.ReceivedAt || uint64(after) > uint64(most) {
		return fmt.Errorf("the peer %s reported a reply %v after the probe had come; if its clock was set during the run, repeat it", t.client.Peer, time.Duration(after))
	}
	return nil
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

// stop ends the reading of replies. It may be called again.
func (t *train) stop() {
	_ = t.client.udp.SetReadDeadline(time.Now())
	<-t.ended
}

// lost returns the shares of the probes that were lost on each way. Probes that were dropped by a
// full buffer of this program or of the peer were not lost by the network.
func (t *train) lost() (up, down float64) {
	share := func(came wayReport, of int64) float64 {
		if of == 0 {
			return 0
		}
		return max(0, 1-float64(came.Received+came.Overflowed)/float64(of))
	}
	return share(t.up, t.sent()), share(t.down, t.up.Received)
}

// sample returns the values of a train.
func (t *train) sample() (sample, error) {
	if t.down.Received == 0 {
		return nil, fmt.Errorf("%d UDP probes were sent, the peer received %d, and no answer arrived; a firewall may drop UDP", t.sent(), t.up.Received)
	}
	up, down := t.lost()
	v := sample{
		jitterUp: t.up.JitterS, jitterDown: t.down.JitterS, lossUp: up, lossDown: down,
		orderUp: float64(t.up.Reordered) / float64(t.up.Received), orderDown: float64(t.down.Reordered) / float64(t.down.Received),
		lateStarts: float64(t.late) / float64(max(1, t.sent())), unstampedHere: t.unstampedHere, unstampedPeer: t.unstampedPeer,
	}
	v.setTimes(t.rttsS, p99)
	return v, nil
}
