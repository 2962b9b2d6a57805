package experiment

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// Reserved holds huge pages in the machine's pools while a benchmark runs. It has a transaction
// per pool, and a watchdog that undoes them if this process is killed.
type Reserved struct{ held }

// Reserve enlarges the pools as the plan needs. If the kernel cannot fill a pool, Reserve undoes its
// change and removes its cells from the plan. mayWrite is the reason why writing is forbidden, or nil.
func Reserve(ctx context.Context, m *tune.Machine, w tune.Watchdog, p *memory.Plan, mayWrite error) (r *Reserved, err error) {
	r = &Reserved{}
	if len(p.Reserve) == 0 {
		return r, nil
	}
	if mayWrite != nil {
		for _, pool := range p.Reserve {
			p.LeaveOut(pool.Pages, "only root can reserve huge pages")
		}
		return r, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Release(ctx))
		}
	}()
	if err := r.open(ctx, m, "bench memory"); err != nil {
		return r, err
	}
	deadline, err := deadlineAfter(m, 24*time.Hour)
	if err != nil {
		return r, err
	}
	if err := r.guard(w, deadline); err != nil {
		return r, err
	}
	for _, pool := range p.Reserve {
		change := []setting.Change{{Setting: setting.Setting{Kind: "sysfs", Name: pool.File}, Want: setting.Text(strconv.FormatInt(pool.To, 10)), Reason: setting.Reason{Text: "huge pages that fettle bench memory measures"}}}
		t := &prove.Tuning{Engine: m.Engine, Options: tune.ApplyOptions{Kind: journal.Apply, Atomic: true, Try: deadline},
			Planner: func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
				return m.PlanAsked(ctx, change, s)
			}}
		err := t.Apply(ctx)
		r.tunings = append(r.tunings, t) // also after an error: Undo decides whether there is something to undo
		incomplete := (*tune.IncompleteError)(nil)
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case errors.As(err, &incomplete), errors.Is(err, journal.ErrBusy), errors.Is(err, tune.ErrLeased):
			return r, err
		case err != nil:
			p.LeaveOut(pool.Pages, fmt.Sprintf("cannot reserve %s of this size: free memory is fragmented, or another program takes it (%s)", text.Count(pool.To-pool.From, "page"), err))
		}
	}
	return r, nil
}

// Release undoes the reservation, even after ctx has ended. If another program undid it first, it
// only says so.
func (r *Reserved) Release(ctx context.Context) error {
	return r.end(ctx, "cannot release the reserved huge pages")
}
