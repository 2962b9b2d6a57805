package cli

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
	"fettle.dev/fettle/internal/ui"
)

// reserved are huge pages that are in the machine's pools while a bench runs: a
// transaction of the journal for each pool, and a watchdog that takes them back should
// this process be killed.
type reserved struct {
	pools    []*prove.Tuning
	watchdog *watchdog
	lease    *os.File
}

// reserve makes the pools larger. A pool that the kernel cannot fill is given back at
// once, and the plan leaves its cell out.
func (m *machine) reserve(ctx context.Context, p *memory.Plan) (r *reserved, err error) {
	r = &reserved{}
	if len(p.Reserve) == 0 {
		return r, nil
	}
	if why := mustBeRoot(); why != nil {
		for _, w := range p.Reserve {
			p.LeaveOut(w.Pages, "huge pages can only be reserved by root")
		}
		return r, nil
	}
	if how := tune.LeftBehind(m.engine.StateDir); how != "" {
		return nil, ui.Hinted(ui.Refused, errors.New("an experiment was killed together with its watchdog, and its change has not been undone"),
			how+"; then rm "+filepath.Join(m.engine.StateDir, "experiment"))
	}
	if r.lease, err = tune.Lease(m.engine.StateDir); err != nil {
		return nil, m.leaseTaken(err)
	}
	// A transaction of somebody else takes a moment, and is no answer of the kernel's.
	m.engine.Wait = patience
	defer func() {
		if err != nil {
			err = errors.Join(err, r.release(ctx))
		}
	}()
	if err := m.takeBackExperiments(ctx, 0); err != nil {
		return nil, err
	}
	deadline, err := m.deadline(24 * time.Hour)
	if err != nil {
		return nil, err
	}
	if r.watchdog, err = m.guard(deadline, "", "/", r.lease); err != nil {
		return nil, err
	}
	for _, w := range p.Reserve {
		change := []setting.Change{{Setting: setting.Setting{Kind: "sysfs", Name: w.File}, Want: setting.Text(strconv.FormatInt(w.To, 10)), Reason: setting.Reason{Text: "pages that fettle bench memory measures"}}}
		t := &prove.Tuning{Engine: m.engine, Options: tune.ApplyOptions{Kind: journal.Apply, Atomic: true, Try: deadline},
			Planner: func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
				return m.engine.PlanAsked(ctx, change, s)
			}}
		err := t.Apply(ctx)
		r.pools = append(r.pools, t) // also after an error: Undo knows whether there is anything
		incomplete := (*tune.IncompleteError)(nil)
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case errors.As(err, &incomplete), errors.Is(err, journal.ErrBusy), errors.Is(err, tune.ErrLeased):
			return r, err
		case err != nil:
			p.LeaveOut(w.Pages, fmt.Sprintf("%d pages of the size cannot be reserved: free memory is in pieces, or another has taken it (%s)", w.To-w.From, err))
		}
	}
	return r, nil
}

// release gives the pages back, whatever has become of ctx.
func (r *reserved) release(ctx context.Context) error {
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
		return ui.Hinted(ui.Incomplete, fmt.Errorf("the huge pages are not given back: %w", err), "fettle undo tries again")
	}
	return nil
}
