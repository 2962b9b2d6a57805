package tune

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

// Verification is a verdict for every value of the selection in force.
type Verification struct {
	Schema   string    `json:"schema"` // fettle/verify/v1
	Profiles []string  `json:"profiles"`
	Machine  string    `json:"machine"`
	Values   []Checked `json:"values"`
	// Counts is how many values have each verdict.
	Counts   map[plugin.Verdict]int `json:"counts"`
	Met      bool                   `json:"met"` // every value is as it should be
	Problems []Problem              `json:"problems,omitempty"`
}

// VerifySchema names the JSON form of a verification.
const VerifySchema = "fettle/verify/v1"

// Checked is one value with its verdict.
type Checked struct {
	Setting setting.Setting `json:"setting"`
	Want    setting.Value   `json:"want"`
	// Now is what the place holds; left out where that is not known, and Unknown
	// says why.
	Now     setting.Value  `json:"now,omitzero"`
	Unknown string         `json:"unknown,omitempty"`
	Verdict plugin.Verdict `json:"verdict"`
	Why     string         `json:"why,omitempty"`
	Reason  setting.Reason `json:"reason"`
	Unit    string         `json:"unit,omitempty"`
	Device  string         `json:"device,omitempty"`
	// Writer is who took the value away, where somebody watched.
	Writer *override.Write `json:"writer,omitempty"`
}

// Effecter is a kind whose values can be in place without working yet, such as
// a kernel argument before the next boot, or whose effect more than a Read has
// to show, such as a script with its own verify. It is asked on a live machine
// only and may run programs.
type Effecter interface {
	Effect(ctx context.Context, s setting.Setting, want setting.Value) (v plugin.Verdict, why string)
}

// Verify plans the profile anew and looks at what would have to be written: a
// place that a plan would write has drifted, unless the machine said at once
// that it takes another value.
func (e *Engine) Verify(ctx context.Context, p *profile.Profile, s *journal.State) (*Verification, error) {
	plan, err := e.PlanProfile(ctx, p, s)
	if err != nil {
		return nil, err
	}
	v := &Verification{Schema: VerifySchema, Profiles: p.Names, Machine: e.Host.Name, Counts: map[plugin.Verdict]int{}, Met: true, Problems: plan.Problems}
	chains, boot := s.Chains(), e.bootID()
	for _, st := range plan.Steps {
		if st.Action == Release && !e.stuck(chains[st.Setting], st) {
			continue
		}
		c := Checked{Setting: st.Setting, Want: st.Want, Now: st.Before, Unknown: st.Unknown, Verdict: st.Verdict, Why: st.Why, Reason: st.Reason, Unit: st.Unit, Device: st.Device}
		var ours *journal.Entry
		if chain := chains[st.Setting]; len(chain) > 0 {
			ours = chain[len(chain)-1]
		}
		switch st.Action {
		case None:
			if c.Verdict == plugin.Refused && ours != nil && selectionEntry(ours) {
				c.Verdict, c.Why = plugin.Unknown, fmt.Sprintf("applied by transaction %d, and not checked now: %s", ours.Tx.ID, st.Why)
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

// Meets is true for verdicts that leave nothing to be done: the value is in
// force, or it is known why it is not to be.
func Meets(v plugin.Verdict) bool {
	switch v {
	case plugin.OK, plugin.Dynamic, plugin.Unsupported, plugin.Overridden, plugin.Kept, plugin.Refused:
		return true
	}
	return false
}

// differs says why a place does not read as wanted.
func (e *Engine) differs(st Step, ours *journal.Entry) (plugin.Verdict, string) {
	unclear := e.Kinds.Compare(st.Setting, st.Want, st.Before) == setting.Unclear
	switch never := ours == nil || ours.After == nil; {
	case never && unclear:
		return plugin.Unknown, fmt.Sprintf("%s is wanted, %s is read, and fettle has not written it: whether the two are one value is not known", show(st.Want), show(st.Before))
	case never:
		return plugin.Drifted, "never applied"
	}
	if e.stuck([]*journal.Entry{ours}, st) {
		return plugin.NeedsDaemon, leftVarying
	}
	if ours.Tx.Kind == journal.Apply && !e.Kinds.Equal(st.Setting, st.Want, ours.Want) && e.Kinds.Equal(st.Setting, st.Before, *ours.After) {
		return plugin.Overridden, fmt.Sprintf("set later by transaction %d (%s)", ours.Tx.ID, ours.Tx.Reason)
	}
	if v := plugin.Verdict(ours.Verdict); (v == plugin.Rejected || v == plugin.Unsupported) && e.Kinds.Equal(st.Setting, st.Before, *ours.After) {
		return v, ours.Why
	}
	if unclear && ours.Want == st.Want {
		return plugin.Unknown, fmt.Sprintf("%s; %s was read after that", writtenAndRead(st.Want, st.Before), show(*ours.After))
	}
	why := fmt.Sprintf("fettle left %s at %s", show(*ours.After), ours.Tx.Time.Local().Format("2006-01-02 15:04:05"))
	if event := setting.ResetBy(st.Setting); event != "" {
		why += "; " + event
	}
	return plugin.Drifted, why
}

// inPlace says whether a value that is in place also works already.
func (e *Engine) inPlace(ctx context.Context, st Step, ours *journal.Entry, boot string) (plugin.Verdict, string) {
	if kind, err := e.Kinds.For(st.Setting); err == nil && e.Host.Live {
		if ef, ok := kind.(Effecter); ok {
			return ef.Effect(ctx, st.Setting, st.Want)
		}
	}
	if ours != nil && ours.Tx.BootID == boot && !e.Kinds.Equal(st.Setting, ours.Before.Before, ours.Want) {
		switch effect(ours.Lifetime) {
		case plugin.NeedsReboot:
			return plugin.NeedsReboot, "in the file; takes effect at the next boot"
		case plugin.NeedsRestart:
			return plugin.NeedsRestart, "in the file; takes effect when the service is restarted"
		}
	}
	return plugin.OK, ""
}

// Asked are the values that were set one by one, beside a selection, and stand:
// by tune --set, a plan of single changes, fix. The order is that of the journal.
func (e *Engine) Asked(ctx context.Context, s *journal.State) []Checked {
	var tops []*journal.Entry
	for _, chain := range s.Chains() {
		if top := chain[len(chain)-1]; top.Tx.Kind == journal.Apply && top.CoupledTo == 0 && top.After != nil {
			tops = append(tops, top)
		}
	}
	slices.SortFunc(tops, func(a, b *journal.Entry) int { return cmp.Or(a.Tx.ID-b.Tx.ID, a.N-b.N) })
	out := []Checked{}
	for _, top := range tops {
		out = append(out, e.checkAsked(ctx, top))
	}
	return out
}

// checkAsked gives a verdict for a value that was set by itself.
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
		c.Verdict, c.Why = plugin.Unknown, writtenAndRead(top.Want, now)+" as before"
		return c
	case like == setting.Same:
		c.Verdict, c.Why = e.inPlace(ctx, st, top, e.bootID())
		return c
	}
	c.Verdict, c.Why = e.differs(st, top)
	return c
}

// addAsked adds the values that were set one by one to what is verified: those
// that no profile sets as well, of which Verify tells.
func (v *Verification) addAsked(all []Checked) {
	for _, c := range all {
		if slices.ContainsFunc(v.Values, func(o Checked) bool { return o.Setting == c.Setting }) {
			continue
		}
		v.add(c)
	}
}

// add counts a verdict.
func (v *Verification) add(c Checked) {
	v.Counts[c.Verdict]++
	if !Meets(c.Verdict) {
		v.Met = false
	}
	v.Values = append(v.Values, c)
}

// VerifyInForce verifies what is in force: the selection, where p is one, and the
// values that were set beside it.
func (e *Engine) VerifyInForce(ctx context.Context, p *profile.Profile, s *journal.State) (*Verification, error) {
	v := &Verification{Schema: VerifySchema, Profiles: []string{}, Machine: e.Host.Name, Values: []Checked{}, Counts: map[plugin.Verdict]int{}, Met: true}
	if p != nil {
		var err error
		if v, err = e.Verify(ctx, p, s); err != nil {
			return nil, err
		}
	}
	v.addAsked(e.Asked(ctx, s))
	return v, nil
}
