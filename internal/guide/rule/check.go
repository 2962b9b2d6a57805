package rule

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
)

// Check evaluates the platforms' rules on a machine. If a rule fails because a rule that it
// depends on failed, its finding names that rule and has the first cause's fix. disabled has the
// reasons of disabled rules by id. When ctx ends, Check returns the findings so far without
// waiting.
func (c *Catalogue) Check(ctx context.Context, m fact.MachineTree, platforms []string, disabled map[string]string) []Finding {
	var out []Finding
	bad := map[string]Finding{} // by "id" or "id instance": the first cause
	for _, r := range c.ordered {
		if ctx.Err() != nil {
			return out
		}
		if !slices.ContainsFunc(r.Platforms, func(p string) bool { return slices.Contains(platforms, p) }) {
			continue
		}
		if why, off := disabled[r.ID]; off {
			out = append(out, r.finding("", NotApplicable, why))
			continue
		}
		for _, f := range c.ask(ctx, r, m) {
			if ctx.Err() != nil {
				return out
			}
			if r.Copied && f.Fix != nil {
				f.Fix = &Repair{Text: "not written: the rule comes from the copy (" + r.At.String() + "), which is not trusted; fettle fix " + r.ID + " on the machine itself applies it"}
			}
			if f.State == Warned || f.State == Failed {
				cause := f
				if id, first := c.because(r, f.Instance, bad); id != "" {
					f.Because, f.Own, f.Fix, cause = id, f.Fix, first.remedy(), first
				}
				bad[r.ID], bad[r.ID+" "+f.Instance] = cause, cause
			}
			out = append(out, f)
		}
	}
	return out
}

// because returns the id of the failed rule that r depends on, or "". If both rules apply to a
// set, the failure must be on the same item. first is the finding of the first cause.
func (c *Catalogue) because(r *Rule, instance string, bad map[string]Finding) (id string, first Finding) {
	for _, d := range r.DependsOn {
		id, item, named := strings.Cut(d, " ")
		if !named && c.byID[id].Each == r.Each {
			item = instance
			named = r.Each != ""
		}
		if named {
			item = id + " " + item
		} else {
			item = id
		}
		if first, ok := bad[item]; ok {
			return id, first
		}
	}
	return "", first
}

// ask evaluates the rule on the machine, or on each item of its set.
func (c *Catalogue) ask(ctx context.Context, r *Rule, m fact.MachineTree) []Finding {
	if r.Each == "" {
		return []Finding{c.one(ctx, r, "", m)}
	}
	all, unknown := m.Items(r.Each)
	switch {
	case unknown != "":
		return []Finding{r.finding("", Unknown, unknown)}
	case len(all) == 0:
		return []Finding{r.finding("", NotApplicable, fmt.Sprintf("the set %s is empty on this machine", r.Each))}
	}
	var out []Finding
	for _, name := range all {
		if ctx.Err() != nil {
			return out
		}
		out = append(out, c.one(ctx, r, name, m))
	}
	return out
}

func (r *Rule) finding(instance string, s State, reason string) Finding {
	return Finding{Rule: r, ID: r.ID, Title: r.Title, Failed: r.Failed, Harm: r.Harm, Instance: instance, State: s, Reason: text.PlainMessage(reason), Why: r.Why, Sources: r.Sources}
}

// one evaluates a rule. An absent input makes it not applicable; an unknown input makes the
// finding unknown. Both are checked before the evaluation.
func (c *Catalogue) one(ctx context.Context, r *Rule, instance string, m fact.MachineTree) Finding {
	if err := c.Compile(r); err != nil {
		return r.finding(instance, Unknown, err.Error())
	}
	if f, decided := c.where(r, instance, m); decided {
		return f
	}
	if r.Reminder && r.Applies == nil {
		return r.finding(instance, Reminded, r.Missing)
	}
	env := map[string]any{"instance": instance}
	more := map[string]string{} // inputs that are lower bounds, with the reason
	var at, measuredAt, wantAt []string
	var programs []ProgramInput
	unknown, absent := "", ""
	for _, b := range r.Inputs {
		a, name := c.answer(b, instance, m)
		switch {
		case a.Unknown != "":
			if unknown == "" {
				unknown = name + ": " + a.Unknown
			}
			continue
		case a.Value == nil && b.Absent == nil:
			if absent == "" {
				absent = "this machine has no value of " + name
			}
			continue
		case a.Value == nil:
			a.Value = b.Absent
		case !c.typeOf(b).Has(a.Value):
			unknown = fmt.Sprintf("%s is %v (%T), not a %s", name, a.Value, a.Value, c.typeOf(b))
			continue
		}
		env[b.Name] = a.Value
		if a.LowerBound != "" {
			more[b.Name] = fmt.Sprintf("%s is at least %s: %s", name, Print(a.Value), a.LowerBound)
		}
		to := &at
		if r.Measured != nil && r.Measured.uses(b.Name) {
			to = &measuredAt
		} else if r.Want != nil && strings.TrimSpace(r.Want.Text) == b.Name && a.At != "" {
			wantAt = []string{a.At}
		}
		if a.At != "" && !slices.Contains(*to, a.At) {
			*to = append(*to, a.At)
		}
		if a.From != "" {
			programs = append(programs, ProgramInput{name, a.From, a.At})
		}
	}
	// Absent takes precedence over unknown.
	switch {
	case absent != "":
		return r.finding(instance, NotApplicable, absent)
	case unknown != "":
		return r.finding(instance, Unknown, unknown)
	}
	// An expression cannot be interrupted: when ctx ends, the goroutine is abandoned.
	judged := make(chan Finding, 1)
	go func() { judged <- c.judged(r, instance, env, more) }()
	select {
	case f := <-judged:
		f.Inputs = programs
		if f.Measured != nil {
			f.MeasuredAt, f.WantAt = measuredAt, wantAt
		}
		f.At = append(slices.Clip(measuredAt), slices.DeleteFunc(at, func(a string) bool { return slices.Contains(measuredAt, a) })...)
		return f
	case <-ctx.Done():
		return r.finding(instance, Unknown, "interrupted: "+ctx.Err().Error())
	}
}

// judged returns the finding for the inputs' values. more has the inputs that are lower bounds,
// with the reason.
func (c *Catalogue) judged(r *Rule, instance string, env map[string]any, more map[string]string) Finding {
	f := r.finding(instance, Passed, "")
	if err := c.judge(r, env, &f); err != nil {
		f.State, f.Reason = Unknown, text.PlainMessage(err.Error())
	}
	var names []string
	for _, b := range r.Inputs {
		if more[b.Name] != "" {
			names = append(names, b.Name)
		}
	}
	for i := range names {
		if (f.State == Passed || f.State == NotApplicable) && (c.turns(r, env, names[i]) || c.turns(r, env, names...)) {
			f = r.finding(instance, Unknown, more[names[i]])
		}
	}
	return f
}

// turns reports whether the finding would be bad if the named numbers were as large as possible,
// or the named lists had one more unknown word.
func (c *Catalogue) turns(r *Rule, env map[string]any, names ...string) bool {
	env = maps.Clone(env)
	for _, name := range names {
		if v, ok := env[name].([]string); ok {
			env[name] = append(slices.Clone(v), "\x00")
		} else {
			env[name] = math.MaxFloat64
		}
	}
	high := r.finding("", Passed, "")
	return c.judge(r, env, &high) == nil && (high.State == Failed || high.State == Warned)
}

// answer returns the machine's answer for a binding, and the input's name with the item.
func (c *Catalogue) answer(b Binding, instance string, m fact.MachineTree) (a fact.Answer, name string) {
	if b.As != "" {
		name = strings.ReplaceAll(b.Input, "{instance}", instance)
		return m.Read(name, b.As), name
	}
	name = strings.Replace(b.Input, "*", instance, 1)
	return m.Answer(name), name
}

// where returns the finding if the rule's versions and kind of machine already decide it, otherwise
// false.
func (c *Catalogue) where(r *Rule, instance string, m fact.MachineTree) (f Finding, decided bool) {
	for _, v := range r.Versions {
		a := m.Answer(v.Product + ".version")
		have, _ := a.Value.(string)
		switch {
		case a.Unknown != "":
			return r.finding(instance, Unknown, v.Product+".version: "+a.Unknown), true
		case have == "":
			return r.finding(instance, NotApplicable, v.Product+" was not found on this machine"), true
		case !v.holds(have):
			return r.finding(instance, NotApplicable, fmt.Sprintf("the rule is for %s %s; this machine has %s", v.Product, v.Words(), have)), true
		}
	}
	if r.On == nil {
		return f, false
	}
	for _, part := range r.On.parts() {
		a := m.Answer(part.input)
		switch {
		case a.Unknown != "":
			return r.finding(instance, Unknown, part.input+": "+a.Unknown), true
		case !part.holds(a.Value):
			return r.finding(instance, NotApplicable, "the rule is only for "+part.words), true
		}
	}
	return f, false
}

// part is one condition of a Where.
type part struct {
	input, words string
	holds        func(any) bool
}

func (w *Where) parts() []part {
	var out []part
	switch w.Kind {
	case "bare-metal":
		out = append(out, part{"virtualization.bare_metal", "bare metal", func(v any) bool { return v == true }})
	case "guest":
		out = append(out, part{"virtualization.bare_metal", "guests", func(v any) bool { return v == false }})
	}
	for _, p := range []struct{ input, words, pattern string }{
		{"virtualization.cloud", "the cloud", w.Cloud}, {"machine.vendor", "machines of", w.Vendor}, {"machine.product", "the model", w.Model},
	} {
		if p.pattern != "" {
			out = append(out, part{p.input, p.words + " " + p.pattern, func(v any) bool {
				text, _ := v.(string)
				ok, _ := path.Match(p.pattern, text)
				return ok
			}})
		}
	}
	return out
}

// judge completes the finding from the inputs' values.
func (c *Catalogue) judge(r *Rule, env map[string]any, f *Finding) error {
	if yes, err := r.Applies.truth(env, true); err != nil || !yes {
		f.State, f.Reason = NotApplicable, r.elsewhere()
		return err
	}
	if r.Reminder {
		f.State, f.Reason = Reminded, r.Missing
		return nil
	}
	want, pass := r.Want, r.Pass
	for _, v := range r.Variants {
		yes, err := v.When.truth(env, true)
		if err != nil {
			return err
		}
		if !yes {
			continue
		}
		want, pass = cmp.Or(v.Want, want), cmp.Or(v.Pass, pass)
		if v.Why != "" {
			f.Why = v.Why
		}
		f.Sources = append(slices.Clone(v.Sources), f.Sources...)
		break
	}
	measured, err := r.Measured.run(env)
	if err != nil {
		return err
	}
	if measured == nil {
		return fmt.Errorf("%s: %s: has no value on this machine", r.Measured.At, strings.TrimSpace(r.Measured.Text))
	}
	f.Measured, f.Unit = measured, c.unit(r)
	env = maps.Clone(env)
	env["measured"], env["want"] = measured, nil
	if want != nil {
		if f.Want, err = want.run(env); err != nil {
			return err
		}
		env["want"] = f.Want
	}
	ok := false
	if pass == nil {
		ok = same(measured, f.Want)
	} else if ok, err = pass.truth(env, true); err != nil {
		return err
	}
	if ok {
		return nil
	}
	f.State = map[Severity]State{Fail: Failed, Warn: Warned}[r.Severity]
	f.Compare = compare(pass, measured, f.Want)
	if nearly, err := r.Nearly.truth(env, false); err != nil {
		return err
	} else if nearly {
		f.State = Warned
	}
	f.Fix, err = r.Fix.fill(env, f)
	return err
}

// truth evaluates a condition. Without a condition it returns none.
func (e *Expr) truth(env map[string]any, none bool) (bool, error) {
	if e == nil {
		return none, nil
	}
	v, err := e.run(env)
	if err != nil {
		return false, err
	}
	return v.(bool), nil
}

// elsewhere returns the reason why a rule does not apply if its Applies is false.
func (r *Rule) elsewhere() string {
	switch {
	case r.For != "":
		return "the rule is only for " + r.For
	case r.Applies != nil:
		return "the condition of the rule does not hold on this machine (applies: " + r.Applies.At.String() + ")"
	}
	return ""
}
