package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// Result is the result of a defragmentation.
type Result struct {
	Schema string `json:"schema"` // fettle/etcd-defragment/v1
	// Headline is set by kubectl fettle check --defragment.
	Headline ui.Headline `json:"headline"`
	Plan
	// Compacted reports whether the history before CompactTo was removed.
	Compacted bool `json:"compacted"`
	// Done are the processed members, in order.
	Done []Done `json:"done"`
	// Left are the members that were not processed because of an earlier failure.
	Left []string `json:"left"`
}

// Schema is the schema of Result's JSON.
const Schema = "fettle/etcd-defragment/v1"

// Done is the result for one member.
type Done struct {
	Endpoint    string `json:"endpoint"`
	Leader      bool   `json:"leader"`
	BeforeBytes uint64 `json:"before_bytes"` // size of its database
	AfterBytes  uint64 `json:"after_bytes"`
	// Skipped is why the member was not defragmented, or "".
	Skipped   string  `json:"skipped,omitempty"`
	DurationS float64 `json:"duration_s"`
}

// Work carries out defragmentation plans.
type Work struct {
	Members []*Member
	// Tell receives each completed step; it may be nil.
	Tell func(text string)
	// Settle limits the wait for healthy members after each step.
	Settle time.Duration
	// Look is the interval between health checks.
	Look time.Duration
	// Calm is how long the size in use must stay constant after a compaction before Work trusts it.
	// Members remove history in the background, and update the free size with later writes (3.4.23:
	// from the second write on). Without writes a member reports old figures, but a Kubernetes
	// cluster writes every second.
	Calm time.Duration
}

// ErrStopped means that the work stopped because the cluster was unhealthy after a step.
var ErrStopped = errors.New("stopped")

// Run compacts, then defragments the members above the limits one by one, the leader last. All
// members must be healthy before each step. Completed steps stay, and Run returns their result even
// with an error.
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
			done.Skipped = "free space in its database is below the limits"
			w.tell("%s: %s", m.URL, done.Skipped)
		} else if err := w.one(ctx, m, s, &done); err != nil {
			return err
		}
		r.Done = append(r.Done, done)
		delete(left, m.URL)
	}
	return nil
}

// calm waits after a compaction until no member's size in use shrinks any more, or Settle has
// passed. It ignores changes below 1 % of a database, because clients write meanwhile.
func (w *Work) calm(ctx context.Context) error {
	end := time.Now().Add(w.Settle)
	before, since := map[string]uint64{}, time.Now()
	for {
		began := time.Now() // count only time in which the member was observed
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
		if host.Sleep(ctx, w.Look) != nil {
			return ctx.Err()
		}
	}
}

// next returns the next member to defragment: a follower, or else the leader, which may have
// changed.
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

// one defragments a member, and waits until the cluster is healthy and the member has caught up. It
// ignores cancellation, because the member would continue anyway.
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

// settle waits until all members are healthy and have applied the log entry index.
func (w *Work) settle(ctx context.Context, index uint64) error {
	end := time.Now().Add(w.Settle)
	for {
		err := caughtUp(ctx, w.Members, index)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the cluster is not healthy again after %s: %w", w.Settle, err)
		}
		if host.Sleep(ctx, w.Look) != nil {
			return ctx.Err()
		}
	}
}

func (w *Work) tell(format string, args ...any) {
	if w.Tell != nil {
		w.Tell(fmt.Sprintf(format, args...))
	}
}
