package tune

import (
	"cmp"
	"context"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/setting"
)

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
