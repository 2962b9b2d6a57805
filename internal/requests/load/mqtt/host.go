package mqtt

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
)

// host is the state of a simulated host.
type host struct {
	name       string
	mqtt, http *engine.Dialer
	// latency is the time from when the host was due to connect until the broker granted its
	// topics. It is -1 if the broker did not.
	latency time.Duration
	session *Session // nil unless connected
}

// failures counts failures by kind.
type failures map[string]engine.FailureCount

func (f failures) add(kind string, err error) {
	x := f[kind]
	if x.N++; x.Example == "" && err != nil {
		x.Example = evidence.EscapeInvalidUTF8(err.Error())
	}
	f[kind] = x
}

// kinds returns the kinds, most frequent first.
func (f failures) kinds() []string {
	kinds := slices.Sorted(maps.Keys(f))
	slices.SortStableFunc(kinds, func(a, b string) int { return int(f[b].N - f[a].N) })
	return kinds
}

// Kinds of failure, in addition to the values of engine.Failure.
const (
	notLetIn  = "connack-refused"
	notHeard  = "subscription-denied"
	closedOff = string(engine.Closed)
)

// KindOf returns the kind of failure for a session's error.
func KindOf(err error) string {
	var refused *refusedError
	var unreached *connectError
	connecting := errors.As(err, &unreached)
	switch {
	case errors.As(err, &refused):
		return notLetIn
	case errors.Is(err, errDenied):
		return notHeard
	// A broker at its limit may also close the connection before the TLS handshake.
	case connecting && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		return closedOff
	}
	return string(engine.Failed(err, connecting).Failure)
}

func (r *Prepared) session(i int) *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hosts[i].session
}

// connectAll starts each host when it is due, independent of earlier hosts. It returns when
// all hosts are connected or have failed.
func (r *Prepared) connectAll(ctx context.Context) {
	var opening sync.WaitGroup
	for i := range r.hosts {
		at := r.due(i)
		if ctx.Err() != nil || r.now() < at && !r.alarm.Until(r.begin.Add(at)) {
			break
		}
		opening.Add(1)
		r.wait.Go(func() { r.live(ctx, i, at, &opening) })
	}
	opening.Wait()
}

// due returns when host i is due to connect, since the beginning.
func (r *Prepared) due(i int) time.Duration { return perSecond(i, r.plan.ConnectRate) }

// perSecond returns when event i is due at a given rate per second.
func perSecond(i int, rate float64) time.Duration {
	return time.Duration(float64(i) / rate * float64(time.Second))
}

// live runs a host: it connects and listens until the end of the run.
func (r *Prepared) live(ctx context.Context, i int, at time.Duration, opening *sync.WaitGroup) {
	s := r.connect(ctx, i, at)
	opening.Done()
	if s == nil {
		return
	}
	defer s.Close()
	for {
		m, err := s.Next()
		if err == nil {
			r.receive(i, m)
			err = s.Acknowledge(m, r.begin.Add(r.now()))
		}
		if err != nil {
			r.gone(ctx, i, err)
			return
		}
	}
}

// connect connects a host. It returns nil if connecting fails or ctx ends.
func (r *Prepared) connect(ctx context.Context, i int, at time.Duration) *Session {
	h := &r.hosts[i]
	until := r.until()
	s, err := Open(h.mqtt, h.name, keepAlive, until)
	if err == nil {
		if err = s.Subscribe(until, topics(h.name)...); err != nil {
			s.Close()
		}
	}
	end := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if ctx.Err() != nil {
			return nil // interrupted
		}
		r.refused++
		if r.firstRefused < 0 {
			r.firstRefused = r.taken
		}
		r.why.add(KindOf(err), err)
		return nil
	}
	r.taken++
	h.session, h.latency = s, end-at
	return s
}

// receive processes a message that a host received.
func (r *Prepared) receive(i int, m *Message) {
	r.mu.Lock()
	o := r.round
	if o == nil || m.Topic != jobTopic(r.hosts[i].name) {
		r.foreign++
		o = nil
	}
	r.mu.Unlock()
	if o == nil {
		return
	}
	job, attempt, ok := o.id.read(m.Payload)
	if !ok || job != i {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.foreign++
		return
	}
	o.arrived(job, attempt)
}

// gone records the end of a host's connection. It counts as lost unless the run is ending.
func (r *Prepared) gone(ctx context.Context, i int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts[i].session = nil
	if r.leaving || ctx.Err() != nil {
		return
	}
	r.lost++
	r.whyLost.add(KindOf(err), err)
}

// leave disconnects all hosts and waits until the broker has closed their connections.
func (r *Prepared) leave(ctx context.Context) {
	r.mu.Lock()
	r.leaving = true
	r.mu.Unlock()
	for i := range r.hosts {
		if s := r.session(i); s != nil && ctx.Err() == nil {
			_ = s.Disconnect(r.begin.Add(r.now())) // the connection is closed below in any case
		}
	}
	all := make(chan struct{})
	go func() { r.wait.Wait(); close(all) }()
	select {
	case <-all:
	case <-ctx.Done():
	case <-time.After(r.plan.Timeout):
	}
	for i := range r.hosts {
		if s := r.session(i); s != nil {
			s.Close()
		}
	}
}
