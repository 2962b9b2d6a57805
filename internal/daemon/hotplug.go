package daemon

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	internaltext "fettle.dev/fettle/internal/text"
)

// plugged applies the selection to new devices. It also restores values that the kernel recomputes
// when a CPU appears or disappears.
func (d *Daemon) plugged(ctx context.Context, batch []Uevent) error {
	cpus := slices.ContainsFunc(batch, func(u Uevent) bool { return u.Subsystem == "cpu" })
	return errors.Join(d.arrivals(ctx, batch), d.afterCPUs(ctx, cpus))
}

// afterCPUs restores the values that CPU hot-plug resets. Such a change is the kernel's, not an
// administrator's.
func (d *Daemon) afterCPUs(ctx context.Context, cpus bool) error {
	if !cpus {
		return nil
	}
	return d.inForce(ctx, func(m *Machine) error {
		s, err := m.Engine.State()
		if err != nil {
			return err
		}
		ours := false
		for place := range s.Chains() {
			ours = ours || setting.ResetByCPUHotplug(place)
		}
		if !ours {
			return nil
		}
		return d.restore(ctx, m, "CPU hot-plug", func(st tune.Step, e *journal.Entry) bool {
			return e != nil && setting.ResetByCPUHotplug(st.Setting)
		})
	})
}

func (d *Daemon) arrivals(ctx context.Context, batch []Uevent) error {
	batch = slices.DeleteFunc(batch, func(u Uevent) bool { return !u.arrived() && u.Path != "" })
	if len(batch) == 0 {
		return nil // a removed device takes its values with it
	}
	return d.inForce(ctx, func(m *Machine) error {
		return d.plug(ctx, m, batch)
	})
}

// plug applies the selection to new devices in a transaction that supersedes the selection's: one
// undo reverts both.
func (d *Daemon) plug(ctx context.Context, m *Machine, batch []Uevent) error {
	s, err := m.Engine.State()
	if err != nil {
		return err
	}
	t := s.InForce()
	sel, err := tune.SelectionOf(t)
	if err != nil || sel == nil {
		return err
	}
	if onTrial(t) {
		d.retry = append(d.retry, batch...) // until the trial is confirmed
		return nil
	}
	p, err := d.overlaid(ctx, m, sel)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, u := range batch {
		names[u.Name()] = true
	}
	delete(names, ".")
	m.Engine.Arrived = d.replaced(ctx, names)
	list := make([]string, 0, len(names))
	for n := range names {
		list = append(list, n)
	}
	slices.Sort(list)
	err = d.standIn(ctx, m, t, sel, p, "new devices "+strings.Join(list, " "), func(plan *tune.Plan, s *journal.State) bool {
		onlyNew(plan, s, names)
		return plan.Writes() > 0
	})
	if err != nil {
		return err
	}
	if s, err = m.Engine.State(); err == nil {
		d.seen = s.Generation
		d.hold(ctx, m, p, s)
	}
	return err
}

// onlyNew reduces a plan to the settings of new devices and to settings that are not tuned yet.
// Other differences may be writes of other programs and are left alone.
func onlyNew(plan *tune.Plan, s *journal.State, names map[string]bool) {
	chains := s.Chains()
	plan.Steps = slices.DeleteFunc(plan.Steps, func(st tune.Step) bool {
		if st.Action == tune.Release || st.Action == tune.None {
			return true
		}
		return len(chains[st.Setting]) > 0 && !belongs(st, names)
	})
	plan.Problems = nil
}

// belongs reports whether a step is for one of the named devices, by the plug-in's device or by
// the setting's path.
func belongs(st tune.Step, names map[string]bool) bool {
	if names[st.Device] || names[path.Base(st.Device)] {
		return true
	}
	for part := range strings.SplitSeq(st.Setting.Name, "/") {
		if names[part] {
			return true
		}
	}
	return false
}

// inForce opens the machine and calls do with it, if a selection is in force.
func (d *Daemon) inForce(ctx context.Context, do func(m *Machine) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.selection == nil || d.parked {
		return nil
	}
	m, err := d.open(ctx)
	if err != nil {
		return err
	}
	return do(m)
}

// resume checks all values after suspend, because firmware may reset them. It restores a setting
// that has its value from before fettle. It only reports other changes: another program made them.
func (d *Daemon) resume(ctx context.Context) error {
	return d.inForce(ctx, func(m *Machine) error {
		d.rehold(ctx)
		err := d.restore(ctx, m, "resume from suspend", func(st tune.Step, e *journal.Entry) bool {
			return e == nil || d.kinds.Equal(st.Setting, st.Before, e.Before.Before)
		})
		return errors.Join(err, d.restartLoops(ctx, m))
	})
}

// enforce restores values that other programs have changed, each at most maxFights times. After
// that the other program's value stays, and fettle why names the program.
func (d *Daemon) enforce(ctx context.Context) error {
	return d.inForce(ctx, func(m *Machine) error {
		return d.restore(ctx, m, "enforce", func(st tune.Step, e *journal.Entry) bool {
			if e != nil && e.Verdict == string(plugin.Rejected) {
				return false
			}
			d.fought[st.Setting]++
			if d.fought[st.Setting] == maxFights+1 {
				d.log.say(LevelError, "%s was changed to %s again after %s; no longer corrected", st.Setting, st.Before, internaltext.Count(maxFights, "correction"))
			}
			return d.fought[st.Setting] <= maxFights
		})
	})
}

// maxFights is the number of times that enforce restores a value; a new selection resets the
// count.
const maxFights = 5

// restore writes the selection's values that differ, if mine returns true for them, and logs the
// others.
func (d *Daemon) restore(ctx context.Context, m *Machine, reason string, mine func(tune.Step, *journal.Entry) bool) error {
	s, err := m.Engine.State()
	if err != nil {
		return err
	}
	t := s.InForce()
	sel, err := tune.SelectionOf(t)
	if err != nil || sel == nil || onTrial(t) {
		return err
	}
	p, err := d.overlaid(ctx, m, sel)
	if err != nil {
		return err
	}
	err = d.standIn(ctx, m, t, sel, p, reason, func(plan *tune.Plan, s *journal.State) bool {
		chains := s.Chains()
		plan.Problems = nil
		plan.Steps = slices.DeleteFunc(plan.Steps, func(st tune.Step) bool {
			if st.Action != tune.Write {
				return true
			}
			var top *journal.Entry
			if c := chains[st.Setting]; len(c) > 0 {
				top = c[len(c)-1]
			}
			if top != nil && top.Tx.Kind == journal.Apply {
				return true // a later single change is in force
			}
			if mine(st, top) {
				return false
			}
			d.log.say(LevelWarning, "%s: %s is %s, the active profile wants %s (%s)", reason, st.Setting, st.Before, st.Want, st.Reason)
			return true
		})
		return len(plan.Steps) > 0
	})
	if err != nil {
		return err
	}
	if s, err = m.Engine.State(); err == nil {
		d.seen = s.Generation
	}
	return err
}

// rehold sets every held value again: a driver may have lost it.
func (d *Daemon) rehold(ctx context.Context) {
	for s, h := range d.held {
		if err := d.kinds.Write(ctx, s, h); err != nil {
			d.log.say(LevelError, "can no longer hold %s = %s: %v", s, h, err)
		}
	}
}
