package tune

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
)

// recoverLocked takes back transactions that were cut off. Entries of a boot
// that has ended are closed with it.
func (e *Engine) recoverLocked(ctx context.Context, j *journal.Journal) ([]int, error) {
	cut := j.State.Interrupted()
	if len(cut) == 0 {
		return nil, nil
	}
	var ids []int
	for _, t := range cut {
		if t.Kind == journal.Undo {
			ids = append(ids, t.Undoes...)
		} else {
			ids = append(ids, t.ID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	ids = slices.DeleteFunc(ids, func(id int) bool { t := j.State.Tx(id); return t == nil || !t.IsLive() })
	if len(ids) == 0 {
		return nil, nil
	}
	sub := *e
	sub.Reason, sub.Note = "recovery of what was cut off", ""
	u, err := sub.undoLocked(context.WithoutCancel(ctx), j, ids) // an undo goes to its end
	if err != nil {
		return nil, fmt.Errorf("an earlier transaction was cut off and could not be taken back: %w", err)
	}
	return u.Undoes, nil
}

// Recover takes back what was cut off, and trials whose time is over; it
// returns the transactions concerned.
func (e *Engine) Recover(ctx context.Context) ([]int, error) {
	s, err := e.State()
	if err != nil {
		return nil, err
	}
	if len(s.Interrupted()) == 0 && len(e.expired(s)) == 0 {
		return nil, nil
	}
	j, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	done, err := e.recoverLocked(ctx, j)
	if err != nil {
		return done, err
	}
	ids := e.expired(j.State)
	if len(ids) == 0 {
		return done, nil
	}
	sub := *e
	sub.Reason, sub.Note = "trial not confirmed in time", ""
	u, err := sub.undoLocked(context.WithoutCancel(ctx), j, ids)
	if u != nil {
		done = append(done, u.Undoes...)
	}
	return done, err
}

// expired lists the trials that nobody confirmed in time. A trial ends with its
// boot at the latest, and that of an experiment with the experiment: once it and its
// watchdog are gone, nobody else would end it.
func (e *Engine) expired(s *journal.State) []int {
	var ids []int
	for _, t := range s.Live() {
		if t.Try == nil || t.Confirmed || t.Commit == nil {
			continue
		}
		if t.Try.Experiment && !Leased(e.StateDir) {
			ids = append(ids, t.ID)
			continue
		}
		up, err := e.Host.Clock.SinceBoot()
		switch {
		case t.BootID != e.bootID():
			ids = append(ids, t.ID)
		case err == nil && up >= t.Try.SinceBoot:
			ids = append(ids, t.ID)
		case err != nil && !e.Host.Clock.Now().Before(t.Try.Until):
			ids = append(ids, t.ID)
		}
	}
	return ids
}
