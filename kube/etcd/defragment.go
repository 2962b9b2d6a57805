package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Result is what a defragmentation has done.
type Result struct {
	Schema string `json:"schema"` // fettle/etcd-defragment/v1
	Plan
	// Compacted reports whether history before CompactTo is gone.
	Compacted bool `json:"compacted"`
	// Done are the members, in the order of the work.
	Done []Done `json:"done"`
	// Left are those that were not reached, because something went wrong before them.
	Left []string `json:"left"`
}

// Schema names the JSON form of Result.
const Schema = "fettle/etcd-defragment/v1"

// Done is what became of a member.
type Done struct {
	Endpoint    string `json:"endpoint"`
	Leader      bool   `json:"leader"`
	BeforeBytes uint64 `json:"before_bytes"` // of its database
	AfterBytes  uint64 `json:"after_bytes"`
	// Skipped says why it was left as it is; "" for a member that was defragmented.
	Skipped   string  `json:"skipped,omitempty"`
	DurationS float64 `json:"duration_s"`
}

// Work carries plans out.
type Work struct {
	Members []*Member
	// Tell is called with each step as it is done; it may be nil.
	Tell func(text string)
	// Settle is how long the members may take to be well again after each step.
	Settle time.Duration
	// Look is how often they are looked at meanwhile.
	Look time.Duration
	// Calm is how long what is in use has to stay as it is after a compaction until it is
	// believed. Members drop history in the background, and count what is free as they
	// commit the writes of others (measured with 3.4.23: the second one from then on). A
	// member without writes reports its old figures; a cluster of Kubernetes is
	// written to every second.
	Calm time.Duration
}

// ErrStopped means that a step was not followed by health, and nothing more was done.
var ErrStopped = errors.New("stopped")

// Run compacts, and defragments the members that are above the limits then, one after the
// other, the leader last. Before each step all members have to be well. The result is
// what was done, also with an error; what was done stays.
func (w *Work) Run(ctx context.Context, p *Plan) (*Result, error) {
	r := &Result{Schema: Schema, Plan: *p, Done: []Done{}, Left: []string{}}
	if len(w.Members) == 0 {
		return r, errNobody
	}
	left := map[string]*Member{}
	for _, m := range w.Members {
		left[m.URL] = m
	}
	err := w.run(ctx, p, r, left)
	for url := range left {
		r.Left = append(r.Left, url)
	}
	slices.Sort(r.Left)
	return r, err
}

func (w *Work) run(ctx context.Context, p *Plan, r *Result, left map[string]*Member) error {
	if p.CompactTo > 0 {
		w.tell("history before revision %d is compacted", p.CompactTo)
		if err := w.Members[0].compact(ctx, p.CompactTo); err != nil {
			return fmt.Errorf("compaction: %w", err)
		}
		r.Compacted = true
		if err := w.calm(ctx); err != nil {
			return err
		}
	}
	for len(left) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := observe(ctx, w.Members)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrStopped, err)
		}
		m := w.next(s, left)
		before := s.status[m.URL]
		done := Done{Endpoint: m.URL, Leader: before.Leader == before.Member, BeforeBytes: before.DatabaseBytes, AfterBytes: before.DatabaseBytes}
		if !p.Limits.worth(before.DatabaseBytes, before.InUseBytes) {
			done.Skipped = "what is free in its database is not above the limits"
			w.tell("%s: %s", m.URL, done.Skipped)
		} else if err := w.one(ctx, m, s, &done); err != nil {
			return err
		}
		r.Done = append(r.Done, done)
		delete(left, m.URL)
	}
	return nil
}

// calm waits after a compaction until no member gives back any more, or for as long as
// the cluster may take to settle. Clients write meanwhile, so that a hundredth of a
// database counts for nothing.
func (w *Work) calm(ctx context.Context) error {
	end := time.Now().Add(w.Settle)
	before, since := map[string]uint64{}, time.Now()
	for {
		began := time.Now() // only time in which the member is observed counts
		for _, m := range w.Members {
			x, err := m.Status(ctx)
			if err != nil {
				return fmt.Errorf("%w after the compaction: %w", ErrStopped, err)
			}
			if was, known := before[m.URL]; !known || x.InUseBytes+x.DatabaseBytes/100 < was {
				before[m.URL], since = x.InUseBytes, time.Now()
			}
		}
		if began.Sub(since) >= w.Calm || began.After(end) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(w.Look):
		}
	}
}

// next is the member whose turn it is: any that follows, and the leader when no other is
// left. Who leads may have changed meanwhile.
func (w *Work) next(s *state, left map[string]*Member) *Member {
	var leader *Member
	for _, m := range w.Members {
		x := s.status[m.URL]
		switch {
		case left[m.URL] == nil:
		case x.Leader != x.Member:
			return m
		default:
			leader = m
		}
	}
	return leader
}

// one defragments a member, and waits until the cluster is well and the member has what
// the others have. It is not interrupted: the member would go on anyway.
func (w *Work) one(ctx context.Context, m *Member, s *state, done *Done) error {
	w.tell("%s is defragmented", m.URL)
	var index uint64
	for _, x := range s.status {
		index = max(index, x.Applied)
	}
	began := time.Now()
	whole := context.WithoutCancel(ctx)
	if err := m.defragment(whole); err != nil {
		return fmt.Errorf("%s: %w", m.URL, err)
	}
	done.DurationS = time.Since(began).Seconds()
	if err := w.settle(whole, index); err != nil {
		return fmt.Errorf("%w after %s: %w", ErrStopped, m.URL, err)
	}
	x, err := m.Status(whole)
	if err != nil {
		return err
	}
	done.AfterBytes = x.DatabaseBytes
	return nil
}

// settle waits until all are well.
func (w *Work) settle(ctx context.Context, index uint64) error {
	end := time.Now().Add(w.Settle)
	for {
		err := caughtUp(ctx, w.Members, index)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the cluster is not well again within %s: %w", w.Settle, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(w.Look):
		}
	}
}

func (w *Work) tell(format string, args ...any) {
	if w.Tell != nil {
		w.Tell(fmt.Sprintf(format, args...))
	}
}
