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

// Dynamic tuning: places that follow the load. Before the first value of such a
// place is written, a transaction of the daemon has its before-image, together
// with every value that the daemon may put there. From then on the daemon writes
// without a record, under the lock: undo, also after a crash, gives back the
// before-image where it finds any of those values.

// Dynamic says whether values follow the load.
type Dynamic struct {
	On bool `json:"on"`
	// Interval is how often the load is looked at, in seconds.
	Interval float64 `json:"interval_s,omitempty"`
	// From is the line of tuned-main.conf that says so; empty: nobody says.
	From string `json:"from,omitempty"`
	// Daemon is true while a daemon lives, without which nothing follows.
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
	leftVarying = "left as it followed the load; fettle's daemon, which could go on, does not run"
)

// dynamicPlan is what a builder knows of dynamic tuning.
type dynamicPlan struct {
	on       bool
	followed bool // a daemon does it
	places   map[setting.Setting]bool
	asked    profile.Pos // the first option that asks for it in vain
	idle     bool        // there are places, and nobody follows them
}

// planLoops finds the places of a unit that follow the load. Where no daemon
// does it they are only counted.
func (b *builder) planLoops(ctx context.Context, pl *plugin.Plugin, r *plugin.Request) []plugin.Varying {
	if pl.Dynamic == nil {
		return nil
	}
	if !b.dynamic.on {
		if b.dynamic.asked.File == "" {
			b.dynamic.asked = asks(r)
		}
		return nil
	}
	loops, items, err := pl.Dynamic(ctx, r)
	if err != nil {
		b.problem(r.Unit.Pos, "[%s]: what follows the load cannot be known: %v", r.Unit.Name, err)
	}
	for _, it := range items {
		b.item(ctx, it, r.Unit.Name)
	}
	var out []plugin.Varying
	for _, l := range loops {
		for _, v := range l.Places {
			if id, err := b.Kinds.Resolve(v.Setting); err == nil && !b.Arrived[l.Device] {
				b.dynamic.places[id] = b.dynamic.followed
			}
			out = append(out, v)
		}
	}
	if !b.dynamic.followed {
		b.dynamic.idle = b.dynamic.idle || len(out) > 0
		return nil
	}
	return out
}

// asks finds an option by which a profile itself asks for dynamic tuning.
func asks(r *plugin.Request) profile.Pos {
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

// sayDynamic says once what of the profile does not follow the load, and why.
func (b *builder) sayDynamic() {
	switch d := b.dynamic; {
	case d.asked.File != "":
		b.problem(d.asked, "dynamic tuning is off, so this does nothing; dynamic_tuning=1 in %s turns it on", profile.MainConfigFile)
	case d.idle:
		b.problem(b.Main.Where["dynamic_tuning"], "dynamic tuning is on, but fettle's daemon, which does it, does not run: nothing follows the load (fettle tune --persist starts it)")
	}
}

// varies settles a step whose place follows the load already, on top of the value
// that the profile has for it.
func (b *builder) varies(step *Step, kind setting.Kind) bool {
	if b.single || !b.dynamic.places[step.Setting] {
		return false
	}
	chain := b.under.chains[step.Setting]
	if len(chain) == 0 || len(chain[len(chain)-1].Varies) == 0 || !b.left(chain[len(chain)-1], step.Before) {
		return false
	}
	for _, en := range slices.Backward(chain) {
		if len(en.Varies) > 0 {
			continue
		}
		if !selectionEntry(en) || !b.same(step.Setting, en.Want, step.Want) {
			return false
		}
		step.Action, step.Verdict = None, plugin.Dynamic
		step.Why = fmt.Sprintf("%s; the profile's own value is %s", followsLoad, show(step.Want))
		return true
	}
	return false
}

// vary adds the step of a place that follows the load and has no value of its
// own in the profile.
func (b *builder) vary(ctx context.Context, v plugin.Varying, unit string) {
	step := b.varyingStep(ctx, v, unit)
	if _, has := b.at[step.Setting]; !has {
		b.add(step)
	}
}

// varyingStep looks at a place that follows the load.
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
		step.Verdict, step.Why = plugin.Unsupported, "this kernel or machine does not have it"
	default:
		step.Verdict, step.Why = plugin.Dynamic, followsLoad
	}
	return step
}

// stuck is true for a place that has followed the load and holds one of those
// values, while nobody follows the load any more.
func (e *Engine) stuck(chain []*journal.Entry, st Step) bool {
	if len(chain) == 0 || Followed(e.StateDir) || e.Holds {
		return false
	}
	top := chain[len(chain)-1]
	return len(top.Varies) > 0 && top.After != nil && !e.same(st.Setting, *top.After, st.Before) &&
		e.left(top, st.Before)
}

// UnitLoop is one part of a profile that follows the load.
type UnitLoop struct {
	plugin.Loop
	Unit *profile.Unit
}

// Loops are the parts of a profile that follow the load; none where dynamic
// tuning is off.
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
		pl, _ := b.plugin(u.Type)
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

// PlanLoops plans to keep the before-images of what loops may write, where the
// journal does not have them yet. Values that a descriptor holds need none. A
// plan without steps has nothing to do.
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

// Varying is the entry by which a place follows the load, or nil.
func Varying(s *journal.State, place setting.Setting) *journal.Entry {
	chain := s.Chains()[place]
	if len(chain) == 0 || len(chain[len(chain)-1].Varies) == 0 || chain[len(chain)-1].After == nil {
		return nil
	}
	return chain[len(chain)-1]
}

// covers is true where the entry knows all the values.
func covers(kinds setting.Kinds, en *journal.Entry, values []setting.Value) bool {
	return en != nil && !slices.ContainsFunc(values, func(v setting.Value) bool {
		return !slices.ContainsFunc(en.Varies, func(k setting.Value) bool { return kinds.Equal(en.Setting, k, v) })
	})
}

// ErrForeign says that a place which follows the load holds a value that is not
// fettle's.
var ErrForeign = errors.New("somebody has changed it")

// ErrFixed says that a place does not follow the load, or not to that value: the
// journal would not know it.
var ErrFixed = errors.New("not in the journal as following the load, so it is not written")

// Vary puts a value into a place that follows the load, under the lock and without
// a record. It refuses a place, and a value, that the journal does not have: undo
// would not know it.
func (e *Engine) Vary(ctx context.Context, place setting.Setting, want setting.Value) error {
	return e.vary(ctx, place, &want)
}

// Rebase puts back what a place held before it followed the load, whatever it
// holds: firmware has reset it.
func (e *Engine) Rebase(ctx context.Context, place setting.Setting) error {
	return e.vary(ctx, place, nil)
}

func (e *Engine) vary(ctx context.Context, place setting.Setting, want *setting.Value) error {
	j, err := e.lock(ctx)
	if err != nil {
		return err
	}
	defer j.Close()
	kind, err := e.Kinds.For(place)
	if err != nil {
		return err
	}
	ours := func(en *journal.Entry, v setting.Value) bool {
		return e.left(en, v)
	}
	en := Varying(j.State, place)
	if en == nil || want != nil && !ours(en, *want) {
		return fmt.Errorf("%s: %w", place, ErrFixed)
	}
	now, err := kind.Read(ctx, place)
	switch {
	case err != nil:
		return err
	case want == nil:
		want = en.After
	case !ours(en, now):
		return fmt.Errorf("%s holds %s: %w", place, show(now), ErrForeign)
	}
	if e.same(place, *want, now) {
		return nil
	}
	e.at("write:" + place.String() + ":before")
	err = kind.Write(ctx, place, *want)
	e.at("write:" + place.String() + ":after")
	if err != nil {
		return err
	}
	// A value that the machine makes of ours would not be known to undo.
	if now, err = kind.Read(ctx, place); err != nil || ours(en, now) {
		return err
	}
	return errors.Join(fmt.Errorf("%s = %s: the machine makes %s of it", place, show(*want), show(now)), kind.Write(ctx, place, *en.After))
}
