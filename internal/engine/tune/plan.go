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

// Plan is an ordered list of changes to the present values of a machine. `fettle diff --output
// json` prints it, `fettle tune --plan FILE` applies it.
type Plan struct {
	Schema string `json:"schema"` // fettle/plan/v1
	// Headline is set by fettle diff and fix.
	Headline ui.Headline `json:"headline,omitzero"`
	Created  time.Time   `json:"created"`
	By       string      `json:"by,omitempty"` // who saved the plan
	Machine  string      `json:"machine"`
	BootID   string      `json:"boot_id,omitempty"`
	Profiles []string    `json:"profiles,omitempty"`
	// Generation is the journal's generation at the time of planning.
	Generation int64 `json:"generation"`
	// Sources are the files of the profiles.
	Sources  []profile.Source `json:"sources,omitempty"`
	Steps    []Step           `json:"steps"`
	Problems []Problem        `json:"problems,omitempty"`
	// Skipped lists the sections that do not apply to this machine, or are disabled.
	Skipped []Skipped `json:"skipped,omitempty"`

	undecided []error        // why it is not known whether some sections apply
	state     *journal.State // the plan was made against it
}

// Skipped is a section that is not applied.
type Skipped struct {
	Unit string      `json:"unit"`
	Pos  profile.Pos `json:"pos"`
	Why  string      `json:"why"`
}

// Planned returns who made the plan and when, for the journal, or nil if the plan does not
// record it.
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
	Write   Action = "write"   // the value differs and will be written
	Same    Action = "same"    // it has the value already: owned, not written
	Release Action = "release" // no longer in the selection: restored
	None    Action = "none"    // not written; the verdict explains it
)

// Step is one setting of a plan.
type Step struct {
	Setting setting.Setting `json:"setting"` // resolved: its one identity
	// Named is the name in the profile, if that is not the identity.
	Named string `json:"named,omitempty"`
	// Before is the present value; omitted if not known.
	Before setting.Value `json:"before,omitzero"`
	// Unknown is the reason that the present value is not known.
	Unknown string         `json:"unknown,omitempty"`
	Want    setting.Value  `json:"want"`
	Op      setting.Op     `json:"op,omitempty"`
	Action  Action         `json:"action"`
	Verdict plugin.Verdict `json:"verdict"`
	Why     string         `json:"why,omitempty"`
	Reason  setting.Reason `json:"reason"`
	Unit    string         `json:"unit,omitempty"`
	Device  string         `json:"device,omitempty"`
	// Changed is true for a rejected value of which the kernel made another value, which is in
	// place now.
	Changed  bool `json:"changed,omitempty"`
	accepted bool // reads differently than written, but as after fettle's own write
	seq      int  // order of addition: of two exclusive steps the later wins
	// Stage groups the steps whose before-images are taken together.
	Stage    int              `json:"stage"`
	Lifetime setting.Lifetime `json:"lifetime,omitempty"`
	// Varies are the values that dynamic tuning may write.
	Varies []setting.Value `json:"varies,omitempty"`
	// Activation is the program to reload or restart once all values are written; zero
	// for none.
	Activation setting.Activation `json:"activation,omitzero"`
	// With is, for a step that is not written, the setting whose write sets the value.
	With *setting.Setting `json:"with,omitempty"`
	// Override is the line of an administrator's file that wins over this step.
	Override *Override `json:"override,omitempty"`
}

// Writes counts the steps that applying the plan would write.
func (p *Plan) Writes() int {
	return p.count(func(s *Step) bool { return s.Action == Write || s.Action == Release })
}

// Partial reports whether some values are known only when applied, so that the plan may write
// more than it shows.
func (p *Plan) Partial() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		return s.Verdict == plugin.Deferred || s.Verdict == plugin.Unknown && s.Setting.Kind == plugin.OptionKind
	})
}

// Determined reports whether at least one setting of the plan could be read, or it has
// none.
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

// PlanProfile plans a profile against the machine and the selection in force: values that
// differ are written, those that only the old selection set are released.
func (e *Engine) PlanProfile(ctx context.Context, p *profile.Profile, s *journal.State) (*Plan, error) {
	b := e.newBuilder(s)
	b.plan.Profiles, b.plan.Sources = p.Names, p.Sources
	for _, w := range p.Warnings {
		b.problem(w.Pos, "%s", w.Text)
	}
	for _, o := range p.Unresolved {
		b.item(ctx, plugin.Later("main", o, "known when applied: "+o.Deferred[0].Text), "main")
	}
	possible, assigned, err := b.units(ctx, p)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, u := range possible {
		if err := b.unit(ctx, u, assigned[u.Name], seen[u.Type]); err != nil {
			return nil, err
		}
		seen[u.Type] = seen[u.Type] || b.undecided[u] == nil
	}
	b.warnDynamic()
	b.pairs(ctx)
	b.contradictions(ctx)
	b.releases(ctx)
	return b.done(), nil
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

// PlanAsked plans changes that a user requests with the names of their settings. It returns an
// error if one may not be requested (setting.RequestChecker).
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

// show formats a value for a message.
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

// errno returns the text of an error without the path, which the step shows already.
func errno(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
