package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
)

// check returns all faults of a rule.
func (c *Catalogue) check(r *Rule) []error {
	var problems []error
	fault := func(at Pos, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s: %w", at, r.ID, fmt.Errorf(format, args...)))
	}
	switch {
	case r.ID == "":
		return []error{fmt.Errorf("%s: the id of a rule is missing: want id: NAME", r.At)}
	case !idForm().MatchString(r.ID):
		fault(r.At, "an id has letters, digits, \".\", \"_\" and \"-\" and begins with a letter")
	case r.Title == "":
		fault(r.At, "title is missing")
	case r.Failed == "":
		fault(r.Key("title"), "failed is missing: add the title for a machine that does not follow the rule, such as failed: The machine has too little memory")
	case r.Why == "":
		fault(r.At, "why is missing: explain the cost of not following it")
	case len(r.Sources) == 0:
		fault(r.At, "sources is missing: want sources: %s", forms["sources"])
	case len(r.Platforms) == 0:
		fault(r.At, "platforms is missing: want platforms: %s", forms["platforms"])
	case r.Reminder && (r.Want != nil || r.Pass != nil || len(r.Variants) > 0):
		fault(r.At, "a reminder must not have want, pass or variants")
	case !r.Reminder && r.Missing != "":
		fault(r.Key("missing"), "missing: is only for reminders, but this rule has inputs")
	case !r.Reminder && len(r.Inputs) == 0:
		fault(r.At, "inputs are missing; a rule that no program can check must be a reminder")
	case !r.Reminder && r.Pass == nil && r.Want == nil && len(r.Variants) == 0:
		fault(r.At, "want or pass is missing")
	}
	if r.Each != "" && !slices.Contains(c.sets, r.Each) {
		fault(r.Key("each"), "each: unknown set %q%s", r.Each, text.Suggest(r.Each, c.sets))
	}
	for _, v := range r.Versions {
		if wrong := v.wrong(c.versioned()); wrong != "" {
			fault(v.Pos, "versions: %s", wrong)
		}
	}
	for _, b := range r.Inputs {
		c.checkBinding(r, b, fault)
	}
	if r.Measured == nil && len(r.Inputs) > 0 {
		r.Measured = &Expr{Text: r.Inputs[0].Name, At: r.Inputs[0].Pos}
	}
	r.Fix.names(fault, r.Key("fix"))
	if r.Fix != nil {
		for _, w := range slices.Concat(r.Fix.Changes, r.Fix.Entries) {
			if strings.Contains(w.Name, "{unit}") && !slices.ContainsFunc(r.Inputs, func(b Binding) bool { return b.Name == "unit" && c.typeOf(b) == fact.Text }) {
				fault(w.Pos, "fix: %s: the rule needs an input called unit that is text: inputs: {unit: {input: redis.*.unit, absent: \"\"}}", w.Name)
			}
		}
	}
	for _, d := range r.DependsOn {
		if d, _, _ := strings.Cut(d, " "); c.byID[d] == nil {
			fault(r.Key("depends-on"), "depends on unknown rule %s%s", d, text.Suggest(d, slices.Sorted(maps.Keys(c.byID))))
		}
	}
	return problems
}

// versioned returns the products with a known version.
func (c *Catalogue) versioned() []string {
	var out []string
	for name := range c.inputs {
		if product, ok := strings.CutSuffix(name, ".version"); ok && !strings.Contains(product, ".") {
			out = append(out, product)
		}
	}
	slices.Sort(out)
	return out
}

// checkBinding checks one input of a rule.
func (c *Catalogue) checkBinding(r *Rule, b Binding, fault func(Pos, string, ...any)) {
	in, known := c.inputs[b.Input]
	switch setting := strings.Contains(b.Input, ":"); {
	case setting && b.As.Zero() == nil:
		fault(b.Pos, "%s: as %q: want the type that a setting is read as, one of number, text, truth, bytes, list: {input: %q, as: number}", b.Input, b.As, b.Input)
	case !setting && b.As != "":
		fault(b.Pos, "%s is a %s; as: is only for settings", b.Input, in.Type)
	case !setting && !known:
		fault(b.Pos, "unknown input %q%s", b.Input, inputHint(b.Input, slices.Sorted(maps.Keys(c.inputs))))
	case in.Of() != "" && in.Of() != r.Each:
		fault(b.Pos, "%s belongs to each %s: the rule needs each: %s", b.Input, in.Of(), in.Of())
	}
	if b.Absent != nil && !c.typeOf(b).Has(b.Absent) {
		fault(b.Pos, "absent: %v: want a %s, which is the type of %s", b.Absent, c.typeOf(b), b.Input)
	}
}

// typeOf returns the type of a binding's value.
func (c *Catalogue) typeOf(b Binding) fact.Type {
	switch b.As {
	case "":
		return c.inputs[b.Input].Type
	case fact.Bytes:
		return fact.Number
	}
	return b.As
}

func (t *Table) check() []error {
	var problems []error
	if len(t.Editions) == 0 || t.Title == "" || len(t.IDs) == 0 {
		problems = append(problems, fmt.Errorf("%s: table %s needs ids, a title and editions", t.At, t.Name))
	}
	for i, e := range t.Editions {
		if len(e.Sources) == 0 {
			problems = append(problems, fmt.Errorf("%s: table %s: sources is missing", e.At, t.Name))
		}
		if i > 0 && (e.Before == "" || compareVersions(e.Before, t.Editions[i-1].From) > 0) {
			problems = append(problems, fmt.Errorf("%s: table %s: this edition must end (before:) where the previous one begins, at %q", e.At, t.Name, t.Editions[i-1].From))
		}
		seen := map[string]bool{}
		for _, r := range e.Rows {
			if seen[r.Key] {
				problems = append(problems, fmt.Errorf("%s: table %s has row %q twice", r.At, t.Name, r.Key))
			}
			seen[r.Key] = true
		}
	}
	return problems
}

func (c *Catalogue) checkEvidence(e *Evidence) []error {
	var problems []error
	lacks := func(missing bool, name string) {
		if missing {
			problems = append(problems, fmt.Errorf("%s: evidence %s lacks %q", e.At, e.ID, name))
		}
	}
	lacks(e.Title == "", "title")
	lacks(e.Says == "", "says")
	lacks(len(e.Sources) == 0, "sources")
	for _, id := range e.Explains {
		if c.byID[id] == nil && !slices.ContainsFunc(c.Tables(), func(t *Table) bool { return slices.Contains(t.IDs, id) }) {
			problems = append(problems, fmt.Errorf("%s: evidence %s explains %s, which is neither a rule nor a table", e.At, e.ID, id))
		}
	}
	return problems
}
