package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/journal"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/plugin/script"
	"fettle.dev/fettle/internal/profile"
	"fettle.dev/fettle/internal/setting"
)

// Plan is ordered changes against what the machine has now. It is a plain value:
// `fettle diff --output json` prints it, `fettle tune --plan FILE` takes it.
type Plan struct {
	Schema   string    `json:"schema"` // fettle/plan/v1
	Created  time.Time `json:"created"`
	Machine  string    `json:"machine"`
	BootID   string    `json:"boot_id,omitempty"`
	Profiles []string  `json:"profiles,omitempty"`
	// Generation is the journal's when the plan was made.
	Generation int64 `json:"generation"`
	// Sources are the files of the profiles that the plan was made from.
	Sources  []profile.Source `json:"sources,omitempty"`
	Steps    []Step           `json:"steps"`
	Problems []Problem        `json:"problems,omitempty"`
}

// PlanSchema names the JSON form of a plan.
const PlanSchema = "fettle/plan/v1"

// Action says what applying a step does.
type Action string

// The actions.
const (
	Write   Action = "write"   // the value differs and will be written
	Same    Action = "same"    // it has the value already: owned, not written
	Release Action = "release" // the selection lets go of it: goes back
	None    Action = "none"    // not written; the verdict says why
)

// Step is one setting of a plan.
type Step struct {
	Setting setting.Setting `json:"setting"` // its one identity
	// Named is how the profile calls it, where that is not the identity.
	Named   string         `json:"named,omitempty"`
	Before  setting.Value  `json:"before"`
	Want    setting.Value  `json:"want"`
	Op      setting.Op     `json:"op,omitempty"`
	Action  Action         `json:"action"`
	Verdict plugin.Verdict `json:"verdict"`
	Why     string         `json:"why,omitempty"`
	Reason  setting.Reason `json:"reason"`
	Unit    string         `json:"unit,omitempty"`
	Device  string         `json:"device,omitempty"`
	// Stage groups the steps whose before-images are taken together.
	Stage    int              `json:"stage"`
	Lifetime setting.Lifetime `json:"lifetime,omitempty"`
	// Override is the administrator's claim that wins over this one.
	Override *Override `json:"override,omitempty"`
}

// Writes counts the steps that applying the plan would write.
func (p *Plan) Writes() int {
	n := 0
	for _, s := range p.Steps {
		if s.Action == Write || s.Action == Release {
			n++
		}
	}
	return n
}

// PlanProfile plans a profile against the machine and the selection in force:
// what differs is written, what the old selection alone had is released.
func (e *Engine) PlanProfile(ctx context.Context, p *profile.Profile, s *journal.State) (*Plan, error) {
	b := e.newBuilder(s)
	b.plan.Profiles, b.plan.Sources = p.Names, p.Sources
	for _, w := range p.Warnings {
		b.problem(w.Pos, "%s", w.Text)
	}
	units := p.InOrder()
	var active []*profile.Unit
	for _, u := range units {
		skip, why, err := e.Main.Skipped(u, e.Host)
		if err != nil {
			return nil, err
		}
		if skip {
			b.problem(u.Pos, "[%s] is not for this machine: %s", u.Name, why)
			continue
		}
		if _, ok := e.plugin(u.Type); !ok {
			pr := plugin.UnknownType(e.Plugins, u)
			b.problem(pr.Pos, "%s", pr.Text)
			continue
		}
		active = append(active, u)
	}
	assigned, problems := plugin.Assign(ctx, e.Host, e.Plugins, active)
	for _, pr := range problems {
		b.problem(pr.Pos, "%s", pr.Text)
	}
	active = slices.DeleteFunc(active, func(u *profile.Unit) bool {
		pl, _ := e.plugin(u.Type)
		return pl.Devices != nil && len(assigned[u.Name]) == 0 // as TuneD: no device, no unit
	})
	b.environ = p.Environ()
	seen := map[string]bool{}
	for _, u := range active {
		if err := b.unit(ctx, u, assigned[u.Name], seen[u.Type]); err != nil {
			return nil, err
		}
		seen[u.Type] = true
	}
	b.releases(ctx)
	return b.done(), nil
}

// PlanChanges plans single changes beside the selection.
func (e *Engine) PlanChanges(ctx context.Context, changes []setting.Change, s *journal.State) (*Plan, error) {
	b := e.newBuilder(s)
	b.single = true
	for _, c := range changes {
		if _, err := e.Kinds.For(c.Setting); err != nil {
			return nil, err
		}
		b.item(ctx, plugin.Item{Change: c}, "")
	}
	return b.done(), nil
}

// builder collects the steps of one plan.
type builder struct {
	*Engine
	plan    *Plan
	under   underneath
	single  bool     // single changes: compare with what is there, not underneath
	environ []string // the profile's variables as scripts get them
	stage   int
	at      map[setting.Setting]int // step of each identity
}

func (e *Engine) newBuilder(s *journal.State) *builder {
	return &builder{
		Engine: e,
		plan: &Plan{
			Schema: PlanSchema, Created: e.Host.Clock.Now().UTC(), Machine: e.Host.Name,
			BootID: e.bootID(), Generation: s.Generation, Steps: []Step{},
		},
		under: newUnderneath(e, s),
		stage: 1,
		at:    map[setting.Setting]int{},
	}
}

func (b *builder) problem(pos profile.Pos, format string, args ...any) {
	b.plan.Problems = append(b.plan.Problems, Problem{pos, fmt.Sprintf(format, args...)})
}

// unit plans one unit: device-independent options first, then the options of
// each device, as TuneD orders them.
func (b *builder) unit(ctx context.Context, u *profile.Unit, devices []string, later bool) error {
	pl, _ := b.plugin(u.Type)
	r := &plugin.Request{
		Host: b.Host, Kinds: b.Kinds, Unit: *u, Devices: devices, ProfileDirs: b.ProfileDirs, Later: later, Environ: b.environ,
		Original: func(s setting.Setting) (setting.Value, error) { return b.under.value(ctx, s) },
	}
	type planned struct {
		option plugin.Option
		value  profile.Option
	}
	var whole, perDevice []planned
	for _, po := range orderOptions(pl, u.Options) {
		spec, ok := findOption(pl, po.Name)
		switch {
		case !ok:
			pr := pl.UnknownOption(po)
			b.problem(pr.Pos, "%s", pr.Text)
		case spec.Control:
		case spec.PerDevice:
			perDevice = append(perDevice, planned{spec, po})
		default:
			whole = append(whole, planned{spec, po})
		}
	}
	run := func(pd planned, device string) error {
		if len(pd.value.Deferred) > 0 {
			b.item(ctx, plugin.Item{
				Change:  setting.Change{Setting: setting.Setting{Kind: u.Type, Name: optionPlace(pd.value.Name, device)}, Want: setting.Text(pd.value.Value), Reason: plugin.ReasonOf(pd.value)},
				Verdict: plugin.Deferred, Why: "known when applied: " + pd.value.Deferred[0].Text, Device: device,
			}, u.Name)
			return nil
		}
		items, err := pd.option.Plan(ctx, r, pd.value, device)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.problem(pd.value.Pos, "%s: %v", pd.value.Name, err)
			return nil
		}
		for _, it := range items {
			if it.Device == "" {
				it.Device = device
			}
			b.item(ctx, it, u.Name)
		}
		return nil
	}
	pre, post := script.UnitScripts(r)
	for _, it := range pre {
		b.item(ctx, it, u.Name)
	}
	if pl.Always != nil {
		items, err := pl.Always(ctx, r)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.problem(u.Pos, "[%s]: %v", u.Name, err)
		}
		for _, it := range items {
			b.item(ctx, it, u.Name)
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
		b.item(ctx, it, u.Name)
	}
	return nil
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

// item turns one item of a plug-in into a step.
func (b *builder) item(ctx context.Context, it plugin.Item, unit string) {
	if it.Fence {
		defer func() { b.stage++ }()
	}
	step := Step{
		Setting: it.Change.Setting, Want: it.Change.Want, Op: it.Change.Op, Reason: it.Change.Reason,
		Unit: unit, Device: it.Device, Stage: b.stage, Why: it.Why,
	}
	if it.Verdict != "" {
		step.Action, step.Verdict = None, it.Verdict
		step.Before, _ = b.Kinds.Read(ctx, it.Change.Setting)
		b.add(step)
		return
	}
	id, err := b.Kinds.Resolve(it.Change.Setting)
	if err != nil {
		step.refuse(err)
		b.add(step)
		return
	}
	if id != it.Change.Setting {
		step.Named = it.Change.Setting.String()
	}
	step.Setting = id
	kind, err := b.Kinds.For(id)
	if err != nil {
		step.refuse(err)
		b.add(step)
		return
	}
	step.Lifetime = kind.Lifetime()
	step.Before, err = kind.Read(ctx, id)
	b.decide(ctx, &step, kind, err)
	b.add(step)
}

// decide settles what is done with a step, most final reason first.
func (b *builder) decide(ctx context.Context, step *Step, kind setting.Kind, readErr error) {
	step.Action = None
	switch {
	case readErr != nil:
		step.unreadable(readErr)
		return
	case step.Before.Absent && isKernelValue(kind) && !step.Want.Absent:
		step.Verdict = plugin.Unsupported
		step.Why = or(step.Why, "this kernel or machine does not have it")
		return
	}
	if k, ok := b.Keep.Match(step.Setting, step.named()); ok {
		step.Verdict, step.Why = plugin.Kept, fmt.Sprintf("%s (%s)", k.Reason, k)
		return
	}
	if why, ok := setting.OneWay(step.Setting); ok && !equal(kind, step.Before, step.Want) {
		step.Verdict, step.Why = plugin.Refused, "cannot be taken back: "+why
		return
	}
	if (step.Setting.Kind == "sysctl" || step.Setting.Kind == "sysfs") && strings.Contains(step.Want.Text, "${") {
		step.Verdict, step.Why = plugin.Refused, "it names a variable or a function that there is not: "+step.Want.Text
		return
	}
	if b.Overridden != nil && !b.single {
		if o, ok := b.Overridden(step.Setting); ok && (o.Setting != step.Setting || !kind.Equal(o.Value, step.Want)) {
			step.Override = &o
			step.Verdict, step.Why = plugin.Overridden, fmt.Sprintf("not written: %s sets %s", o, show(o.Value))
			if o.Setting != step.Setting {
				step.Why += " as " + o.Setting.String()
			}
			return
		}
	}
	from := step.Before
	if !b.single {
		if v, ok := b.under.released(step.Setting); ok {
			from = v
		}
	}
	if step.Op != setting.Set {
		want, why, err := modify(step.Op, from, step.Want)
		if err != nil {
			step.Verdict, step.Why = plugin.Refused, err.Error()
			return
		}
		step.Want, step.Why = want, or(step.Why, why)
	}
	if step.Lifetime == setting.Held && !b.Holds {
		// Nothing of it outlives the process that holds it, so it is not
		// journalled; if it reads as wanted, the daemon holds it.
		step.Verdict = plugin.OK
		if !equal(kind, step.Before, step.Want) {
			step.Verdict = plugin.NeedsDaemon
			step.Why = or(step.Why, "held by an open descriptor, which only fettle's daemon can keep")
		}
		return
	}
	if equal(kind, step.Before, step.Want) {
		step.Action, step.Verdict = Same, plugin.OK
		return
	}
	for _, c := range kind.Coupled(step.Setting) {
		if id, err := b.Kinds.Resolve(c); err == nil {
			if k, ok := b.Keep.Match(id, c); ok {
				step.Verdict, step.Why = plugin.Kept, fmt.Sprintf("writing it would change %s: %s (%s)", id, k.Reason, k)
				return
			}
		}
	}
	step.Action, step.Verdict = Write, plugin.Drifted
}

func equal(k setting.Kind, a, b setting.Value) bool {
	return a.Absent == b.Absent && (a.Absent || k.Equal(a, b))
}

// isKernelValue is true where absence means that the kernel has no such thing,
// not that a file is still to be made.
func isKernelValue(k setting.Kind) bool { return !k.Lifetime().SurvivesBoot() }

// modify answers what ">N" and "<N" mean from a present value.
func modify(op setting.Op, from, want setting.Value) (setting.Value, string, error) {
	a, errA := strconv.ParseInt(strings.TrimSpace(from.Text), 10, 64)
	w, errW := strconv.ParseInt(strings.TrimSpace(want.Text), 10, 64)
	if errW != nil {
		return want, "", fmt.Errorf("%s%s: want a whole number after %q", op, want.Text, string(op))
	}
	if errA != nil {
		return want, "", fmt.Errorf("%s%s: the present value %q is not a number to compare with", op, want.Text, from.Text)
	}
	if op == setting.Raise && a >= w {
		return from, fmt.Sprintf("already at least %d", w), nil
	}
	if op == setting.Lower && a <= w {
		return from, fmt.Sprintf("already at most %d", w), nil
	}
	return want, "", nil
}

func (s *Step) named() setting.Setting {
	if s.Named == "" {
		return s.Setting
	}
	n, err := setting.Parse(s.Named)
	if err != nil {
		return s.Setting
	}
	return n
}

func (s *Step) refuse(err error) {
	s.Action, s.Verdict, s.Why = None, plugin.Refused, err.Error()
}

const ended = "it has ended"

// ended settles a place that was there only for a time.
func (s *Step) ended() { s.Action, s.Verdict, s.Why = None, plugin.Unsupported, ended }

// unreadable settles a place whose present value cannot be known: it could not
// be given back, so it is not written.
func (s *Step) unreadable(err error) {
	switch {
	case errors.Is(err, host.ErrNotRecorded):
		s.Verdict, s.Why = plugin.Unknown, "not recorded in this copy"
	case errors.Is(err, fs.ErrPermission):
		s.Verdict, s.Why = plugin.Unknown, "not readable: "+errno(err)
	default:
		s.Verdict, s.Why = plugin.Unsupported, "cannot be read, so it could not be given back: "+errno(err)
	}
}

// add puts a step into the plan. Of two steps for one place the later one
// holds, as the later write would.
func (b *builder) add(s Step) {
	if i, ok := b.at[s.Setting]; ok && s.Verdict != plugin.Deferred {
		old := &b.plan.Steps[i]
		if s.Action == None && old.Action != None {
			return // what cannot be written takes nothing away
		}
		if !b.Kinds.Equal(s.Setting, old.Want, s.Want) && old.Action != None {
			b.problem(profile.Pos{File: old.Reason.File, Line: old.Reason.Line},
				"%s = %s is replaced by %s, which sets %s", s.Setting, show(old.Want), s.Reason, show(s.Want))
		}
		*old = s
		return
	}
	if s.Action != Release {
		b.displace(s)
	}
	b.at[s.Setting] = len(b.plan.Steps)
	b.plan.Steps = append(b.plan.Steps, s)
}

// displace takes an earlier step out of the plan whose value this one's write
// would undo: of dirty_bytes and dirty_ratio the later holds.
func (b *builder) displace(s Step) {
	twin, ok := setting.SysctlTwin(s.Setting.Name)
	if s.Setting.Kind != "sysctl" || !ok || s.Action == None {
		return
	}
	if i, ok := b.at[setting.Setting{Kind: "sysctl", Name: twin}]; ok && b.plan.Steps[i].Action != None {
		old := &b.plan.Steps[i]
		old.Action, old.Verdict = None, plugin.Overridden
		old.Why = fmt.Sprintf("not written: %s sets %s, and writing that zeroes this", s.Reason, s.Setting.Name)
	}
}

// releases adds what the old selection set and the new one does not: it goes
// back to what it was, unless a later single change stands above it.
func (b *builder) releases(ctx context.Context) {
	for _, en := range newestFirst(b.under.chains) {
		if _, wanted := b.at[en.Setting]; wanted {
			continue
		}
		to, ok := b.under.released(en.Setting)
		if !ok {
			continue
		}
		if _, kept := b.Keep.Match(en.Setting); kept || b.notReleased(en) {
			continue
		}
		kind, err := b.Kinds.For(en.Setting)
		if err != nil {
			continue
		}
		now, err := kind.Read(ctx, en.Setting)
		if err != nil || equal(kind, now, to) || gone(kind, now, to) || setting.Ended(kind, now) {
			continue
		}
		if en.After != nil && !equal(kind, now, *en.After) {
			b.problem(profile.Pos{File: en.Reason.File, Line: en.Reason.Line},
				"%s is no longer set by the selection and stays at %s: somebody changed it since (fettle had set %s)", en.Setting, show(now), show(*en.After))
			continue
		}
		b.add(Step{
			Setting: en.Setting, Before: now, Want: to, Action: Release, Verdict: plugin.Drifted,
			Why: "no longer set by the selection: goes back", Reason: en.Reason, Lifetime: kind.Lifetime(), Stage: b.stage,
		})
	}
}

// notReleased is true for a place whose value goes with another one: the twin of
// one that the new selection sets, and what a write had only changed on the way
// while the place written itself does not go back.
func (b *builder) notReleased(top *journal.Entry) bool {
	if twin, ok := setting.SysctlTwin(top.Setting.Name); ok && top.Setting.Kind == "sysctl" {
		if i, ok := b.at[setting.Setting{Kind: "sysctl", Name: twin}]; ok && b.plan.Steps[i].Action != None && b.plan.Steps[i].Action != Release {
			return true
		}
	}
	for _, en := range b.under.chains[top.Setting] {
		if selectionEntry(en) && en.CoupledTo == 0 {
			return false
		}
	}
	if top.CoupledTo == 0 || top.CoupledTo > len(top.Tx.Entries) {
		return false
	}
	i, ok := b.at[top.Tx.Entries[top.CoupledTo-1].Setting]
	return !ok || b.plan.Steps[i].Action != Release
}

func (b *builder) done() *Plan {
	b.behindScheduler()
	return b.plan
}

// behindScheduler puts the queue values of a disk behind the I/O scheduler that
// the same plan sets, in a stage of their own: the scheduler comes with its own
// depth and attributes, which exist only then.
func (b *builder) behindScheduler() {
	for i := range b.plan.Steps {
		sched := b.plan.Steps[i]
		queue, ok := strings.CutSuffix(sched.Setting.Name, "/queue/scheduler")
		if sched.Setting.Kind != "sysfs" || !ok || sched.Action != Write {
			continue
		}
		for k := range b.plan.Steps {
			st := &b.plan.Steps[k]
			rest, ok := strings.CutPrefix(st.Setting.Name, queue+"/queue/")
			if st.Setting.Kind != "sysfs" || !ok || k == i {
				continue
			}
			attribute := strings.HasPrefix(rest, "iosched/")
			if !attribute && rest != "nr_requests" && rest != "async_depth" && rest != "wbt_lat_usec" {
				continue
			}
			if attribute && st.Action == None && st.Verdict == plugin.Unsupported && st.Before.Absent {
				st.Action, st.Verdict, st.Why = Write, plugin.Drifted, "comes with the scheduler "+sched.Want.Text
			}
			if st.Action == Same {
				st.Action, st.Verdict = Write, plugin.Drifted // the scheduler will change it
			}
			if st.Action == Write && st.Stage <= sched.Stage {
				st.Stage = sched.Stage + 1
			}
		}
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// show is a value in a sentence.
func show(v setting.Value) string {
	switch {
	case v.Absent:
		return "nothing"
	case v.Text == "":
		return `""`
	case len(v.Text) > 80 || strings.Contains(v.Text, "\n"):
		return fmt.Sprintf("%d bytes", len(v.Text))
	}
	return v.Text
}

// errno is the reason of an error without the path that the step shows anyway.
func errno(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
