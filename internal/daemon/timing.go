package daemon

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/daemon/schedule"
	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
)

// timed is the schedule entry in force, with its start.
type timed struct {
	names  []string
	since  time.Time
	reason string
}

// byScheduleOf is the prefix of the reason in the schedule's transactions.
const byScheduleOf = "fettle daemon: schedule "

// scheduled reads the schedule. It returns the entry in force, nil if none has begun, and the time
// at which the next one begins.
func (d *Daemon) scheduled(m *Machine) (*timed, time.Time, error) {
	if d.Schedule == "" {
		return nil, time.Time{}, nil
	}
	text, err := m.Engine.Host.Files.ReadFile(d.Schedule)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	entries, err := schedule.Parse(d.Schedule, string(text))
	if err != nil {
		return nil, time.Time{}, err
	}
	now := m.Engine.Host.Clock.Now().Local()
	_, next, _ := schedule.Next(entries, now)
	e, since, ok := schedule.InForce(entries, now)
	if !ok {
		return nil, next, nil
	}
	return &timed{e.Profiles, since, sentence("schedule %s:%d", d.Schedule, e.Line)}, next, nil
}

// due reports whether to apply the schedule's entry. A user's decision after the entry's time
// wins. A selection by the schedule is always replaced, so that the schedule follows a clock that
// is set back.
func (d *Daemon) due(names []string, since time.Time, txs []*journal.Tx, sel *tune.Selection) bool {
	at, by := decided(txs)
	if by != nil && !strings.HasPrefix(by.Reason, byScheduleOf) && !at.Before(since) {
		return false
	}
	return sel == nil || !slices.Equal(sel.Profiles, tune.WithSaved(sel, names))
}

// clock handles events of the wall clock: an entry of the schedule begins, the clock was
// set, or the machine slept.
func (d *Daemon) clock(ctx context.Context, c clockEvent) error {
	err := d.keepSchedule(ctx)
	if c.resumed {
		err = errors.Join(err, d.resume(ctx))
	}
	return err
}

// keepSchedule applies the entry that is in force now, and arms the timer for the next.
func (d *Daemon) keepSchedule(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, err := d.open(ctx)
	if err != nil {
		return err
	}
	entry, next, err := d.scheduled(m)
	d.wake(next)
	if err != nil || entry == nil {
		return err
	}
	s, err := m.Engine.State()
	if err != nil {
		return err
	}
	t := s.InForce()
	sel, err := tune.SelectionOf(t)
	if err != nil || onTrial(t) || !d.due(entry.names, entry.since, s.Txs, sel) {
		return err
	}
	return d.switchTo(ctx, m, tune.WithSaved(sel, entry.names), tune.ModeManual, entry.reason)
}
