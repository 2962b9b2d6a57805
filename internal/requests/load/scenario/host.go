package scenario

import (
	"errors"
	"math/rand/v2"
	"net/http/cookiejar"
	"slices"
	"time"

	"fettle.dev/fettle/internal/requests/load/engine"
)

// virtual is a virtual host: its values and its connections.
type virtual struct {
	*run
	number   int
	values   []value
	think    rand.PCG
	clients  []client
	jar      *cookiejar.Jar // nil until the first cookie
	sessions []*session
	made     []made // objects
}

// client is a connection of a host to a server.
type client struct {
	target *target
	*engine.HTTP1Client
}

// host returns host n with its data.
func (r *run) host(n int) *virtual {
	h := &virtual{run: r, number: n, values: make([]value, len(r.plan.names.slots))}
	copy(h.values, r.shared)
	r.plan.builtins(h.values, n)
	r.plan.drawAll(h.values, n, r.plan.Seed)
	h.think = *rand.NewPCG(r.plan.Seed, uint64(n)|1<<40)
	return h
}

// close ends the host's connections.
func (h *virtual) close() {
	for _, c := range h.clients {
		h.drop(c.HTTP1Client)
	}
	h.clients = nil
	h.leave()
}

// pass runs all steps once. due is the intended start. It reports whether all succeeded.
func (h *virtual) pass(due time.Duration) bool {
	began, total := due, outcome{}
	for _, s := range h.plan.steps {
		if h.going.Err() != nil {
			total.cause = string(engine.Interrupted)
			break
		}
		o := h.one(s, due)
		if due = max(o.end, o.next); o.cause == "" {
			continue
		}
		if total.cause == "" {
			total.cause, total.err, total.waited = o.cause, o.err, o.waited
		}
		if !s.continues || o.cause == string(engine.Interrupted) {
			break
		}
	}
	h.hosts.add(began, due, &total)
	h.settle()
	h.ended.Add(1)
	return total.cause == ""
}

// one runs a step, after its think time and for each element of its list.
func (h *virtual) one(s *step, due time.Duration) outcome {
	if s.think.most > 0 {
		due += s.think.draw(&h.think)
		if h.sleep(due) != nil {
			return outcome{cause: string(engine.Interrupted), end: due}
		}
	}
	if s.once {
		return h.meetings.meet(h, s, due)
	}
	return h.step(s, due)
}

// draw returns a uniform time of a span.
func (t span) draw(from *rand.PCG) time.Duration {
	if t.most == t.least {
		return t.least
	}
	return t.least + time.Duration(from.Uint64()%uint64(t.most-t.least+1))
}

// sleep waits until a time of the run.
func (h *virtual) sleep(until time.Duration) error {
	return h.sleeper.Until(h.going, h.begin.Add(until))
}

// step runs a step and counts it. It returns the last outcome.
func (h *virtual) step(s *step, due time.Duration) (o outcome) {
	if s.each == nil {
		return h.counted(s, due)
	}
	list := h.values[s.each.list]
	if !list.isSet {
		o = outcome{cause: notSet, err: errors.New("the list of for_each is not set"), end: due}
		h.tallies[s.index].add(due, due, &o)
		return o
	}
	o.end = due
	for _, element := range list.list {
		h.values[s.each.element] = value{text: element, isSet: true}
		next := h.counted(s, max(o.end, o.next))
		if next.cause != "" && o.cause == "" {
			o = next
			if !s.continues {
				return o
			}
		}
		o.end, o.next = next.end, next.next
	}
	return o
}

// counted runs a step once and counts it.
func (h *virtual) counted(s *step, due time.Duration) (o outcome) {
	if slices.ContainsFunc(s.uses, func(at slot) bool { return !h.values[at].isSet }) {
		o = outcome{cause: notSet, err: errors.New("a value is not set, because the step that sets it failed"), end: due}
	} else {
		due = h.do(s, due, &o)
	}
	if o.cause != "" && h.ctx.Err() != nil {
		o.cause, o.err = string(engine.Interrupted), nil
	}
	h.tallies[s.index].add(due, o.end, &o)
	return o
}

// do runs a step once. It returns the intended start, which is later if an object had to be
// recorded before the request.
func (h *virtual) do(s *step, due time.Duration, o *outcome) time.Duration {
	for i := range s.takes {
		h.values[s.takes[i].slot] = value{} // that of an earlier run must not remain
	}
	switch {
	case s.http != nil:
		return h.http(s, due, o)
	case s.wait != nil:
		h.await(s, o)
	case s.mqtt != nil:
		h.message(s, o)
	default:
		h.execute(s, o)
	}
	return due
}

// fail sets the cause of a failure.
func (o *outcome) fail(cause string, err error) { o.cause, o.err = cause, err }

// failed sets the failure of an exchange.
func (o *outcome) failed(a engine.Answer) {
	o.cause, o.err, o.waited = string(a.Failure), a.Err, a.Failure.Waited()
}
