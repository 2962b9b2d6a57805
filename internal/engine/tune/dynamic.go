package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// Dynamic tuning: settings that follow the load. Before the daemon writes the first value of such
// a setting, a transaction records its before-image and every value that the daemon may write.
// From then on the daemon writes under the lock without records. If undo finds any of those
// values, even after a crash, it restores the before-image.

// Dynamic is the state of dynamic tuning.
type Dynamic struct {
	On bool `json:"on"`
	// Interval is the time between two samples of the load, in seconds.
	Interval float64 `json:"interval_s,omitempty"`
	// From is the line of tuned-main.conf that configures it; "" for the default.
	From string `json:"from,omitempty"`
	// Daemon reports whether a daemon runs; only a daemon follows the load.
	Daemon bool `json:"daemon"`
}

func (e *Engine) dynamic() Dynamic {
	every := e.Main.DynamicInterval()
	d := Dynamic{On: every > 0, Interval: every.Seconds(), Daemon: Followed(e.StateDir)}
	if pos, ok := e.Main.Where["dynamic_tuning"]; ok {
		d.From = pos.String()
	}
	return d
}

const (
	followsLoad = "follows the load"
	leftVarying = "left at its last load-dependent value; fettle's daemon is not running"
)

// dynamicPlan is the dynamic tuning in a plan.
type dynamicPlan struct {
	on        bool
	daemon    bool                     // a daemon runs and follows the load
	settings  map[setting.Setting]bool // load-dependent settings, whether or not the daemon runs
	requested profile.Pos              // the first option that requests dynamic tuning in vain
	idle      bool                     // settings would follow the load if the daemon ran
}

// planLoops returns the load-dependent settings of a unit. It returns none without a daemon.
func (b *builder) planLoops(ctx context.Context, pl *plugin.Plugin, r *plugin.Request) []plugin.Varying {
	if pl.Dynamic == nil {
		return nil
	}
	if !b.dynamic.on {
		if b.dynamic.requested.File == "" {
			b.dynamic.requested = requestsDynamic(r)
		}
		return nil
	}
	loops, items, err := pl.Dynamic(ctx, r)
	if err != nil {
		b.problem(r.Unit.Pos, "[%s]: cannot determine load-dependent values: %v", r.Unit.Name, err)
	}
	for _, it := range items {
		b.item(ctx, it, r.Unit.Name)
	}
	var out []plugin.Varying
	for _, l := range loops {
		for _, v := range l.Places {
			if id, err := b.Kinds.Resolve(v.Setting); err == nil && !b.Arrived[l.Device] {
				b.dynamic.settings[id] = b.dynamic.daemon
			}
			out = append(out, v)
		}
	}
	if !b.dynamic.daemon {
		b.dynamic.idle = b.dynamic.idle || len(out) > 0
		return nil
	}
	return out
}

// requestsDynamic returns the position of an option that requests dynamic tuning.
func requestsDynamic(r *plugin.Request) profile.Pos {
	for _, o := range r.Unit.Options {
		switch o.Name {
		case "dynamic":
			if on, ok := plugin.Truth(o.Value); ok && on {
				return o.Pos
			}
		case "load_threshold", "latency_low", "latency_high", "load_threshold_normal", "load_threshold_powersave", "she_normal", "she_powersave":
			return o.Pos
		}
	}
	return profile.Pos{}
}

// warnDynamic warns once if the profile requests dynamic tuning but no setting follows the load.
func (b *builder) warnDynamic() {
	switch d := b.dynamic; {
	case d.requested.File != "":
		b.problem(d.requested, "no effect, because dynamic tuning is off; turn it on with dynamic_tuning=1 in %s", profile.MainConfigFile)
	case d.idle:
		b.problem(b.Main.Where["dynamic_tuning"], "dynamic tuning is on, but fettle's daemon is not running; start it with fettle tune --persist")
	}
}

// varies decides a step whose setting follows the load and also has a value in the profile. It
// reports whether it decided.
func (b *builder) varies(step *Step) bool {
	chain := b.chains[step.Setting]
	last := top(chain)
	if b.single || !b.dynamic.settings[step.Setting] || last == nil || len(last.Varies) == 0 || !b.left(last, step.Before) {
		return false
	}
	for _, en := range slices.Backward(chain) {
		if len(en.Varies) > 0 {
			continue
		}
		if !selectionEntry(en) || !b.Kinds.Equal(step.Setting, en.Want, step.Want) {
			return false
		}
		step.Action, step.Verdict = None, plugin.Dynamic
		step.Why = fmt.Sprintf("%s; the profile's own value is %s", followsLoad, show(step.Want))
		return true
	}
	return false
}

// varyingStep returns the step of a load-dependent setting.
func (b *builder) varyingStep(ctx context.Context, v plugin.Varying, unit string) Step {
	step := Step{Setting: v.Setting, Varies: v.Values, Reason: v.Reason, Unit: unit, Stage: b.stage, Action: None}
	id, err := b.Kinds.Resolve(v.Setting)
	if err != nil {
		step.unresolved(err)
		return step
	}
	step.Setting = id
	kind, err := b.Kinds.For(id)
	if err != nil {
		step.unresolved(err)
		return step
	}
	step.Lifetime = kind.Lifetime()
	if err = step.read(kind.Read(ctx, id)); err == nil {
		step.Want = step.Before
	}
	switch k, kept := b.Keep.Match(id); {
	case kept:
		step.Verdict, step.Why = plugin.Kept, fmt.Sprintf("%s (%s)", k.Reason, k)
	case err != nil:
		step.unreadable(err)
	case step.Before.Absent:
		step.Verdict, step.Why = plugin.Unsupported, "not supported by this kernel or machine"
	default:
		step.Verdict, step.Why = plugin.Dynamic, followsLoad
	}
	return step
}

// stuck reports whether a setting has a value of dynamic tuning although no daemon runs. last is
// the setting's newest entry, or nil.
func (e *Engine) stuck(last *journal.Entry, st Step) bool {
	return last != nil && !Followed(e.StateDir) && !e.Holds && len(last.Varies) > 0 && last.After != nil &&
		!e.Kinds.Equal(st.Setting, *last.After, st.Before) && e.left(last, st.Before)
}

// UnitLoop is a load-dependent part of a profile.
type UnitLoop struct {
	plugin.Loop
	Unit *profile.Unit
}

// Loops returns the load-dependent parts of a profile. It returns none if dynamic tuning is off.
func (e *Engine) Loops(ctx context.Context, p *profile.Profile, s *journal.State) ([]UnitLoop, error) {
	b := e.newBuilder(s)
	if !b.dynamic.on {
		return nil, nil
	}
	possible, assigned, err := b.units(ctx, p)
	if err != nil {
		return nil, err
	}
	var out []UnitLoop
	seen := map[string]bool{}
	for _, u := range possible {
		if b.undecided[u] != nil {
			continue
		}
		pl, _ := plugin.Find(b.Plugins, u.Type)
		if pl.Dynamic != nil {
			loops, _, err := pl.Dynamic(ctx, b.request(ctx, u, assigned[u.Name], seen[u.Type]))
			if err != nil {
				return nil, err
			}
			for _, l := range loops {
				out = append(out, UnitLoop{l, u})
			}
		}
		seen[u.Type] = true
	}
	return out, nil
}

// PlanLoops plans the recording of before-images for the settings of loops, except those that the
// journal has. Values held by a descriptor need none. If the plan has no steps, there is nothing
// to do.
func (e *Engine) PlanLoops(ctx context.Context, loops []UnitLoop, s *journal.State) *Plan {
	b := e.newBuilder(s)
	for _, l := range loops {
		for _, v := range l.Places {
			st := b.varyingStep(ctx, v, l.Unit.Name)
			st.Device = l.Device
			if st.Verdict != plugin.Dynamic || st.Lifetime == setting.Held || !e.Arrived[l.Device] && covers(e.Kinds, Varying(s, st.Setting), v.Values) {
				continue
			}
			st.Action, st.Verdict = Same, plugin.OK
			b.add(st)
		}
	}
	return b.done()
}

// Varying returns the entry that records a setting as load-dependent, or nil.
func Varying(s *journal.State, id setting.Setting) *journal.Entry {
	if last := top(s.Chains()[id]); last != nil && len(last.Varies) > 0 && last.After != nil {
		return last
	}
	return nil
}

// covers reports whether the entry records all of the values.
func covers(kinds setting.Kinds, en *journal.Entry, values []setting.Value) bool {
	return en != nil && !slices.ContainsFunc(values, func(v setting.Value) bool {
		return !slices.ContainsFunc(en.Varies, func(k setting.Value) bool { return kinds.Equal(en.Setting, k, v) })
	})
}

// ErrForeign is returned if a load-dependent setting has a value that fettle did not write.
var ErrForeign = errors.New("another program has changed it")

// ErrFixed is returned if the journal does not record the setting as load-dependent, or not with
// that value.
var ErrFixed = errors.New("not journaled as a load-dependent value; not written")

// Vary writes a value to a load-dependent setting, under the lock and without a record. It returns
// ErrFixed if the journal lacks the setting or the value: undo would not recognize the value.
func (e *Engine) Vary(ctx context.Context, id setting.Setting, want setting.Value) error {
	return e.vary(ctx, id, &want)
}

// Rebase restores a load-dependent setting to its value from before, whatever it has now: firmware
// has reset it.
func (e *Engine) Rebase(ctx context.Context, id setting.Setting) error {
	return e.vary(ctx, id, nil)
}

func (e *Engine) vary(ctx context.Context, id setting.Setting, want *setting.Value) error {
	j, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer j.Close()
	kind, err := e.Kinds.For(id)
	if err != nil {
		return err
	}
	en := Varying(j.State, id)
	if en == nil || want != nil && !e.left(en, *want) {
		return fmt.Errorf("%s: %w", id, ErrFixed)
	}
	now, err := kind.Read(ctx, id)
	switch {
	case err != nil:
		return err
	case want == nil:
		want = en.After
	case !e.left(en, now):
		return fmt.Errorf("%s holds %s: %w", id, show(now), ErrForeign)
	}
	if e.Kinds.Equal(id, *want, now) {
		return nil
	}
	e.at("write:" + id.String() + ":before")
	err = kind.Write(ctx, id, *want)
	e.at("write:" + id.String() + ":after")
	if err != nil {
		return err
	}
	// Undo would not recognize a value that differs from the written one.
	if now, err = kind.Read(ctx, id); err != nil || e.left(en, now) {
		return err
	}
	return errors.Join(fmt.Errorf("%s = %s: the machine changed the value to %s", id, show(*want), show(now)), kind.Write(ctx, id, *en.After))
}
