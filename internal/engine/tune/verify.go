package tune

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// Verification has a verdict for every value of the selection in force.
type Verification struct {
	Schema   string      `json:"schema"` // fettle/verify/v1
	Headline ui.Headline `json:"headline"`
	Profiles []string    `json:"profiles"`
	Machine  string      `json:"machine"`
	Values   []Checked   `json:"values"`
	// Counts has the number of values per verdict.
	Counts   map[plugin.Verdict]int `json:"counts"`
	Met      bool                   `json:"met"` // no verdict requires action
	Problems []Problem              `json:"problems,omitempty"`
	// NotInForce is true if named profiles that are not in force were compared. Applied tells
	// whether fettle applied them earlier: never, before or unknown (unreadable journal).
	NotInForce bool   `json:"not_in_force,omitempty"`
	Applied    string `json:"applied,omitempty"`
}

// The values of Verification.Applied.
const (
	AppliedNever   = "never"
	AppliedBefore  = "before"
	AppliedUnknown = "unknown"
)

// VerifySchema names the JSON form of a verification.
const VerifySchema = "fettle/verify/v1"

// Checked is one value with its verdict.
type Checked struct {
	Setting setting.Setting `json:"setting"`
	Want    setting.Value   `json:"want"`
	// Now is the current value; if it is unknown, Now is omitted and Unknown is the reason.
	Now     setting.Value  `json:"now,omitzero"`
	Unknown string         `json:"unknown,omitempty"`
	Verdict plugin.Verdict `json:"verdict"`
	Why     string         `json:"why,omitempty"`
	Reason  setting.Reason `json:"reason"`
	Unit    string         `json:"unit,omitempty"`
	Device  string         `json:"device,omitempty"`
	// Writer is the program that overwrote the value, if writes were watched.
	Writer *override.Write `json:"writer,omitempty"`
}

func (s *Step) checked() Checked {
	return Checked{
		Setting: s.Setting, Want: s.Want, Now: s.Before, Unknown: s.Unknown, Verdict: s.Verdict, Why: s.Why,
		Reason: s.Reason, Unit: s.Unit, Device: s.Device,
	}
}

// Effecter is a kind with values that can be in place without effect, such as a kernel argument
// before the next boot, or with effects that Read does not show, such as a script with its own
// verify. Effect is called only on a live machine and may run programs.
type Effecter interface {
	Effect(ctx context.Context, s setting.Setting, want setting.Value) (v plugin.Verdict, why string)
}

func (e *Engine) newVerification(profiles []string) *Verification {
	return &Verification{
		Schema: VerifySchema, Profiles: profiles, Machine: e.Host.Name, Values: []Checked{}, Counts: map[plugin.Verdict]int{}, Met: true,
	}
}

// Verify plans the profile again. A setting that the plan would write has drifted, unless the
// kernel rejected the value when it was applied.
func (e *Engine) Verify(ctx context.Context, p *profile.Profile, s *journal.State) (*Verification, error) {
	plan, err := e.PlanProfile(ctx, p, s)
	if err != nil {
		return nil, err
	}
	v := e.newVerification(p.Names)
	v.Problems = plan.Problems
	chains, boot := s.Chains(), e.bootID()
	for _, st := range plan.Steps {
		ours := top(chains[st.Setting])
		if st.Action == Release && !e.stuck(ours, st) {
			continue
		}
		c := st.checked()
		switch st.Action {
		case None:
			if c.Verdict == plugin.Refused && ours != nil && selectionEntry(ours) {
				c.Verdict, c.Why = plugin.Unknown, fmt.Sprintf("applied by transaction %d, but cannot be checked now: %s", ours.Tx.ID, st.Why)
			}
		case Release:
			c.Verdict, c.Why = plugin.NeedsDaemon, leftVarying
		case Write:
			c.Verdict, c.Why = e.differs(st, ours)
			if ours == nil && s.InForce() != nil && s.InForce().BootID != boot {
				c.Why = "not applied since this boot"
			}
		case Same:
			if !st.accepted {
				c.Verdict, c.Why = e.inPlace(ctx, st, ours, boot)
			}
		}
		v.add(c)
	}
	return v, nil
}

// meets reports whether a verdict requires no action: the value is in force, or there is a known
// reason against it.
func meets(v plugin.Verdict) bool {
	switch v {
	case plugin.OK, plugin.Dynamic, plugin.Unsupported, plugin.Overridden, plugin.Kept, plugin.Refused:
		return true
	}
	return false
}

// differs returns the verdict and the reason for a setting whose current value is not the
// requested one. ours is fettle's newest journal entry for it, or nil.
func (e *Engine) differs(st Step, ours *journal.Entry) (plugin.Verdict, string) {
	unclear := e.Kinds.Compare(st.Setting, st.Want, st.Before) == setting.Unclear
	switch never := ours == nil || ours.After == nil; {
	case never && unclear:
		return plugin.Unknown, fmt.Sprintf("want %s, read %s; not written by fettle, and unknown whether both mean the same", show(st.Want), show(st.Before))
	case never:
		return plugin.Differs, ""
	}
	if e.stuck(ours, st) {
		return plugin.NeedsDaemon, leftVarying
	}
	if ours.Tx.Kind == journal.Apply && !e.Kinds.Equal(st.Setting, st.Want, ours.Want) && e.Kinds.Equal(st.Setting, st.Before, *ours.After) {
		return plugin.Overridden, fmt.Sprintf("set later by transaction %d (%s)", ours.Tx.ID, ours.Tx.Reason)
	}
	if v := plugin.Verdict(ours.Verdict); (v == plugin.Rejected || v == plugin.Unsupported) && e.Kinds.Equal(st.Setting, st.Before, *ours.After) {
		return v, ours.Why
	}
	if unclear && ours.Want == st.Want {
		return plugin.Unknown, fmt.Sprintf("%s; directly after the write the value was %s", writtenAndRead(st.Want, st.Before), show(*ours.After))
	}
	why := fmt.Sprintf("fettle set %s at %s", show(*ours.After), ours.Tx.Time.Local().Format("2006-01-02 15:04:05"))
	if event := setting.ResetBy(st.Setting); event != "" {
		why += "; " + event
	}
	return plugin.Drifted, why
}

// inPlace returns the verdict of a value that is in place, which depends on whether it has taken
// effect.
func (e *Engine) inPlace(ctx context.Context, st Step, ours *journal.Entry, boot string) (plugin.Verdict, string) {
	if kind, err := e.Kinds.For(st.Setting); err == nil && e.Host.Live {
		if ef, ok := kind.(Effecter); ok {
			return ef.Effect(ctx, st.Setting, st.Want)
		}
	}
	if ours != nil && ours.Tx.BootID == boot && !e.Kinds.Equal(st.Setting, ours.Before.Before, ours.Want) {
		switch effect(ours.Lifetime) {
		case plugin.NeedsReboot:
			return plugin.NeedsReboot, "written to the file; takes effect at the next boot"
		case plugin.NeedsRestart:
			return plugin.NeedsRestart, "written to the file; takes effect when the service is restarted"
		}
	}
	return plugin.OK, ""
}

// Asked returns the live values that were set individually on top of a selection, in the journal's
// order: by tune --set, a plan of single changes, or fix.
func (e *Engine) Asked(ctx context.Context, s *journal.State) []Checked {
	out := []Checked{}
	for _, last := range slices.Backward(newestFirst(s.Chains())) {
		if last.Tx.Kind == journal.Apply && last.CoupledTo == 0 && last.After != nil {
			out = append(out, e.checkAsked(ctx, last))
		}
	}
	return out
}

// checkAsked returns the verdict of a value that was set individually.
func (e *Engine) checkAsked(ctx context.Context, top *journal.Entry) Checked {
	c := Checked{Setting: top.Setting, Want: top.Want, Reason: top.Reason}
	now, err := e.Kinds.Read(ctx, top.Setting)
	if err != nil {
		c.Unknown, c.Verdict, c.Why = errno(err), plugin.Unknown, errno(err)
		return c
	}
	c.Now = now
	st := Step{Setting: top.Setting, Before: now, Want: top.Want, Lifetime: top.Lifetime, Varies: top.Varies}
	switch like, ours := e.likeness([]*journal.Entry{top}, top.Setting, top.Want, now); {
	case ours != nil && like == setting.Same:
		c.Verdict, c.Why = plugin.OK, writtenAndRead(top.Want, now)
		return c
	case ours != nil:
		c.Verdict, c.Why = plugin.Unknown, writtenAndRead(top.Want, now)+", as before"
		return c
	case like == setting.Same:
		c.Verdict, c.Why = e.inPlace(ctx, st, top, e.bootID())
		return c
	}
	c.Verdict, c.Why = e.differs(st, top)
	return c
}

// add adds a value with its verdict and counts the verdict.
func (v *Verification) add(c Checked) {
	v.Counts[c.Verdict]++
	v.Met = v.Met && meets(c.Verdict)
	v.Values = append(v.Values, c)
}

// VerifyInForce verifies the selection p, if not nil, and the values that were set individually.
func (e *Engine) VerifyInForce(ctx context.Context, p *profile.Profile, s *journal.State) (*Verification, error) {
	v := e.newVerification([]string{})
	if p != nil {
		var err error
		if v, err = e.Verify(ctx, p, s); err != nil {
			return nil, err
		}
	}
	for _, c := range e.Asked(ctx, s) {
		// Verify already has the values that a profile also sets.
		if !slices.ContainsFunc(v.Values, func(o Checked) bool { return o.Setting == c.Setting }) {
			v.add(c)
		}
	}
	return v, nil
}
