package rule

import (
	"fmt"
	"maps"
	"slices"
)

// Check asks the rules of a machine. A rule that depends on one that failed is
// explained by it. disabled are ids with the reason why somebody does not want
// them.
func (c *Catalogue) Check(m Machine, platform string, disabled map[string]string) []Finding {
	var out []Finding
	bad := map[string]bool{} // "id" or "id instance"
	for _, r := range c.ordered {
		if platform != "" && !slices.Contains(r.Platforms, platform) {
			continue
		}
		if why, off := disabled[r.ID]; off {
			out = append(out, r.finding("", NotApplicable, "disabled: "+why))
			continue
		}
		for _, f := range c.ask(r, m) {
			if f.State == Warned || f.State == Failed {
				bad[r.ID] = true
				bad[r.ID+" "+f.Instance] = true
			}
			for _, d := range r.DependsOn {
				other := c.byID[d]
				if (f.State == Warned || f.State == Failed) && (other.Each == r.Each && bad[d+" "+f.Instance] || other.Each != r.Each && bad[d]) {
					f.Because = d
					break
				}
			}
			out = append(out, f)
		}
	}
	return out
}

// ask is the rule on the machine, or on each thing it is about.
func (c *Catalogue) ask(r *Rule, m Machine) []Finding {
	if r.Each == "" {
		return []Finding{c.one(r, "", m)}
	}
	all, unknown := m.Instances(r.Each)
	switch {
	case unknown != "":
		return []Finding{r.finding("", Unknown, unknown)}
	case len(all) == 0:
		return []Finding{r.finding("", NotApplicable, fmt.Sprintf("the machine has no %s", r.Each))}
	}
	var out []Finding
	for _, i := range all {
		out = append(out, c.one(r, i.Name, i))
	}
	return out
}

func (r *Rule) finding(instance string, s State, reason string) Finding {
	return Finding{Rule: r, ID: r.ID, Title: r.Title, Instance: instance, State: s, Reason: reason, Why: r.Why, Sources: r.Sources}
}

// one evaluates a rule. An input that is not known makes the finding unknown
// before anything is evaluated.
func (c *Catalogue) one(r *Rule, instance string, m Machine) Finding {
	if r.Reminder && r.Applies == nil {
		return r.finding(instance, Reminded, "")
	}
	env := map[string]any{}
	var at []string
	unknown, absent := "", ""
	for _, b := range r.Inputs {
		a := m.Answer(b.Input)
		switch {
		case a.Unknown != "":
			if unknown == "" {
				unknown = b.Input + ": " + a.Unknown
			}
			continue
		case a.Value == nil && b.Absent == nil:
			if absent == "" {
				absent = "the machine has no " + b.Input
			}
			continue
		case a.Value == nil:
			a.Value = b.Absent
		case !c.inputs[b.Input].Type.has(a.Value):
			unknown = fmt.Sprintf("%s is %v (%T), and not a %s", b.Input, a.Value, a.Value, c.inputs[b.Input].Type)
			continue
		}
		env[b.Name] = a.Value
		if a.At != "" && !slices.Contains(at, a.At) {
			at = append(at, a.At)
		}
	}
	// What a machine does not have at all matters more than what nobody knows.
	switch {
	case absent != "":
		return r.finding(instance, NotApplicable, absent)
	case unknown != "":
		return r.finding(instance, Unknown, unknown)
	}
	f := r.finding(instance, Passed, "")
	f.At = at
	if err := c.judge(r, env, &f); err != nil {
		f.State, f.Reason = Unknown, err.Error()
	}
	return f
}

// judge fills in the finding from the values of the inputs.
func (c *Catalogue) judge(r *Rule, env map[string]any, f *Finding) error {
	if yes, err := r.Applies.truth(env, true); err != nil || !yes {
		f.State, f.Reason = NotApplicable, "it is for machines where "+r.Applies.words()
		return err
	}
	if r.Reminder {
		f.State = Reminded
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
		want, pass = or(v.Want, want), or(v.Pass, pass)
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
	f.Measured, f.Unit = measured, c.unit(r)
	env = maps.Clone(env)
	env["measured"] = measured
	if want != nil {
		if f.Want, err = want.run(env); err != nil {
			return err
		}
		env["want"] = f.Want
	}
	ok := false
	if pass == nil {
		ok = fmt.Sprint(measured) == fmt.Sprint(f.Want)
	} else if ok, err = pass.truth(env, true); err != nil {
		return err
	}
	if ok {
		return nil
	}
	f.State = map[Severity]State{Fail: Failed, Warn: Warned}[r.Severity]
	if nearly, err := r.Nearly.truth(env, false); err != nil {
		return err
	} else if nearly {
		f.State = Warned
	}
	f.Fix, err = r.Fix.fill(env, f)
	return err
}

func or(a, b *Expr) *Expr {
	if a != nil {
		return a
	}
	return b
}

// truth is the answer of a condition; none where there is no condition.
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

// words is the expression on one line.
func (e *Expr) words() string {
	if e == nil {
		return ""
	}
	return e.Text
}

func (x *Fix) fill(env map[string]any, f *Finding) (*Repair, error) {
	if x == nil {
		return nil, nil
	}
	r := &Repair{Setting: x.Setting, Artefact: x.Artefact, Entry: x.Entry, Text: x.Text}
	value := f.Want
	if x.Value != nil {
		var err error
		if value, err = x.Value.run(env); err != nil {
			return nil, err
		}
	}
	r.Value = Print(value, "")
	return r, nil
}
