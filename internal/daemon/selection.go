package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	internaltext "fettle.dev/fettle/internal/text"
)

// errInPlace ends a transaction before it begins, because every setting has its value already.
var errInPlace = errors.New("all values are already in force")

// chooseAndApply chooses the selection for this machine and applies it.
func (d *Daemon) chooseAndApply(ctx context.Context, m *Machine, s *journal.State) error {
	entry, next, err := d.scheduled(m)
	if err != nil {
		d.log.say(LevelError, "cannot follow the schedule: %v", err)
	}
	d.wake(next)
	txs := s.Txs
	if len(txs) == 0 {
		// If the journal was set aside, its history still has the last decision.
		if txs, err = journal.History(m.Engine.StateDir, ""); err != nil {
			return err
		}
	}
	t := s.InForce()
	sel, err := tune.SelectionOf(t)
	if err != nil {
		return err
	}
	if entry != nil && d.due(entry.names, entry.since, txs, sel) {
		return d.switchTo(ctx, m, tune.WithSaved(sel, entry.names), tune.ModeManual, entry.reason)
	}
	if d.TuneD {
		names, mode, ok, err := d.preset(ctx, m, txs, sel)
		switch {
		case err != nil:
			d.log.say(LevelError, "cannot follow TuneD's preset: %v", err)
		case ok:
			return d.switchTo(ctx, m, names, mode, "TuneD's preset")
		}
	}
	if sel == nil {
		d.selection, d.seen = nil, s.Generation
		d.observe(ctx, nil, s)
		d.log.say(LevelInfo, "no profile is active; apply one with fettle tune PROFILE")
		return nil
	}
	return d.again(ctx, m, t, sel, "start of the daemon")
}

// again applies the accepted content of the selection again: after a boot, or if values have
// changed.
func (d *Daemon) again(ctx context.Context, m *Machine, t *journal.Tx, sel *tune.Selection, reason string) error {
	p, err := m.Engine.LoadAccepted(ctx, sel, m.Loader)
	if err != nil {
		return err
	}
	if onTrial(t) {
		// The trial's own transaction must stay the newest of its selection.
		d.settled(ctx, m, sel, p)
		return nil
	}
	d.overlay.put(p)
	err = d.standIn(ctx, m, t, sel, p, reason, func(plan *tune.Plan, _ *journal.State) bool {
		return plan.Writes() > 0 || t.BootID != plan.BootID
	})
	if err != nil {
		return err
	}
	d.settled(ctx, m, sel, p)
	return nil
}

// standIn plans the selection again, passes the plan to edit, and applies the rest as a
// transaction that supersedes the selection's: a single undo reverts both. It does nothing if edit
// returns false, or if the selection has changed meanwhile, which follow handles.
func (d *Daemon) standIn(ctx context.Context, m *Machine, t *journal.Tx, sel *tune.Selection, p *profile.Profile, reason string, edit func(*tune.Plan, *journal.State) bool) error {
	return d.transact(ctx, m, reason, tune.ApplyOptions{Kind: journal.Boot, Selection: sel, Supersedes: []int{t.ID}},
		func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
			if now := s.InForce(); now == nil || now.ID != t.ID {
				return nil, errInPlace
			}
			plan, err := m.Engine.PlanProfile(ctx, p, s)
			if err == nil && !edit(plan, s) {
				err = errInPlace
			}
			return plan, err
		})
}

// switchTo selects profiles, as fettle tune does.
func (d *Daemon) switchTo(ctx context.Context, m *Machine, names []string, mode, reason string) error {
	sel, p, err := d.load(ctx, m, names, mode)
	if err != nil {
		d.announce(ProfileChanged{strings.Join(names, " "), false, err.Error()})
		return err
	}
	return d.take(ctx, m, sel, p, reason)
}

// take applies a selection whose profiles are loaded.
func (d *Daemon) take(ctx context.Context, m *Machine, sel *tune.Selection, p *profile.Profile, reason string) error {
	d.overlay = overlay{}
	err := d.transact(ctx, m, reason, tune.ApplyOptions{Kind: journal.Tune, Selection: sel},
		func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
			return m.Engine.PlanProfile(ctx, p, s)
		})
	if err != nil {
		d.announce(ProfileChanged{strings.Join(sel.Profiles, " "), false, err.Error()})
		return err
	}
	d.settled(ctx, m, sel, p)
	return nil
}

// load loads the current content of profiles. The post-loaded profile comes last.
func (d *Daemon) load(ctx context.Context, m *Machine, names []string, mode string) (*tune.Selection, *profile.Profile, error) {
	state, err := profile.ReadState(m.Engine.Host)
	if err != nil {
		return nil, nil, err
	}
	l := m.Loader
	l.Execute = true
	p, err := l.Load(ctx, tune.WithPostLoaded(names, state.PostLoaded)...)
	if err != nil {
		return nil, nil, err
	}
	sel, err := tune.NewSelection(p, names, mode)
	if err != nil {
		return nil, nil, err
	}
	return sel, p, nil
}

// transact waits for other transactions, applies a plan as one transaction, and logs the result.
// It does not hold values; hold does.
func (d *Daemon) transact(ctx context.Context, m *Machine, reason string, o tune.ApplyOptions, plan tune.Planner) error {
	e := *m.Engine
	e.Holds, e.Reason = false, "fettle daemon: "+reason
	began := time.Now()
	res, err := busy(ctx, func() (*tune.Applied, error) { return e.Apply(ctx, plan, o) })
	switch {
	case errors.Is(err, errInPlace):
		d.log.say(LevelInfo, "%s: all values are already in force", reason)
		return nil
	case err != nil:
		return err
	}
	for _, p := range res.Plan.Problems {
		d.log.say(LevelWarning, "%s", p)
	}
	for _, st := range res.Plan.Steps {
		switch {
		case st.Setting.Kind == plugin.OptionKind:
			// As in TuneD: print a warning and apply the other values.
			d.log.say(LevelWarning, "%s: %s: %s", st.Reason, plugin.ShowOption(st.Setting), st.Why)
		case st.Verdict == plugin.Rejected || st.Failing():
			d.log.say(LevelError, "%s = %s: %s: %s (%s)", st.Setting, st.Want, st.Verdict, st.Why, st.Reason)
		}
	}
	names := ""
	if o.Selection != nil {
		names = strings.Join(o.Selection.Names(), " ") + ": "
	}
	d.log.say(LevelInfo, "%s: %stransaction %d %s, %s written in %s", reason, names, res.Tx, res.Result, internaltext.Count(res.Plan.Writes(), "value"), time.Since(began).Round(time.Millisecond))
	return nil
}

// settled updates the daemon after a change of the selection: it holds values, writes TuneD's
// files, and notifies subscribers.
func (d *Daemon) settled(ctx context.Context, m *Machine, sel *tune.Selection, p *profile.Profile) {
	d.selection, d.parked = sel, false
	clear(d.fought)
	s, err := m.Engine.State()
	if err != nil {
		d.log.say(LevelError, "%v", err)
		return
	}
	d.seen = s.Generation
	d.hold(ctx, m, p, s)
	d.watchTrial(s)
	d.keepState(m)
	d.announce(ProfileChanged{strings.Join(sel.Profiles, " "), true, "OK"})
}

// follow handles transactions of other processes in the journal.
func (d *Daemon) follow(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, err := d.open(ctx)
	if err != nil {
		return err
	}
	if d.late {
		return d.begin(ctx, m)
	}
	s, err := m.Engine.State()
	if err != nil || s.Generation == d.seen {
		return err
	}
	if len(s.Interrupted()) > 0 {
		// The transaction is in progress if its lock is held, else its process was killed. If it
		// is in progress, follow runs again when it ends.
		ids, err := recoverSoon(ctx, m)
		if errors.Is(err, journal.ErrBusy) {
			return nil
		}
		for _, id := range ids {
			d.log.say(LevelNotice, "transaction %d was interrupted; undone", id)
		}
		if err != nil {
			return err
		}
		if s, err = m.Engine.State(); err != nil {
			return err
		}
	}
	d.seen = s.Generation
	t := s.InForce()
	sel, err := tune.SelectionOf(t)
	if err != nil {
		return err
	}
	if sel == nil {
		was := d.selection
		d.release(ctx)
		d.observe(ctx, nil, s)
		if !d.parked {
			d.selection = nil
			d.overlay = overlay{}
			if was != nil {
				d.log.say(LevelNotice, "%s no longer active: undone by transaction %d", strings.Join(was.Names(), " "), s.Txs[len(s.Txs)-1].ID)
				d.restoreState(m, s)
				d.announce(ProfileChanged{"", true, "OK"})
			}
		}
		return nil
	}
	if d.selection == nil || d.selection.Accepted != sel.Accepted {
		d.overlay = overlay{}
		d.log.say(LevelNotice, "%s active: transaction %d by %s", strings.Join(sel.Names(), " "), t.ID, t.User)
	}
	p, err := d.overlaid(ctx, m, sel)
	if err != nil {
		return err
	}
	d.resumeBalance()
	changed := d.selection == nil || d.parked || !slices.Equal(d.selection.Names(), sel.Names())
	d.selection, d.parked = sel, false
	d.hold(ctx, m, p, s)
	d.watchTrial(s)
	d.keepState(m)
	if changed {
		d.announce(ProfileChanged{strings.Join(sel.Profiles, " "), true, "OK"})
	}
	if waiting := d.retry; len(waiting) > 0 && !onTrial(t) {
		d.retry = nil
		return d.plug(ctx, m, waiting)
	}
	return nil
}

// watchTrial acts at a trial's deadline if the trial's own watchdog has died.
func (d *Daemon) watchTrial(s *journal.State) {
	if d.deadline != nil {
		d.deadline.Stop()
		d.deadline = nil
	}
	for _, t := range s.Live() {
		if onTrial(t) && t.Commit != nil {
			// One second later, so that the watchdog acts first.
			d.deadline = time.AfterFunc(time.Until(t.Try.Until)+time.Second, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				ctx := context.Background()
				m, err := d.open(ctx)
				if err == nil {
					_, err = busy(ctx, func() ([]int, error) { return m.Engine.Recover(ctx) })
				}
				if err != nil {
					d.log.say(LevelError, "cannot end the trial: %v", err)
				}
			})
		}
	}
}

// withdraw undoes the transactions that applied the selected profiles. Changes made by plans, fix
// or tune --set stay in force.
func (d *Daemon) withdraw(ctx context.Context, m *Machine, reason string) error {
	e := *m.Engine
	e.Reason, e.KeepTuned = "fettle daemon: "+reason, true // keepState has written what TuneD writes then
	_, err := busy(ctx, func() (*tune.Undone, error) {
		s, err := e.State()
		if err != nil {
			return nil, err
		}
		var ids []int
		for _, t := range s.Live() {
			if (t.Kind == journal.Tune || t.Kind == journal.Boot) && t.Commit != nil {
				ids = append(ids, t.ID)
			}
		}
		if len(ids) == 0 {
			return nil, nil
		}
		return e.Undo(ctx, ids...)
	})
	d.release(ctx)
	if s, serr := e.State(); serr == nil {
		d.seen = s.Generation
		d.observe(ctx, nil, s)
	}
	if err != nil && !errors.Is(err, tune.ErrNothing) {
		return fmt.Errorf("%s: %w", reason, err)
	}
	d.log.say(LevelInfo, "%s: profile no longer active", reason)
	return nil
}
