package rule

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/spell"
)

// Catalogue is a set of rules that fit together.
type Catalogue struct {
	byID    map[string]*Rule
	ordered []*Rule // those that others depend on first, otherwise as loaded
	inputs  map[string]Input
}

// Load reads every .yaml file of the file systems, in order, and checks the
// rules against the inputs that there are. A later file may not define an id
// again. The error lists everything that is wrong, each with file and line.
func Load(inputs []Input, sources ...fs.FS) (*Catalogue, error) {
	c := &Catalogue{byID: map[string]*Rule{}, inputs: map[string]Input{}}
	for _, in := range inputs {
		c.inputs[in.Name] = in
	}
	var all []*Rule
	var problems []error
	for _, source := range sources {
		names, err := fs.Glob(source, "*.yaml")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := fs.ReadFile(source, name)
			if err != nil {
				return nil, err
			}
			rules, err := parse(name, text)
			problems = append(problems, err)
			all = append(all, rules...)
		}
	}
	for _, r := range all {
		if old, ok := c.byID[r.ID]; ok {
			problems = append(problems, fmt.Errorf("%s: rule %s is at %s already", r.At, r.ID, old.At))
			continue
		}
		c.byID[r.ID] = r
	}
	for _, r := range all {
		problems = append(problems, c.check(r)...)
	}
	ordered, err := order(all, c.byID)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	c.ordered = ordered
	return c, nil
}

// Rules lists the rules, those that others depend on first.
func (c *Catalogue) Rules() []*Rule { return slices.Clone(c.ordered) }

// Rule finds a rule by its id; nil if there is none.
func (c *Catalogue) Rule(id string) *Rule { return c.byID[id] }

func (c *Catalogue) unit(r *Rule) string {
	if r.Measured == nil || len(r.Inputs) == 0 || r.Measured.Text != r.Inputs[0].Name {
		return ""
	}
	return c.inputs[r.Inputs[0].Input].Unit
}

var idForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// check says what is wrong with a rule, and compiles its expressions.
func (c *Catalogue) check(r *Rule) []error {
	var problems []error
	fault := func(at Pos, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s: %w", at, r.ID, fmt.Errorf(format, args...)))
	}
	switch {
	case !idForm.MatchString(r.ID):
		fault(r.At, "an id has letters, digits, \".\", \"_\" and \"-\" and begins with a letter")
	case r.Title == "":
		fault(r.At, "no title")
	case r.Why == "":
		fault(r.At, "no why: a person has to know what it costs not to follow it")
	case len(r.Sources) == 0:
		fault(r.At, "no sources")
	case len(r.Platforms) == 0:
		fault(r.At, "no platforms")
	case r.Severity != Warn && r.Severity != Fail:
		fault(r.At, "severity %q: want fail or warn", r.Severity)
	case !r.Reminder && len(r.Inputs) == 0:
		fault(r.At, "no inputs: what no program can read is a reminder")
	case !r.Reminder && r.Pass == nil && r.Want == nil && len(r.Variants) == 0:
		fault(r.At, "neither want nor pass")
	}
	env := map[string]any{}
	for _, b := range r.Inputs {
		in, ok := c.inputs[b.Input]
		switch {
		case !ok:
			fault(b.Pos, "there is no input %q%s", b.Input, spell.Suggest(b.Input, slices.Sorted(maps.Keys(c.inputs))))
		case in.Of != "" && in.Of != r.Each:
			fault(b.Pos, "%s is of each %s: the rule needs each: %s", b.Input, in.Of, in.Of)
		case b.Absent != nil && !in.Type.has(b.Absent):
			fault(b.Pos, "absent: %v is not a %s, which %s is", b.Absent, in.Type, b.Input)
		}
		env[b.Name] = in.Type.zero()
	}
	if r.Measured == nil && len(r.Inputs) > 0 {
		r.Measured = &Expr{Text: r.Inputs[0].Name, At: r.Inputs[0].Pos}
	}
	for _, d := range r.DependsOn {
		if c.byID[d] == nil {
			fault(r.At, "depends on %s, which there is not", d)
		}
	}
	if len(problems) > 0 {
		return problems // what follows would only repeat them
	}
	return append(problems, c.compile(r, env)...)
}

func (c *Catalogue) compile(r *Rule, env map[string]any) []error {
	var problems []error
	truth := reflect.TypeFor[bool]()
	compile := func(e *Expr, env map[string]any, as reflect.Type) any {
		if e == nil {
			return nil
		}
		if err := e.compile(env, as); err != nil {
			problems = append(problems, err)
			return nil
		}
		return reflect.Zero(e.program.Node().Type()).Interface()
	}
	compile(r.Applies, env, truth)
	judged := maps.Clone(env)
	judged["measured"] = compile(r.Measured, env, nil)
	wants := []*Expr{r.Want}
	for _, v := range r.Variants {
		compile(v.When, env, truth)
		wants = append(wants, v.Want)
	}
	for _, w := range wants {
		if v := compile(w, judged, nil); v != nil {
			judged["want"] = v
		}
	}
	for _, e := range append([]*Expr{r.Pass, r.Nearly}, variantPasses(r)...) {
		compile(e, judged, truth)
	}
	if r.Fix != nil {
		compile(r.Fix.Value, judged, nil)
	}
	return problems
}

func variantPasses(r *Rule) []*Expr {
	var out []*Expr
	for _, v := range r.Variants {
		out = append(out, v.Pass)
	}
	return out
}

// order puts what others depend on before them.
func order(all []*Rule, byID map[string]*Rule) ([]*Rule, error) {
	var out []*Rule
	state := map[string]int{} // 1: on the way, 2: done
	var visit func(r *Rule, path []string) error
	visit = func(r *Rule, path []string) error {
		switch state[r.ID] {
		case 1:
			return fmt.Errorf("%s: rules depend on each other in a circle: %s", r.At, strings.Join(append(path, r.ID), " -> "))
		case 2:
			return nil
		}
		state[r.ID] = 1
		for _, d := range r.DependsOn {
			if byID[d] != nil {
				if err := visit(byID[d], append(path, r.ID)); err != nil {
					return err
				}
			}
		}
		state[r.ID] = 2
		out = append(out, r)
		return nil
	}
	for _, r := range all {
		if err := visit(r, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}
