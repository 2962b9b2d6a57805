package daemon

import (
	"context"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// hold acquires the profile's held values and releases all others.
func (d *Daemon) hold(ctx context.Context, m *Machine, p *profile.Profile, s *journal.State) {
	// Before the plan: it reads settings that loops may hold.
	s = d.followLoad(ctx, m, p, s)
	e := *m.Engine
	e.Holds = true
	plan, err := e.PlanProfile(ctx, p, s)
	if err != nil {
		d.log.say(LevelError, "cannot determine the values to hold: %v", err)
		return
	}
	d.observe(ctx, plan, s)
	want := map[setting.Setting]tune.Step{}
	for _, st := range plan.Steps {
		if st.Lifetime == setting.Held && (st.Action == tune.Write || st.Action == tune.Same) {
			want[st.Setting] = st
		}
	}
	d.letGo(ctx, want)
	d.followTasks(m, p)
	for s, st := range want {
		old, ours := d.held[s]
		if ours && d.kinds.Equal(s, old, st.Want) {
			continue
		}
		if err := d.kinds.Write(ctx, s, st.Want); err != nil {
			d.log.say(LevelError, "cannot hold %s = %s: %v (%s)", s, st.Want, err, st.Reason)
			continue
		}
		d.held[s] = st.Want
		d.log.say(LevelInfo, "%s = %s: held (%s)", s, st.Want, st.Reason)
	}
}

// release releases every held value.
func (d *Daemon) release(ctx context.Context) {
	d.followTasks(nil, nil)
	d.stopLoops(ctx, nil)
	d.pulse(0)
	d.letGo(ctx, nil)
}

// letGo releases every held value that is not wanted. It writes Absent: the value that was in
// force before may be one that is wanted later, if another process held it then.
func (d *Daemon) letGo(ctx context.Context, wanted map[setting.Setting]tune.Step) {
	for s := range d.held {
		if _, ok := wanted[s]; ok {
			continue
		}
		if err := d.kinds.Write(ctx, s, setting.Absent); err != nil {
			d.log.say(LevelError, "cannot release %s: %v", s, err)
			continue
		}
		delete(d.held, s)
		d.log.say(LevelInfo, "%s: released", s)
	}
}
