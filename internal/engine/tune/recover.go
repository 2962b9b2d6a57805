package tune

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
)

// undoAs undoes transactions on fettle's own initiative, even if ctx ends meanwhile. reason is
// recorded in the journal.
func (e *Engine) undoAs(ctx context.Context, j *journal.Journal, reason string, ids []int) (*Undone, error) {
	own := *e
	own.Reason, own.Note = reason, ""
	ctx = context.WithoutCancel(ctx)
	u, err := own.undoLocked(ctx, j, ids)
	if u != nil && e.Recovered != nil {
		e.Recovered(ctx, j.State, u.Undoes)
	}
	return u, err
}

const lateTrial = "trial not confirmed in time"

// recoverLocked undoes interrupted transactions and returns their numbers. It closes entries of an
// earlier boot.
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
	u, err := e.undoAs(ctx, j, "recovery of an interrupted transaction", ids)
	if err != nil {
		return nil, fmt.Errorf("cannot undo an earlier, interrupted transaction: %w", err)
	}
	return u.Undoes, nil
}

// Recover undoes interrupted transactions and expired trials and returns their numbers.
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
	u, err := e.undoAs(ctx, j, lateTrial, ids)
	if u != nil {
		done = append(done, u.Undoes...)
	}
	return done, err
}

// expired lists the trials that were not confirmed in time. A trial ends with its boot at the
// latest. An experiment's trial ends when the experiment and its watchdog have ended.
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

// target is a value to restore.
type target struct {
	setting setting.Setting
	want    setting.Value
}

// restore writes the targets: first all settings, then other tuners, the oldest last. A starting
// tuner writes its own settings at once and owns them, so nothing is checked afterwards.
func (e *Engine) restore(ctx context.Context, targets []target) (left []Leftover, vanished map[setting.Setting]bool) {
	var settings, tuners []target
	for _, t := range targets {
		kind, err := e.Kinds.For(t.setting)
		if _, ok := kind.(setting.Tuner); ok && err == nil {
			tuners = append(tuners, t)
		} else {
			settings = append(settings, t)
		}
	}
	left, vanished = e.restoreInPasses(ctx, settings)
	if len(tuners) > 0 {
		more, gone := e.restoreInPasses(ctx, tuners)
		left = append(left, more...)
		maps.Copy(vanished, gone)
	}
	return left, vanished
}

// restoreInPasses writes the targets in order until every setting reads as wanted. One pass may
// not suffice: dirty_bytes cannot be written as 0, but becomes 0 when dirty_ratio is written; a
// scheduler's attributes exist only once it is restored. Equal values are not written. vanished
// lists settings of the running kernel that no longer exist (an unplugged disk).
func (e *Engine) restoreInPasses(ctx context.Context, targets []target) (left []Leftover, vanished map[setting.Setting]bool) {
	vanished = map[setting.Setting]bool{}
	restored := func(kind setting.Kind, t target, now setting.Value) bool {
		return e.Kinds.Equal(t.setting, t.want, now) || setting.Ended(kind, now)
	}
	errs := make([]error, len(targets))
	for pass := range 3 {
		wrote := false
		for i, t := range targets {
			kind, err := e.Kinds.For(t.setting)
			if err != nil {
				errs[i] = err
				continue
			}
			if now, err := kind.Read(ctx, t.setting); err == nil && restored(kind, t, now) {
				errs[i] = nil
				continue
			}
			e.at("undo:" + t.setting.String() + ":before")
			write := kind.Write
			if r, ok := kind.(setting.Restorer); ok && pass > 0 {
				write = r.Restore
			}
			errs[i] = e.warning(t.setting, write(ctx, t.setting, t.want))
			e.at("undo:" + t.setting.String() + ":after")
			wrote = true
		}
		if !wrote {
			break
		}
	}
	for i, t := range targets {
		kind, _ := e.Kinds.For(t.setting)
		now, err := e.Kinds.Read(ctx, t.setting)
		switch {
		case err == nil && restored(kind, t, now):
		case err == nil && gone(kind, now, t.want):
			vanished[t.setting] = true
		case errs[i] != nil || err != nil:
			left = append(left, Leftover{Setting: t.setting, Want: t.want, Err: cmp.Or(errs[i], err)})
		default:
			left = append(left, Leftover{Setting: t.setting, Want: t.want, Err: fmt.Errorf("the kernel kept %s", show(now)), keeps: &now})
		}
	}
	return left, vanished
}

// gone reports whether a setting of the running kernel should have a value but no longer exists.
func gone(k setting.Kind, now, want setting.Value) bool {
	return now.Absent && !want.Absent && !k.Lifetime().SurvivesBoot()
}
