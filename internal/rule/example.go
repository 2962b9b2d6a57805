package rule

import (
	"fmt"
	"slices"
)

// TestExamples runs the examples of a rule and says which do not hold. A rule
// that judges needs one that passes and one that does not.
func (c *Catalogue) TestExamples(r *Rule) []error {
	var problems []error
	passes, others := false, false
	for _, e := range r.Examples {
		passes, others = passes || e.Finding == Passed, others || e.Finding == Warned || e.Finding == Failed
		for name := range e.Given {
			if !slices.ContainsFunc(r.Inputs, func(b Binding) bool { return b.Name == name }) {
				problems = append(problems, fmt.Errorf("%s: %s: example %q gives %s, which is no input of the rule", e.Pos, r.ID, e.Name, name))
			}
		}
		f := c.one(r, "", exampleMachine{r, e.Given})
		if f.State != e.Finding {
			problems = append(problems, fmt.Errorf("%s: %s: example %q is %s, want %s%s", e.Pos, r.ID, e.Name, f.State, e.Finding, reason(f)))
		}
		if e.Want != nil && fmt.Sprint(e.Want) != fmt.Sprint(f.Want) {
			problems = append(problems, fmt.Errorf("%s: %s: example %q expects %v, want %v", e.Pos, r.ID, e.Name, f.Want, e.Want))
		}
	}
	if !r.Reminder && (!passes || !others) {
		problems = append(problems, fmt.Errorf("%s: %s: it needs an example that passes and one that does not", r.At, r.ID))
	}
	return problems
}

func reason(f Finding) string {
	if f.Reason == "" {
		return ""
	}
	return " (" + f.Reason + ")"
}

// exampleMachine answers with what an example gives: "unknown" is not known, and
// what is not given is absent.
type exampleMachine struct {
	rule  *Rule
	given map[string]any
}

func (m exampleMachine) Answer(input string) Answer {
	for _, b := range m.rule.Inputs {
		if b.Input != input {
			continue
		}
		switch v, ok := m.given[b.Name]; {
		case ok && v == "unknown":
			return Answer{Unknown: "the example says so"}
		case ok:
			return Answer{Value: v, At: "example"}
		}
	}
	return Answer{}
}

func (exampleMachine) Instances(string) ([]Instance, string) { return nil, "" }
