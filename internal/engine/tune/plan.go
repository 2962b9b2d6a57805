package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// Plan is an ordered list of changes to a machine's current values. `fettle diff --output json`
// prints it; `fettle tune --plan FILE` applies it.
type Plan struct {
	Schema string `json:"schema"` // fettle/plan/v1
	// Headline is set only by fettle diff, fix and irq advise.
	Headline ui.Headline `json:"headline,omitzero"`
	Created  time.Time   `json:"created"`
	By       string      `json:"by,omitempty"` // who saved the plan
	Machine  string      `json:"machine"`
	BootID   string      `json:"boot_id,omitempty"`
	Profiles []string    `json:"profiles,omitempty"`
	// InForce is set only by fettle diff: these profiles, with this content, have been applied in
	// this boot. tune would then record nothing new unless values have drifted.
	InForce bool `json:"in_force,omitempty"`
	// Generation is the journal's generation when the plan was made.
	Generation int64 `json:"generation"`
	// Sources are the files of the profiles.
	Sources  []profile.Source `json:"sources,omitempty"`
	Steps    []Step           `json:"steps"`
	Problems []Problem        `json:"problems,omitempty"`
	// Skipped lists the sections that are disabled or do not apply to this machine. For fettle irq
	// advise it lists the devices that keep their settings.
	Skipped []Skipped `json:"skipped,omitempty"`
	// Tested is set if the plan has kernel arguments: how well they were tested on such a system.
	Tested *Tested `json:"tested,omitempty"`

	undecided []error        // reasons why it is unknown whether some sections apply
	state     *journal.State // the journal's state when the plan was made
}

// Skipped is a section that is not applied.
type Skipped struct {
	Unit string      `json:"unit"`
	Pos  profile.Pos `json:"pos"`
	Why  string      `json:"why"`
}

// Planned returns, for the journal, who made the plan and when. It returns nil if the plan does
// not record that.
func (p *Plan) Planned() *journal.Planned {
	if p.By == "" {
		return nil
	}
	return &journal.Planned{By: host.EscapeTruncate(p.By, 200), Time: p.Created}
}

// PlanSchema names the JSON form of a plan.
const PlanSchema = "fettle/plan/v1"

// Action is the effect of applying a step.
type Action string

// The actions.
const (
	Write   Action = "write"   // the value differs and is written
	Same    Action = "same"    // the value is in place: taken over, not written
	Release Action = "release" // no longer in the selection: restored
	None    Action = "none"    // not written; the verdict is the reason
)

// Step is the plan for one setting.
type Step struct {
	Setting setting.Setting `json:"setting"` // resolved identity
	// Named is the setting's name in the profile, if it differs from the identity.
	Named string `json:"named,omitempty"`
	// Before is the current value; omitted if unknown.
	Before setting.Value `json:"before,omitzero"`
	// Unknown is the reason why the current value is unknown.
	Unknown string         `json:"unknown,omitempty"`
	Want    setting.Value  `json:"want"`
	Op      setting.Op     `json:"op,omitempty"`
	Action  Action         `json:"action"`
	Verdict plugin.Verdict `json:"verdict"`
	Why     string         `json:"why,omitempty"`
	Reason  setting.Reason `json:"reason"`
	Unit    string         `json:"unit,omitempty"`
	Device  string         `json:"device,omitempty"`
	// Changed marks a rejected value that the kernel turned into another value, which is now
	// in place.
	Changed  bool `json:"changed,omitempty"`
	accepted bool // the value reads as it did after fettle's own write, although not as written
	seq      int  // order of addition; among exclusive steps the last wins
	// Stage is the number of the stage. The before-images of a stage are taken together.
	Stage    int              `json:"stage"`
	Lifetime setting.Lifetime `json:"lifetime,omitempty"`
	// Varies are the values that dynamic tuning may write.
	Varies []setting.Value `json:"varies,omitempty"`
	// Activation is the program to reload or restart after all values are written; zero if none.
	Activation setting.Activation `json:"activation,omitzero"`
	// With is set for a step that is not written: it is the setting whose write sets the value.
	With *setting.Setting `json:"with,omitempty"`
	// Override is the line of an administrator's file that overrides this step.
	Override *Override `json:"override,omitempty"`
}

// Writes returns the number of steps that would be written.
func (p *Plan) Writes() int {
	return p.count(func(s *Step) bool { return s.Action == Write || s.Action == Release })
}

// Partial reports whether some values are known only when applied. The plan may then write more
// than it shows.
func (p *Plan) Partial() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		return s.Verdict == plugin.Deferred || s.Verdict == plugin.Unknown && s.Setting.Kind == plugin.OptionKind
	})
}

// Determined reports whether at least one setting of the plan could be read. It is true for a plan
// without settings.
func (p *Plan) Determined() bool {
	settings, known := false, false
	for _, s := range p.Steps {
		if s.Setting.Kind != plugin.OptionKind {
			settings = true
			known = known || s.Verdict != plugin.Unknown && (s.Verdict != plugin.Deferred || !s.Before.Unknown)
		}
	}
	return known || !settings
}

// PlanProfile plans a profile against the machine and the selection in force. Values that differ
// are written. Values that only the old selection set are released.
func (e *Engine) PlanProfile(ctx context.Context, p *profile.Profile, s *journal.State) (*Plan, error) {
	b := e.newBuilder(s)
	b.plan.Profiles, b.plan.Sources = p.Names, p.Sources
	if err := b.profile(ctx, p); err != nil {
		return nil, err
	}
	b.warnDynamic()
	b.pairs(ctx)
	b.contradictions(ctx)
	b.releases(ctx)
	return b.done(), nil
}

// PlanOnTop plans single changes, and then the values of a profile, on top of the selection in
// force: nothing of it is released, and the files of an administrator do not override the values.
func (e *Engine) PlanOnTop(ctx context.Context, changes []setting.Change, p *profile.Profile, s *journal.State) (*Plan, error) {
	b := e.newBuilder(s)
	b.single, b.dynamic = true, dynamicPlan{settings: map[setting.Setting]bool{}}
	for _, c := range changes {
		b.item(ctx, plugin.Item{Change: c}, "")
	}
	if err := b.profile(ctx, p); err != nil {
		return nil, err
	}
	b.pairs(ctx)
	b.contradictions(ctx)
	return b.done(), nil
}

// profile plans the units of a profile.
func (b *builder) profile(ctx context.Context, p *profile.Profile) error {
	for _, w := range p.Warnings {
		b.problem(w.Pos, "%s", w.Text)
	}
	for _, o := range p.Unresolved {
		b.item(ctx, plugin.Later("main", o, "known only when applied: "+o.Deferred[0].Text), "main")
	}
	possible, assigned, err := b.units(ctx, p)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, u := range possible {
		if err := b.unit(ctx, u, assigned[u.Name], seen[u.Type]); err != nil {
			return err
		}
		seen[u.Type] = seen[u.Type] || b.undecided[u] == nil
	}
	return nil
}

// PlanChanges plans single changes on top of the selection.
func (e *Engine) PlanChanges(ctx context.Context, changes []setting.Change, s *journal.State) (*Plan, error) {
	b := e.newBuilder(s)
	b.single = true
	for _, c := range changes {
		if _, err := e.Kinds.For(c.Setting); err != nil {
			return nil, err
		}
		b.item(ctx, plugin.Item{Change: c}, "")
	}
	b.pairs(ctx)
	b.contradictions(ctx)
	return b.done(), nil
}

// PlanAsked plans changes to settings that a user names. It returns an error if a setting may not
// be requested by name (setting.RequestChecker).
func (e *Engine) PlanAsked(ctx context.Context, changes []setting.Change, s *journal.State) (*Plan, error) {
	for _, c := range changes {
		id, err := e.Kinds.Resolve(c.Setting)
		if err != nil {
			continue // the plan reports the error
		}
		if err := e.Kinds.CheckRequest(id, c.Want, e.ProfileDirs); err != nil {
			return nil, err
		}
	}
	return e.PlanChanges(ctx, changes, s)
}

// show formats a value for messages.
func show(v setting.Value) string {
	switch {
	case v.Unknown:
		return "unknown"
	case v.Absent:
		return "nothing"
	case v.Text == "":
		return `""`
	case len(v.Text) > 80 || strings.Contains(v.Text, "\n"):
		return fmt.Sprintf("%d bytes", len(v.Text))
	}
	return v.Text
}

// errno returns an error's text without the path, which the step shows already.
func errno(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
