package daemon

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// looping is one unit on one device whose values follow the load.
type looping struct {
	tune.UnitLoop
	rules  string // the unit's text when the loop began
	places map[setting.Setting]*varying
	at     time.Duration // time since boot of the last sample; 0: none yet
	failed int           // consecutive failed samples
}

// varying is a setting whose value follows the load.
type varying struct {
	held bool          // held by a descriptor of this process, so not in the journal
	base setting.Value // value before the loop; Absent if held is true
	last setting.Value // last value written
	// failed counts consecutive failed writes. After maxFailures, or if another program has
	// changed the setting, the loop no longer writes it.
	failed int
}

// maxFailures is the number of consecutive failures after which the daemon no longer writes a
// setting or samples a device, as in TuneD.
const maxFailures = 3

// followLoad starts the profile's load-dependent loops and stops all others. It returns the
// journal's state afterwards.
func (d *Daemon) followLoad(ctx context.Context, m *Machine, p *profile.Profile, s *journal.State) *journal.State {
	var wanted []tune.UnitLoop
	if d.alive != nil {
		var err error
		if wanted, err = m.Engine.Loops(ctx, p, s); err != nil {
			d.log.say(LevelError, "cannot determine load-dependent values: %v", err)
		}
	}
	keep := map[string]bool{}
	for _, w := range wanted {
		if l, ok := d.loops[keyOf(w)]; ok && l.rules == rulesOf(w.Unit) && !m.Engine.Arrived[w.Device] {
			keep[keyOf(w)] = true
		}
	}
	d.engine = m.Engine
	for key, l := range d.loops {
		if m.Engine.Arrived[l.Device] {
			delete(d.loops, key) // its values went with the device
		}
	}
	d.stopLoops(ctx, keep)
	if len(wanted) == 0 {
		d.pulse(0)
		return s
	}
	s = d.keepImages(ctx, m, wanted, s)
	for _, w := range wanted {
		if !keep[keyOf(w)] {
			d.startLoop(ctx, w, s)
		}
	}
	every := m.Engine.Main.DynamicInterval()
	if len(d.loops) == 0 {
		every = 0
	}
	d.pulse(every)
	return s
}

func keyOf(l tune.UnitLoop) string { return l.Unit.Name + "/" + l.Device }

// keepImages records the before-images of all settings that loops may write, in a transaction that
// supersedes the selection's.
func (d *Daemon) keepImages(ctx context.Context, m *Machine, loops []tune.UnitLoop, s *journal.State) *journal.State {
	t := s.InForce()
	sel, err := tune.SelectionOf(t)
	if err != nil || sel == nil || len(m.Engine.PlanLoops(ctx, loops, s).Steps) == 0 {
		return s
	}
	if onTrial(t) {
		d.log.say(LevelInfo, "values follow the load once the trial is confirmed")
		return s
	}
	err = d.transact(ctx, m, "dynamic tuning", tune.ApplyOptions{Kind: journal.Boot, Selection: sel, Supersedes: []int{t.ID}},
		func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
			if now := s.InForce(); now == nil || now.ID != t.ID {
				return nil, errInPlace // another selection: follow handles it
			}
			plan := m.Engine.PlanLoops(ctx, loops, s)
			if len(plan.Steps) == 0 {
				return nil, errInPlace
			}
			return plan, nil
		})
	if err != nil {
		d.log.say(LevelError, "dynamic tuning: %v", err)
		return s
	}
	after, err := m.Engine.State()
	if err != nil {
		d.log.say(LevelError, "dynamic tuning: %v", err)
		return s
	}
	d.seen = after.Generation
	return after
}

// startLoop starts a loop. It first restores the values from before the loop: a killed daemon may
// have left others.
func (d *Daemon) startLoop(ctx context.Context, w tune.UnitLoop, s *journal.State) {
	l := &looping{UnitLoop: w, rules: rulesOf(w.Unit), places: map[setting.Setting]*varying{}}
	for _, p := range w.Places {
		id, err := d.kinds.Resolve(p.Setting)
		if err != nil {
			continue
		}
		kind, err := d.kinds.For(id)
		if err != nil {
			continue
		}
		if kind.Lifetime() == setting.Held {
			if _, kept := d.engine.Keep.Match(id); !kept {
				l.places[id] = &varying{held: true, base: setting.Absent, last: setting.Absent}
			}
			continue
		}
		en := tune.Varying(s, id)
		if en == nil {
			continue // kept, missing, or on trial
		}
		v := &varying{base: *en.After}
		if err := d.engine.Vary(ctx, id, v.base); err != nil {
			d.log.say(LevelWarning, "not adjusted to the load: %v", err)
			continue
		}
		v.last = v.base
		l.places[id] = v
	}
	if len(l.places) == 0 {
		return
	}
	d.loops[keyOf(w)] = l
	d.log.say(LevelInfo, "%s", w.Places[0].Reason.Text)
	d.step(ctx, l)
}

// tick samples the load for every loop, and reports whether it wrote a value.
func (d *Daemon) tick(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	wrote := false
	for _, l := range d.loops {
		wrote = d.step(ctx, l) || wrote
	}
	if d.engine != nil && len(d.loops) > 0 {
		d.pulse(d.engine.Main.DynamicInterval())
	}
	return wrote
}

// step takes one sample of a loop and writes the resulting values.
func (d *Daemon) step(ctx context.Context, l *looping) (wrote bool) {
	var elapsed time.Duration
	if now, err := d.engine.Host.Clock.SinceBoot(); err == nil {
		if l.at > 0 {
			elapsed = now - l.at
		}
		l.at = now
	}
	wishes, err := l.Next(ctx, elapsed)
	switch {
	case err == nil:
		l.failed = 0
	case errors.Is(err, fs.ErrNotExist):
		d.forgetLoop(l, LevelInfo, "the device was removed")
		return false
	default:
		if l.failed++; l.failed >= maxFailures {
			d.forgetLoop(l, LevelError, err.Error())
		}
		return false
	}
	for _, w := range wishes {
		id, err := d.kinds.Resolve(w.Setting)
		v := l.places[id]
		if err != nil || v == nil {
			continue
		}
		want := w.Want
		if w.Back {
			want = v.base
		}
		if want == v.last {
			continue
		}
		if d.put(ctx, l, id, v, want) {
			wrote = true
			d.log.say(LevelDebug, "%s = %s: %s", id, want, l.Places[0].Reason.Text)
		}
	}
	return wrote
}

// put writes one value. Two cases do not count as failures: a busy journal, because the next tick
// tries again; and a setting that another transaction has changed, because follow will handle it.
func (d *Daemon) put(ctx context.Context, l *looping, s setting.Setting, v *varying, want setting.Value) bool {
	var err error
	if v.held {
		err = d.kinds.Write(ctx, s, want)
	} else {
		err = d.engine.Vary(ctx, s, want)
	}
	switch {
	case err == nil:
		v.last, v.failed = want, 0
		return true
	case errors.Is(err, journal.ErrBusy), errors.Is(err, tune.ErrFixed):
		return false
	case errors.Is(err, tune.ErrForeign):
		v.failed = maxFailures
	default:
		v.failed++
	}
	if v.failed >= maxFailures {
		delete(l.places, s)
		d.log.say(LevelWarning, "no longer adjusted to the load: %v", err)
	}
	return false
}

// forgetLoop ends a loop that cannot continue.
func (d *Daemon) forgetLoop(l *looping, level Level, why string) {
	delete(d.loops, keyOf(l.UnitLoop))
	d.log.say(level, "%s: stopped: %s", l.Places[0].Reason.Text, why)
}

// stopLoops ends the loops that are not in keep and restores their settings, except those that the
// journal shows as restored.
func (d *Daemon) stopLoops(ctx context.Context, keep map[string]bool) {
	for key, l := range d.loops {
		if keep[key] {
			continue
		}
		delete(d.loops, key)
		for s, v := range l.places {
			if v.last == v.base {
				continue
			}
			var err error
			if v.held {
				err = d.kinds.Write(ctx, s, v.base)
			} else if _, err = busy(ctx, func() (struct{}, error) { return struct{}{}, d.engine.Vary(ctx, s, v.base) }); errors.Is(err, tune.ErrFixed) {
				err = nil // a later transaction owns the setting
			}
			if err != nil {
				d.log.say(LevelWarning, "cannot restore %s to %s: %v", s, v.base, err)
			}
		}
	}
}

// replaced returns the named devices, except those whose loops continue. If a setting still has
// the loop's last value, the device is the same and udev only repeated the event.
func (d *Daemon) replaced(ctx context.Context, names map[string]bool) map[string]bool {
	out := maps.Clone(names)
	for _, l := range d.loops {
		same := true
		for s, v := range l.places {
			now, err := d.kinds.Read(ctx, s)
			same = same && (v.held || err == nil && d.kinds.Equal(s, now, v.last))
		}
		if same {
			delete(out, l.Device)
		}
	}
	return out
}

// restartLoops restarts the loops after suspend: firmware may have reset their settings.
func (d *Daemon) restartLoops(ctx context.Context, m *Machine) error {
	if len(d.loops) == 0 || d.selection == nil {
		return nil
	}
	for _, l := range d.loops {
		for s, v := range l.places {
			if !v.held {
				if err := m.Engine.Rebase(ctx, s); err != nil {
					d.log.say(LevelWarning, "cannot restore %s to %s: %v", s, v.base, err)
				}
			}
		}
	}
	clear(d.loops)
	s, err := m.Engine.State()
	if err != nil {
		return err
	}
	p, err := d.overlaid(ctx, m, d.selection)
	if err != nil {
		return err
	}
	d.hold(ctx, m, p, s)
	return nil
}
