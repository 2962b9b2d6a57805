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
	under   underneath
	single  bool     // single changes: compare with what is there, not underneath
	environ []string // the profile's variables as scripts get them
	// undecided are the units of which it is not known whether they apply:
	// their settings are named and not written.
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
		under: newUnderneath(e, s),
		stage: 1, undecided: map[*profile.Unit]*profile.UndecidedError{},
		at: map[setting.Setting]int{},
		dynamic: dynamicPlan{
			on: e.Main.DynamicInterval() > 0, followed: e.Holds || Followed(e.StateDir), places: map[setting.Setting]bool{},
		},
	}
}

func (b *builder) problem(pos profile.Pos, format string, args ...any) {
	b.plan.Problems = append(b.plan.Problems, Problem{pos, fmt.Sprintf(format, args...)})
}

// unit plans one unit: device-independent options first, then the options of
// each device, as TuneD orders them.
func (b *builder) unit(ctx context.Context, u *profile.Unit, devices []string, later bool) error {
	pl, _ := b.plugin(u.Type)
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
		spec, ok := findOption(pl, po.Name)
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
		b.vary(ctx, v, u.Name)
	}
	return nil
}

// unlisted names the options of a unit whose devices are not known: what they
// would set is not known either.
func (b *builder) unlisted(ctx context.Context, u *profile.Unit, err error) {
	if err == nil {
		return
	}
	pl, _ := b.plugin(u.Type)
	for _, o := range orderOptions(pl, u.Options) {
		failed := err
		switch spec, ok := findOption(pl, o.Name); {
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
	if pl, ok := b.plugin(u.Type); ok {
		unit = pl.ReadUnit(unit, func(pos profile.Pos, warning string) {
			if p := (Problem{pos, warning}); !slices.Contains(b.plan.Problems, p) {
				b.plan.Problems = append(b.plan.Problems, p)
			}
		})
	}
	return &plugin.Request{
		Host: b.Host, Kinds: b.Kinds, Unit: unit, Devices: devices, ProfileDirs: b.ProfileDirs, Later: later, Environ: b.environ,
		Original: func(s setting.Setting) (setting.Value, error) { return b.under.value(ctx, s) },
	}
}

func optionPlace(name, device string) string {
	if device == "" {
		return name
	}
	return device + "/" + name
}

// orderOptions puts the options of a unit into the plug-in's order; options
// with free names keep the profile's.
func orderOptions(pl *plugin.Plugin, opts []profile.Option) []profile.Option {
	out := make([]profile.Option, 0, len(opts))
	fixed := map[string]bool{}
	for _, spec := range pl.Options {
		fixed[spec.Name] = true
		for _, o := range opts {
			if o.Name == spec.Name {
				out = append(out, o)
			}
		}
	}
	for _, o := range opts {
		if !fixed[o.Name] {
			out = append(out, o)
		}
	}
	return out
}

func findOption(pl *plugin.Plugin, name string) (plugin.Option, bool) {
	for _, o := range pl.Options {
		if o.Name == name {
			return o, true
		}
	}
	if pl.Free != nil {
		return pl.Free(name)
	}
	return plugin.Option{}, false
}
