package tune

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
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

// target is a value that a place is to have.
type target struct {
	setting setting.Setting
	want    setting.Value
}

// restore gives the targets back: first every place, then the other tuners,
// oldest last. A tuner that starts sets places of its own at once, which it
// owns from then on, so nothing is looked at again.
func (e *Engine) restore(ctx context.Context, targets []target) (left []Leftover, vanished map[setting.Setting]bool) {
	var places, tuners []target
	for _, t := range targets {
		kind, err := e.Kinds.For(t.setting)
		if _, ok := kind.(setting.Tuner); ok && err == nil {
			tuners = append(tuners, t)
		} else {
			places = append(places, t)
		}
	}
	left, vanished = e.restorePlaces(ctx, places)
	if len(tuners) > 0 {
		more, gone := e.restorePlaces(ctx, tuners)
		left = append(left, more...)
		maps.Copy(vanished, gone)
	}
	return left, vanished
}

// restorePlaces writes the targets in order until every place reads as wanted. One
// pass is not always enough: dirty_bytes cannot be written as 0, it becomes 0
// when dirty_ratio is written; a scheduler's attributes exist only once it is
// back. What is equal already is not written. Places of the running kernel that
// are not there at the end (an unplugged disk) are returned as gone: they have
// nothing to give back.
func (e *Engine) restorePlaces(ctx context.Context, targets []target) (left []Leftover, vanished map[setting.Setting]bool) {
	vanished = map[setting.Setting]bool{}
	errs := make([]error, len(targets))
	for pass := range 3 {
		wrote := false
		for i, t := range targets {
			kind, err := e.Kinds.For(t.setting)
			if err != nil {
				errs[i] = err
				continue
			}
			if now, err := kind.Read(ctx, t.setting); err == nil && (e.same(t.setting, t.want, now) || setting.Ended(kind, now)) {
				errs[i] = nil
				continue
			}
			e.at("undo:" + t.setting.String() + ":before")
			write := kind.Write
			if r, ok := kind.(setting.Restorer); ok && pass > 0 {
				write = r.Restore
			}
			errs[i] = e.heard(t.setting, write(ctx, t.setting, t.want))
			e.at("undo:" + t.setting.String() + ":after")
			wrote = true
		}
		if !wrote {
			break
		}
	}
	for i, t := range targets {
		kind, err := e.Kinds.For(t.setting)
		var now setting.Value
		if err == nil {
			now, err = kind.Read(ctx, t.setting)
		}
		switch {
		case err == nil && (e.same(t.setting, t.want, now) || setting.Ended(kind, now)):
		case err == nil && gone(kind, now, t.want):
			vanished[t.setting] = true
		case errs[i] != nil:
			left = append(left, Leftover{Setting: t.setting, Want: t.want, Err: errs[i]})
		case err != nil:
			left = append(left, Leftover{Setting: t.setting, Want: t.want, Err: err})
		default:
			left = append(left, Leftover{Setting: t.setting, Want: t.want, Err: fmt.Errorf("the kernel keeps %s", show(now)), keeps: &now})
		}
	}
	return left, vanished
}

// gone is true for a place of the running kernel that is not there, although it
// held a value once.
func gone(k setting.Kind, now, want setting.Value) bool {
	return now.Absent && !want.Absent && !k.Lifetime().SurvivesBoot()
}
