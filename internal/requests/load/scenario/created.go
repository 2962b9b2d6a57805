package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// made is an object that a step creates.
type made struct {
	n    int64 // of the journal
	step *step
	show string
	// reread reports whether later steps may change the object.
	reread bool
}

// intend records durably that a step will create an object.
func (h *virtual) intend(s *step) (*made, error) {
	if h.plan.Journal == nil {
		return nil, fmt.Errorf("step %q creates an object, but no journal is open", s.name)
	}
	n, err := h.plan.Journal.intend(s.name, h.number, s.creates.name.text(h.values))
	return &made{n: n, step: s, reread: s != h.plan.steps[len(h.plan.steps)-1]}, err
}

// record records what became of an object: its id, or that the server answered with an error.
func (h *virtual) record(s *step, m *made, a *answer, o *outcome) {
	j, c := h.plan.Journal, s.creates
	defer func() { o.next = h.now() }()
	switch {
	case a.status == 0: // no answer: the object may exist
		return
	case a.status >= 400:
		o.saved(j.append(object{N: m.n, Answered: a.status}))
		return
	case o.cause != "" && !h.known(c): // without an id it cannot be found again
		o.saved(j.append(object{N: m.n, Answered: a.status}))
		return
	}
	x := object{N: m.n, ID: c.id.text(h.values), Remove: c.remove.text(h.values)}
	if c.show != nil {
		x.Show = c.show.text(h.values)
	}
	if c.unchanged != nil {
		x.Unchanged, x.Read = h.state(s, x.Show)
	}
	if !o.saved(j.append(x)) {
		return
	}
	j.created.Add(1)
	if m.show = x.Show; c.unchanged != nil && (m.reread || !x.Read) {
		h.made = append(h.made, *m)
	}
}

// saved sets the failure of writing the journal.
func (o *outcome) saved(err error) bool {
	if err != nil {
		o.fail(notSaved, err)
	}
	return err == nil
}

// known reports whether the values of an object's URLs are set.
func (h *virtual) known(c *creates) bool {
	for _, t := range []*template{c.id, c.remove, c.show} {
		if t == nil {
			continue
		}
		for _, p := range t.parts {
			if p.literal == "" && !h.values[p.slot].isSet {
				return false
			}
		}
	}
	return true
}

// state reads the value by which a change of an object is noticed. It is not counted.
func (h *virtual) state(s *step, show string) (text string, ok bool) {
	b := scratches.Get().(*scratch)
	defer b.release()
	x := httpAction{method: "GET", url: &template{parts: []part{{literal: show}}}, header: s.http.header}
	var o outcome
	a := h.request(&x, b, h.now(), true, &o)
	if o.cause != "" || a.status >= 400 {
		return "", false
	}
	texts, err := a.texts(s.creates.unchanged)
	if err != nil || len(texts) == 0 {
		return "", false
	}
	return texts[0], true
}

// settle records the state of the host's objects at its end: its own steps may have changed
// them since they were created. Objects whose turn an interruption took remain in h.made.
func (h *virtual) settle() {
	for len(h.made) > 0 {
		m := h.made[0]
		if text, ok := h.state(m.step, m.show); ok {
			_ = h.plan.Journal.append(object{N: m.n, Unchanged: text, Read: true}) // the older state remains
		} else if h.ctx.Err() != nil {
			return
		}
		h.made = h.made[1:]
	}
}

// leaveObjects leaves the objects whose state is not read to settleLeft.
func (h *virtual) leaveObjects() {
	if len(h.made) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run.left = append(h.run.left, h)
}

// settleTime bounds how long the end of a run reads the states of objects.
const settleTime = 10 * time.Second

// settleLeft records the state of objects at the end of the run: those of setup, and those of
// hosts that an interruption ended. Undo keeps objects without a state.
func (r *run) settleLeft(ctx context.Context) {
	if len(r.left) == 0 {
		return
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer end()
	again := newRun(ctx, r.plan)
	defer context.AfterFunc(ctx, again.interrupt)()
	var wait sync.WaitGroup
	turns := make(chan struct{}, settleAtATime)
	for _, h := range r.left {
		turns <- struct{}{}
		wait.Go(func() {
			h.run = again
			h.settle()
			h.close()
			<-turns
		})
	}
	wait.Wait()
}

// settleAtATime is the number of hosts whose objects are read at a time.
const settleAtATime = 16
