package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	single  bool     // single changes: relative to the current values, not to those without the selection
	environ []string // the profile's variables in the form for scripts
	// undecided maps each unit whose conditions cannot be evaluated yet to the reason. Its settings
	// are shown but not written.
	undecided map[*profile.Unit]*profile.UndecidedError
	stage     int
	added     int                     // number of added steps, including replaced ones
	at        map[setting.Setting]int // index of the step of each setting
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

// units returns a profile's units that apply to this machine, or may apply. It also returns their
// devices by unit name.
func (b *builder) units(ctx context.Context, p *profile.Profile) (possible []*profile.Unit, assigned map[string][]string, err error) {
	var active []*profile.Unit
	for _, u := range p.InOrder() {
		skip, why, err := b.Main.Skipped(u, b.Host)
		var undecided *profile.UndecidedError
		if err != nil && !errors.As(err, &undecided) {
			return nil, nil, err
		}
		if skip {
			b.plan.Skipped = append(b.plan.Skipped, Skipped{u.Name, u.Pos, why})
			continue
		}
		if _, ok := plugin.Find(b.Plugins, u.Type); !ok {
			pr := plugin.UnknownType(b.Plugins, u)
			o := profile.Option{Name: "type", Value: u.Type, Pos: pr.Pos}
			b.item(ctx, plugin.Failed(u.Name, o, "", plugin.Invalid("%s", pr.Text)), u.Name)
			continue
		}
		if undecided != nil {
			b.problem(u.Pos, "%v", err)
			b.undecided[u] = undecided
			b.plan.undecided = append(b.plan.undecided, undecided)
			possible = append(possible, u)
			continue
		}
		active, possible = append(active, u), append(possible, u)
	}
	assigned, unknown, problems := plugin.AssignKnown(ctx, b.Host, b.Plugins, active)
	for _, pr := range problems {
		b.problem(pr.Pos, "%s", pr.Text)
	}
	for _, u := range active {
		b.unlisted(ctx, u, unknown[u.Name])
	}
	for u := range b.undecided {
		// An undecided unit takes no devices from units that apply.
		alone, missing, _ := plugin.AssignKnown(ctx, b.Host, b.Plugins, []*profile.Unit{u})
		b.unlisted(ctx, u, missing[u.Name])
		assigned[u.Name] = alone[u.Name]
	}
	possible = slices.DeleteFunc(possible, func(u *profile.Unit) bool {
		pl, _ := plugin.Find(b.Plugins, u.Type)
		none := pl.Devices != nil && len(assigned[u.Name]) == 0 // as in TuneD, a unit without devices does not apply
		if none && pl.NoDevice != nil && unknown[u.Name] == nil && b.undecided[u] == nil {
			for _, it := range pl.NoDevice(b.request(ctx, u, nil, false)) {
				b.item(ctx, it, u.Name)
			}
		}
		return none
	})
	b.environ = p.Environ()
	return possible, assigned, nil
}

// unit plans one unit. later is true if an earlier unit has the same type.
func (b *builder) unit(ctx context.Context, u *profile.Unit, devices []string, later bool) error {
	pl, _ := plugin.Find(b.Plugins, u.Type)
	r := b.request(ctx, u, devices, later)
	undecided := b.undecided[u]
	var varying []plugin.Varying
	if undecided == nil {
		varying = b.planLoops(ctx, pl, r)
	}
	items, err := unitItems(ctx, pl, r)
	if err != nil {
		return err
	}
	for _, it := range items {
		if undecided != nil {
			it.Verdict, it.Why, it.Fence = plugin.Unknown, undecided.Error(), false
			if len(u.Deferred) > 0 {
				it.Verdict = plugin.Deferred
			}
		}
		b.item(ctx, it, u.Name)
	}
	for _, v := range varying {
		// A setting with a fixed value in the profile already has a step.
		step := b.varyingStep(ctx, v, u.Name)
		if _, planned := b.at[step.Setting]; !planned {
			b.add(step)
		}
	}
	return nil
}

// unitItems returns a unit's items in TuneD's order: invalid options, script_pre, the plug-in's
// unconditional items, the unit's options, each device's options, script_post. It returns an error
// only if ctx has ended.
func unitItems(ctx context.Context, pl *plugin.Plugin, r *plugin.Request) ([]plugin.Item, error) {
	u := &r.Unit
	var items []plugin.Item
	var whole, perDevice []profile.Option
	for _, o := range orderOptions(pl, u.Options) {
		spec, ok := pl.Option(o.Name)
		switch {
		case !ok:
			items = append(items, plugin.Failed(u.Name, o, "", plugin.Invalid("%s", pl.UnknownOption(o).Text)))
		case spec.Control && (spec.Check == nil || len(o.Deferred) > 0):
		case spec.Control:
			if err := spec.Check(o); err != nil {
				items = append(items, plugin.Failed(u.Name, o, "", err))
			}
		case spec.PerDevice:
			perDevice = append(perDevice, o)
		default:
			whole = append(whole, o)
		}
	}
	pre, post := service.UnitScripts(r)
	items = append(items, pre...)
	add := func(o profile.Option, device string, more []plugin.Item, err error) {
		if err != nil {
			more = append([]plugin.Item{plugin.Failed(u.Name, o, device, err)}, more...)
		}
		items = append(items, more...)
	}
	if pl.Always != nil {
		more, err := pl.Always(ctx, r)
		add(profile.Option{Name: "type", Value: u.Type, Pos: u.Pos}, "", more, err)
	}
	for _, o := range whole {
		more, err := optionItems(ctx, pl, r, o, "")
		add(o, "", more, err)
	}
	for _, device := range r.Devices {
		for _, o := range perDevice {
			more, err := optionItems(ctx, pl, r, o, device)
			add(o, device, more, err)
		}
	}
	return append(items, post...), ctx.Err()
}

// optionItems returns the items of one option. device is "" if the option is not per device.
func optionItems(ctx context.Context, pl *plugin.Plugin, r *plugin.Request, o profile.Option, device string) ([]plugin.Item, error) {
	if len(o.Deferred) > 0 {
		name := strings.TrimPrefix(device+"/"+o.Name, "/")
		return []plugin.Item{{
			Change:  setting.Change{Setting: setting.Setting{Kind: r.Unit.Type, Name: name}, Want: setting.Text(o.Value), Reason: plugin.ReasonOf(o)},
			Verdict: plugin.Deferred, Why: "known only when applied: " + o.Deferred[0].Text, Device: device,
		}}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	spec, _ := pl.Option(o.Name)
	items, err := spec.Plan(ctx, r, o, device)
	if err != nil {
		return nil, err
	}
	for i := range items {
		items[i].Device = cmp.Or(items[i].Device, device)
	}
	return items, nil
}

// unlisted adds the options of a unit whose devices are unknown; err is the reason.
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

// orderOptions sorts a unit's options into the plug-in's order. Options with free names come last,
// in the profile's order.
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
