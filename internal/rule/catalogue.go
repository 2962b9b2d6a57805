package rule

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/lazyregexp"
	"fettle.dev/fettle/internal/spell"
)

// Catalogue is a set of rules that fit together, with the tables that they look
// things up in and the measurements that explain them.
type Catalogue struct {
	byID     map[string]*Rule
	ordered  []*Rule // those that others depend on first, otherwise as loaded
	inputs   map[string]Input
	sets     []string
	tables   map[string]*Table
	evidence []*Evidence
	disabled map[string]string
}

// File is a file of the catalogue.
type File struct {
	Name string
	Text []byte
	// Copied is true of a file of somebody's copy of a machine, which may be of a
	// stranger: its rules judge, and nothing of what they would write is offered.
	Copied bool
}

// Embedded are the .yaml files of a file system that is part of the program.
func Embedded(fsys fs.FS) ([]File, error) {
	names, err := fs.Glob(fsys, "*.yaml")
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: name, Text: text})
	}
	return files, nil
}

// Load reads the files, in order, and checks the rules against the inputs and the sets that there are. A later file may not
// define an id again. The error lists everything that is wrong, each with file
// and line.
//
// The expressions are compiled when a rule is first asked (most are not): Compile
// does it before.
func Load(inputs []Input, sets []string, files []File) (*Catalogue, error) {
	c := &Catalogue{byID: map[string]*Rule{}, inputs: map[string]Input{}, sets: sets, tables: map[string]*Table{}}
	for _, in := range inputs {
		c.inputs[in.Name] = in
	}
	all := &file{}
	var problems []error
	for _, f := range files {
		problems = append(problems, all.read(f))
	}
	taken := map[string]Pos{}
	unique := func(id string, at Pos) bool {
		old, again := taken[id]
		if again {
			problems = append(problems, fmt.Errorf("%s: %s is at %s already: give this one another id (disable: switches one of fettle's off)", at, id, old))
		}
		taken[id] = at
		return !again
	}
	for _, t := range all.tables {
		if unique("table "+t.Name, t.At) {
			c.tables[t.Name] = t
		}
	}
	for _, r := range all.rules {
		if unique(r.ID, r.At) {
			c.byID[r.ID] = r
		}
	}
	for _, e := range all.evidence {
		if unique(e.ID, e.At) {
			c.evidence = append(c.evidence, e)
		}
	}
	for _, r := range all.rules {
		problems = append(problems, c.check(r)...)
	}
	for _, t := range all.tables {
		problems = append(problems, t.check()...)
	}
	for _, e := range c.evidence {
		problems = append(problems, c.checkEvidence(e)...)
	}
	problems = append(problems, c.disable(all.disabled)...)
	ordered, err := order(all.rules, c.byID)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	c.ordered = ordered
	return c, nil
}

// Tables are the tables of files, without the rules: what is asked for figures
// alone needs no inputs to check rules against.
func Tables(files []File) (*Catalogue, error) {
	c := &Catalogue{tables: map[string]*Table{}}
	all := &file{}
	var problems []error
	for _, f := range files {
		problems = append(problems, all.read(f))
	}
	for _, t := range all.tables {
		if old := c.tables[t.Name]; old != nil {
			problems = append(problems, fmt.Errorf("%s: table %s is at %s already", t.At, t.Name, old.At))
		}
		c.tables[t.Name] = t
		problems = append(problems, t.check()...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return c, nil
}

// Rules lists the rules, those that others depend on first.
func (c *Catalogue) Rules() []*Rule { return slices.Clone(c.ordered) }

// Rule finds a rule by its id; nil if there is none.
func (c *Catalogue) Rule(id string) *Rule { return c.byID[id] }

// Disabled are the rules that somebody does not want, and what a finding says of
// that.
func (c *Catalogue) Disabled() map[string]string { return maps.Clone(c.disabled) }

// disable takes note of the rules that files do not want.
func (c *Catalogue) disable(all []disabled) []error {
	c.disabled = map[string]string{}
	var problems []error
	for _, d := range all {
		switch {
		case c.byID[d.id] == nil:
			problems = append(problems, fmt.Errorf("%s: disable: no rule has the id %q%s", d.at, d.id, spell.Suggest(d.id, slices.Sorted(maps.Keys(c.byID)))))
		case strings.TrimSpace(d.reason) == "":
			problems = append(problems, fmt.Errorf("%s: disable: %s needs a reason, which the report will show", d.at, d.id))
		default:
			c.disabled[d.id] = Disabled + d.reason + " (" + d.at.String() + ")"
			if d.copied {
				c.disabled[d.id] = DisabledByCopy + d.at.String() + ": " + d.reason
			}
		}
	}
	return problems
}

// unit is that of what a rule measures, where that is an input as it is.
func (c *Catalogue) unit(r *Rule) string {
	if r.Measured == nil || r.Unit != "" {
		return r.Unit
	}
	for _, b := range r.Inputs {
		if b.Name == r.Measured.Text {
			return c.inputs[b.Input].Unit
		}
	}
	return ""
}

var idForm = lazyregexp.New(`^[A-Za-z][A-Za-z0-9._-]*$`)

// check says what is wrong with a rule.
func (c *Catalogue) check(r *Rule) []error {
	var problems []error
	fault := func(at Pos, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s: %w", at, r.ID, fmt.Errorf(format, args...)))
	}
	switch {
	case r.ID == "":
		return []error{fmt.Errorf("%s: a rule without an id: want id: NAME", r.At)}
	case !idForm().MatchString(r.ID):
		fault(r.At, "an id has letters, digits, \".\", \"_\" and \"-\" and begins with a letter")
	case r.Title == "":
		fault(r.At, "no title")
	case r.Why == "":
		fault(r.At, "no why: a person has to know what it costs not to follow it")
	case len(r.Sources) == 0:
		fault(r.At, "no sources: want sources: %s", forms["sources"])
	case len(r.Platforms) == 0:
		fault(r.At, "no platforms: want platforms: %s", forms["platforms"])
	case r.Reminder && (r.Want != nil || r.Pass != nil || len(r.Variants) > 0):
		fault(r.At, "a reminder judges nothing: it has no want, pass or variants")
	case !r.Reminder && len(r.Inputs) == 0:
		fault(r.At, "no inputs: what no program can read is a reminder")
	case !r.Reminder && r.Pass == nil && r.Want == nil && len(r.Variants) == 0:
		fault(r.At, "neither want nor pass")
	}
	if r.Each != "" && !slices.Contains(c.sets, r.Each) {
		fault(r.Key("each"), "each: there is no set %q%s", r.Each, spell.Suggest(r.Each, c.sets))
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
			if strings.Contains(w.Name, "{unit}") && !slices.ContainsFunc(r.Inputs, func(b Binding) bool { return b.Name == "unit" && c.typeOf(b) == Text }) {
				fault(w.Pos, "fix: %s: the rule needs an input called unit that is text: inputs: {unit: {input: redis.*.unit, absent: \"\"}}", w.Name)
			}
		}
	}
	for _, d := range r.DependsOn {
		if d, _, _ := strings.Cut(d, " "); c.byID[d] == nil {
			fault(r.Key("depends-on"), "depends on %s, which there is not%s", d, spell.Suggest(d, slices.Sorted(maps.Keys(c.byID))))
		}
	}
	return problems
}

// versioned are the products of which something knows the version.
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

// checkBinding looks at one input of a rule.
func (c *Catalogue) checkBinding(r *Rule, b Binding, fault func(Pos, string, ...any)) {
	in, known := c.inputs[b.Input]
	switch setting := strings.Contains(b.Input, ":"); {
	case setting && b.As.zero() == nil:
		fault(b.Pos, "%s: as %q: want the type that a setting is read as, one of number, text, truth, bytes, list: {input: %q, as: number}", b.Input, b.As, b.Input)
	case !setting && b.As != "":
		fault(b.Pos, "%s is a %s: as is for settings", b.Input, in.Type)
	case !setting && !known:
		fault(b.Pos, "there is no input %q%s", b.Input, inputHint(b.Input, slices.Sorted(maps.Keys(c.inputs))))
	case in.Of() != "" && in.Of() != r.Each:
		fault(b.Pos, "%s is of each %s: the rule needs each: %s", b.Input, in.Of(), in.Of())
	}
	if b.Absent != nil && !c.typeOf(b).has(b.Absent) {
		fault(b.Pos, "absent: %v is not a %s, which %s is", b.Absent, c.typeOf(b), b.Input)
	}
}

// typeOf is the type of what a binding gives.
func (c *Catalogue) typeOf(b Binding) Type {
	switch b.As {
	case "":
		return c.inputs[b.Input].Type
	case Bytes:
		return Number
	}
	return b.As
}

func (t *Table) check() []error {
	var problems []error
	if len(t.Editions) == 0 || t.Title == "" || len(t.IDs) == 0 {
		problems = append(problems, fmt.Errorf("%s: table %s: it needs ids, a title and editions", t.At, t.Name))
	}
	for i, e := range t.Editions {
		if len(e.Sources) == 0 {
			problems = append(problems, fmt.Errorf("%s: table %s: no sources", e.At, t.Name))
		}
		if i > 0 && (e.Before == "" || compareVersions(e.Before, t.Editions[i-1].From) > 0) {
			problems = append(problems, fmt.Errorf("%s: table %s: this edition has to end (before:) where the one above it begins, at %q", e.At, t.Name, t.Editions[i-1].From))
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
	if e.Title == "" || e.Says == "" || len(e.Sources) == 0 {
		problems = append(problems, fmt.Errorf("%s: evidence %s: it needs a title, what it says, and sources", e.At, e.ID))
	}
	for _, id := range e.Explains {
		if c.byID[id] == nil && !slices.ContainsFunc(c.Tables(), func(t *Table) bool { return slices.Contains(t.IDs, id) }) {
			problems = append(problems, fmt.Errorf("%s: evidence %s explains %s, which is neither a rule nor a table", e.At, e.ID, id))
		}
	}
	return problems
}

// Compile compiles the expressions of a rule and says what is wrong with them.
func (c *Catalogue) Compile(r *Rule) error {
	if r.compiled {
		return r.broken
	}
	r.compiled = true
	env := map[string]any{"instance": ""}
	for _, b := range r.Inputs {
		env[b.Name] = c.typeOf(b).zero()
	}
	r.broken = errors.Join(c.compile(r, env)...)
	return r.broken
}

func (c *Catalogue) compile(r *Rule, env map[string]any) []error {
	var problems []error
	truth := reflect.TypeFor[bool]()
	compile := func(e *Expr, env map[string]any, as reflect.Type) any {
		if e == nil {
			return nil
		}
		if err := c.compileExpr(e, env, as); err != nil {
			problems = append(problems, err)
			return nil
		}
		if t := e.program.Node().Type(); t != nil {
			return reflect.Zero(t).Interface()
		}
		return nil
	}
	compile(r.Applies, env, truth)
	if r.Measured == nil {
		return problems // a reminder
	}
	judged := maps.Clone(env)
	judged["measured"] = compile(r.Measured, env, nil)
	wants := []*Expr{r.Want}
	for _, v := range r.Variants {
		compile(v.When, env, truth)
		wants = append(wants, v.Want)
	}
	judged["want"] = any(nil)
	for _, w := range wants {
		if w != nil {
			judged["want"] = compile(w, judged, nil)
		}
	}
	if len(problems) > 0 {
		return problems // what follows would be consequences
	}
	for _, e := range append([]*Expr{r.Pass, r.Nearly}, variantPasses(r)...) {
		compile(e, judged, truth)
	}
	if r.Fix != nil {
		for _, w := range slices.Concat(r.Fix.Changes, r.Fix.Entries) {
			compile(w.Value, judged, nil)
		}
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
			d, _, _ = strings.Cut(d, " ")
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
