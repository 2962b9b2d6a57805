package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Reserved holds huge pages in the machine's pools while a benchmark runs. It has a transaction
// per pool, and a watchdog that undoes them if this process is killed.
type Reserved struct {
	pools    []*prove.Tuning
	watchdog *watchdog
	lease    *os.File
}

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
	if how := tune.LeftBehind(m.StateDir); how != "" {
		return nil, ui.Hinted(ui.Refused, errors.New("an experiment and its watchdog were killed before the change was undone"),
			how+"; then rm "+filepath.Join(m.StateDir, "experiment"))
	}
	if r.lease, err = tune.Lease(m.StateDir); err != nil {
		return nil, leased(m, err)
	}
	m.Wait = patience // a busy journal would look like a kernel error
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Release(ctx))
		}
	}()
	if err := undoExperiments(ctx, m, 0); err != nil {
		return nil, err
	}
	deadline, err := deadlineAfter(m, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	if r.watchdog, err = guard(w, deadline, "", "/", r.lease); err != nil {
		return nil, err
	}
	for _, pool := range p.Reserve {
		change := []setting.Change{{Setting: setting.Setting{Kind: "sysfs", Name: pool.File}, Want: setting.Text(strconv.FormatInt(pool.To, 10)), Reason: setting.Reason{Text: "huge pages that fettle bench memory measures"}}}
		t := &prove.Tuning{Engine: m.Engine, Options: tune.ApplyOptions{Kind: journal.Apply, Atomic: true, Try: deadline},
			Planner: func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
				return m.PlanAsked(ctx, change, s)
			}}
		err := t.Apply(ctx)
		r.pools = append(r.pools, t) // also after an error: Undo decides whether there is something to undo
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

// Release undoes the reservation, even after ctx has ended.
func (r *Reserved) Release(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for i := len(r.pools) - 1; i >= 0; i-- {
		errs = append(errs, r.pools[i].Undo(ctx))
	}
	err := errors.Join(errs...)
	if err == nil && r.watchdog != nil {
		r.watchdog.dismiss()
	}
	if r.lease != nil {
		if err == nil {
			_ = tune.End(r.lease)
		}
		_ = r.lease.Close()
	}
	r.pools, r.watchdog, r.lease = nil, nil, nil
	if err != nil {
		return ui.Hinted(ui.Incomplete, fmt.Errorf("cannot release the reserved huge pages: %w", err), "try again with fettle undo")
	}
	return nil
}
