package tune

import (
	"context"
	"errors"

	"fettle.dev/fettle/internal/engine/journal"
)

// Confirm keeps every transaction that is on trial and returns their numbers.
func (e *Engine) Confirm(ctx context.Context) ([]int, error) {
	j, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if late := e.expired(j.State); len(late) > 0 {
		// The deadline decides, not the watchdog's speed.
		sub := *e
		sub.Reason, sub.Note = "trial not confirmed in time", ""
		if _, err := sub.undoLocked(context.WithoutCancel(ctx), j, late); err != nil {
			return nil, err
		}
		return nil, errors.New("the time of the trial is over: it has been taken back")
	}
	var ids []int
	for _, t := range j.State.Live() {
		if t.Try == nil || t.Try.Experiment || t.Confirmed || t.Commit == nil {
			continue
		}
		c := journal.Confirm{ID: t.ID, Time: e.Host.Clock.Now().UTC(), Note: e.Note}
		c.User, c.Caller = e.asker(ctx)
		if err := j.Confirm(c); err != nil {
			return ids, err
		}
		e.logConfirm(c)
		ids = append(ids, t.ID)
	}
	if len(ids) == 0 {
		return nil, errors.New("nothing is on trial")
	}
	return ids, nil
}
