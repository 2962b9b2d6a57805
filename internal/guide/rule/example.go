package rule

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// TestExamples runs the examples of a rule. It returns an error for each that fails, and for
// missing examples. It stops waiting when ctx ends.
func (c *Catalogue) TestExamples(ctx context.Context, r *Rule) []error {
	var problems []error
	for _, e := range r.Examples {
		wrong := c.wrongGiven(r, e)
		if problems = append(problems, wrong...); len(wrong) > 0 {
			continue
		}
		f := c.Try(ctx, r, e, nil)
		if f.State != e.Finding {
			problems = append(problems, fmt.Errorf("%s: %s: example %q gives the finding %s, want %s%s", e.Pos, r.ID, e.Name, f.State, e.Finding, reason(f)+r.ungiven(e)))
		}
		if e.Want != nil && !same(e.Want, f.Want) {
			problems = append(problems, fmt.Errorf("%s: %s: example %q calculates want as %v, not %v", e.Pos, r.ID, e.Name, f.Want, e.Want))
		}
	}
	if err := r.LackOfExamples(); err != nil {
		problems = append(problems, err)
	}
	return problems
}

// LackOfExamples returns an error if a rule, other than a reminder, lacks an example that passes
// or one that does not.
func (r *Rule) LackOfExamples() error {
	passes, others := false, false
	for _, e := range r.Examples {
		passes, others = passes || e.Finding == Passed, others || e.Finding == Warned || e.Finding == Failed
	}
	if r.Reminder || passes && others {
		return nil
	}
	return fmt.Errorf("%s: %s needs an example that passes and one that does not: examples: [{name: enough, given: {%s: VALUE}, finding: pass}, ...]", r.Key("examples"), r.ID, r.Inputs[0].Name)
}

// ungiven returns a hint about a version that the rule needs and the example lacks, or "".
func (r *Rule) ungiven(e Example) string {
	for _, v := range r.Versions {
		if name := v.Product + ".version"; e.Given[name] == nil {
			return fmt.Sprintf(": give %s: %q", name, cmp.Or(v.From, "1.0"))
		}
	}
	return ""
}

// wrongGiven returns the faults of an example's values.
func (c *Catalogue) wrongGiven(r *Rule, e Example) []error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(e.Given)) {
		v := e.Given[name]
		i := slices.IndexFunc(r.Inputs, func(b Binding) bool { return b.Name == name })
		switch {
		case !r.asks(name):
			var names []string
			for _, b := range r.Inputs {
				names = append(names, b.Name)
			}
			meant := cmp.Or(text.Suggest(name, names), ": want "+strings.Join(names, ", "))
			problems = append(problems, fmt.Errorf("%s: %s: example %q gives %s, which is not an input of the rule%s", e.Pos, r.ID, e.Name, name, meant))
		case i >= 0 && v != nil && v != "unknown" && !c.typeOf(r.Inputs[i]).Has(v):
			want := c.typeOf(r.Inputs[i])
			hint := ""
			if size, err := unit.ParseSize(fmt.Sprint(v)); want == fact.Number && err == nil {
				hint = text.Sprintf(": %v is %d", v, size)
			}
			problems = append(problems, fmt.Errorf("%s: %s: example %q gives %s: %v, and %s is a %s%s", e.Pos, r.ID, e.Name, name, v, r.Inputs[i].Input, want, hint))
		}
	}
	return problems
}

// Try evaluates a rule on the machine of an example. over, if not nil, can replace the values of
// settings.
func (c *Catalogue) Try(ctx context.Context, r *Rule, e Example, over func(setting string, as fact.Type) (fact.Answer, bool)) Finding {
	item := exampleItem
	if named, ok := e.Given["instance"].(string); ok {
		item = named
	}
	return c.one(ctx, r, item, exampleMachine{r, item, e.Given, over})
}

// asks reports whether a name is a binding, or an input for the rule's versions or kind of
// machine.
func (r *Rule) asks(name string) bool {
	if name == "instance" && r.Each != "" || slices.ContainsFunc(r.Inputs, func(b Binding) bool { return b.Name == name }) ||
		slices.ContainsFunc(r.Versions, func(v Range) bool { return name == v.Product+".version" }) {
		return true
	}
	return r.On != nil && slices.ContainsFunc(r.On.parts(), func(p part) bool { return p.input == name })
}

func reason(f Finding) string {
	if f.Reason == "" {
		return ""
	}
	return " (" + f.Reason + ")"
}

// exampleMachine answers with the values of an example. "unknown" is unknown; inputs without a
// value are absent. Inputs without a binding may have values too: postgresql.version.
type exampleMachine struct {
	rule  *Rule
	item  string
	given map[string]any
	over  func(setting string, as fact.Type) (fact.Answer, bool)
}

func (m exampleMachine) Answer(input string) fact.Answer {
	name := input
	for _, b := range m.rule.Inputs {
		if b.Input == input || strings.Replace(b.Input, "*", m.item, 1) == input {
			name = b.Name
			break
		}
	}
	switch v, ok := m.given[name]; {
	case ok && v == "unknown":
		return fact.Answer{Unknown: "the example says so"}
	case ok:
		return fact.Answer{Value: v, At: "example"}
	}
	return fact.Answer{}
}

func (m exampleMachine) Read(setting string, as fact.Type) fact.Answer {
	if m.over != nil {
		if a, ok := m.over(setting, as); ok {
			return a
		}
	}
	for _, b := range m.rule.Inputs {
		if strings.ReplaceAll(b.Input, "{instance}", m.item) == setting {
			return m.Answer(b.Input)
		}
	}
	return fact.Answer{}
}

func (m exampleMachine) Items(string) ([]string, string) { return []string{m.item}, "" }

// exampleItem is the default item in examples of rules with Each.
const exampleItem = "example"
