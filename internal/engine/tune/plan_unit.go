package tune

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/service"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// builder collects the steps of one plan.
type builder struct {
	*Engine
	plan    *Plan
	chains  map[setting.Setting][]*journal.Entry
	single  bool     // single changes: relative to the present values, not to those without the selection
	environ []string // the profile's variables as scripts get them
	// undecided are the units of which it is not known whether they apply: their
	// settings are named and not written.
	undecided map[*profile.Unit]*profile.UndecidedError
	stage     int
	added     int                     // steps so far, those replaced included
	at        map[setting.Setting]int // step of each identity
	dynamic   dynamicPlan
}

func (e *Engine) newBuilder(s *journal.State) *builder {
	return &builder{
		Engine: e,
		plan: &Plan{
			Schema: PlanSchema, Created: e.Host.Clock.Now().UTC(), Machine: e.Host.Name,
			BootID: e.bootID(), Generation: s.Generation, Steps: []Step{}, state: s,
		},
		chains: s.Chains(),
		stage:  1, undecided: map[*profile.Unit]*profile.UndecidedError{},
		at: map[setting.Setting]int{},
		dynamic: dynamicPlan{
			on: e.Main.DynamicInterval() > 0, daemon: e.Holds || Followed(e.StateDir), settings: map[setting.Setting]bool{},
		},
	}
}

func (b *builder) problem(pos profile.Pos, format string, args ...any) {
	b.plan.Problems = append(b.plan.Problems, Problem{pos, fmt.Sprintf(format, args...)})
}

// unit plans one unit: device-independent options first, then the options of each device,
// in TuneD's order. later is true if an earlier unit has the same type.
func (b *builder) unit(ctx context.Context, u *profile.Unit, devices []string, later bool) error {
	pl, _ := plugin.Find(b.Plugins, u.Type)
	r := b.request(ctx, u, devices, later)
	var varying []plugin.Varying
	if b.undecided[u] == nil {
		varying = b.planLoops(ctx, pl, r)
	}
	type planned struct {
		option plugin.Option
		value  profile.Option
	}
	var whole, perDevice []planned
	var unknown []plugin.Item // and Control options whose value is not valid
	for _, po := range orderOptions(pl, r.Unit.Options) {
		spec, ok := pl.Option(po.Name)
		switch {
		case !ok:
			unknown = append(unknown, plugin.Failed(u.Name, po, "", plugin.Invalid("%s", pl.UnknownOption(po).Text)))
		case spec.Control:
			if spec.Check == nil || len(po.Deferred) > 0 {
				break
			}
			if err := spec.Check(po); err != nil {
				unknown = append(unknown, plugin.Failed(u.Name, po, "", err))
			}
		case spec.PerDevice:
			perDevice = append(perDevice, planned{spec, po})
		default:
			whole = append(whole, planned{spec, po})
		}
	}
	item := func(it plugin.Item) {
		if ue := b.undecided[u]; ue != nil {
			it.Verdict, it.Why, it.Fence = plugin.Unknown, ue.Error(), false
			if len(u.Deferred) > 0 {
				it.Verdict = plugin.Deferred
			}
		}
		b.item(ctx, it, u.Name)
	}
	run := func(pd planned, device string) error {
		if len(pd.value.Deferred) > 0 {
			item(plugin.Item{
				Change:  setting.Change{Setting: setting.Setting{Kind: u.Type, Name: optionPlace(pd.value.Name, device)}, Want: setting.Text(pd.value.Value), Reason: plugin.ReasonOf(pd.value)},
				Verdict: plugin.Deferred, Why: "known when applied: " + pd.value.Deferred[0].Text, Device: device,
			})
			return nil
		}
		items, err := pd.option.Plan(ctx, r, pd.value, device)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			item(plugin.Failed(u.Name, pd.value, device, err))
			return nil
		}
		for _, it := range items {
			if it.Device == "" {
				it.Device = device
			}
			item(it)
		}
		return nil
	}
	for _, it := range unknown {
		item(it)
	}
	pre, post := service.UnitScripts(r)
	for _, it := range pre {
		item(it)
	}
	if pl.Always != nil {
		items, err := pl.Always(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			item(plugin.Failed(u.Name, profile.Option{Name: "type", Value: u.Type, Pos: u.Pos}, "", err))
		}
		for _, it := range items {
			item(it)
		}
	}
	for _, pd := range whole {
		if err := run(pd, ""); err != nil {
			return err
		}
	}
	for _, d := range devices {
		for _, pd := range perDevice {
			if err := run(pd, d); err != nil {
				return err
			}
		}
	}
	for _, it := range post {
		item(it)
	}
	for _, v := range varying {
		// A setting that has a value of its own in the profile has a step already.
		step := b.varyingStep(ctx, v, u.Name)
		if _, planned := b.at[step.Setting]; !planned {
			b.add(step)
		}
	}
	return nil
}

// unlisted adds the options of a unit whose devices are not known, with err as the reason.
func (b *builder) unlisted(ctx context.Context, u *profile.Unit, err error) {
	if err == nil {
		return
	}
	pl, _ := plugin.Find(b.Plugins, u.Type)
	for _, o := range orderOptions(pl, u.Options) {
		failed := err
		switch spec, ok := pl.Option(o.Name); {
		case !ok:
			failed = plugin.Invalid("%s", pl.UnknownOption(o).Text)
		case spec.Control:
			continue
		}
		it := plugin.Failed(u.Name, o, "", failed)
		if it.Verdict == plugin.Unknown && len(u.Deferred) > 0 {
			it.Verdict = plugin.Deferred
		}
		b.item(ctx, it, u.Name)
	}
}

func (b *builder) request(ctx context.Context, u *profile.Unit, devices []string, later bool) *plugin.Request {
	unit := *u
	if pl, ok := plugin.Find(b.Plugins, u.Type); ok {
		unit = pl.ReadUnit(unit, func(pos profile.Pos, warning string) {
			if p := (Problem{pos, warning}); !slices.Contains(b.plan.Problems, p) {
				b.plan.Problems = append(b.plan.Problems, p)
			}
		})
	}
	return &plugin.Request{
		Host: b.Host, Kinds: b.Kinds, Unit: unit, Devices: devices, ProfileDirs: b.ProfileDirs, Later: later, Environ: b.environ,
		Original: func(s setting.Setting) (setting.Value, error) { return b.original(ctx, s) },
	}
}

func optionPlace(name, device string) string {
	if device == "" {
		return name
	}
	return device + "/" + name
}

// orderOptions puts the options of a unit into the plug-in's order; options with free
// names follow in the profile's order.
func orderOptions(pl *plugin.Plugin, opts []profile.Option) []profile.Option {
	rank := func(o profile.Option) int {
		if i := slices.IndexFunc(pl.Options, func(spec plugin.Option) bool { return spec.Name == o.Name }); i >= 0 {
			return i
		}
		return len(pl.Options)
	}
	out := slices.Clone(opts)
	slices.SortStableFunc(out, func(a, b profile.Option) int { return rank(a) - rank(b) })
	return out
}
