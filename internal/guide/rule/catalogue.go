package rule

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
)

// Catalogue is a consistent set of rules, with the tables that they use and measurements that
// explain them.
type Catalogue struct {
	byID     map[string]*Rule
	ordered  []*Rule // dependencies first, otherwise as loaded
	inputs   map[string]fact.Input
	sets     []string
	tables   map[string]*Table
	evidence []*Evidence
	disabled map[string]string
}

// File is a file of the catalog.
type File struct {
	Name string
	Text []byte
	// Update marks a file of an update, which replaces the program's file of the same name.
	Update bool
	// Copied marks a file from a copied machine, which is not trusted: its rules are
	// evaluated, but their fixes are not offered.
	Copied bool
}

// Embedded returns the files of rules, tables and evidence of an embedded file system.
func Embedded(fsys fs.FS) ([]File, error) {
	names, err := fs.Glob(fsys, "*.yaml")
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range names {
		if name == sourcesFile {
			continue
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: name, Text: text})
	}
	return files, nil
}

// Load reads the files in order and checks the rules against the declared inputs and sets. IDs
// must be unique over all files. The error lists all faults with file and line.
//
// A rule's expressions are compiled when it is first evaluated, or by Compile, because most rules
// are never evaluated.
func Load(inputs []fact.Input, sets []string, files []File) (*Catalogue, error) {
	c := &Catalogue{byID: map[string]*Rule{}, inputs: map[string]fact.Input{}, sets: sets, tables: map[string]*Table{}}
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
			problems = append(problems, fmt.Errorf("%s: %s is already defined at %s; use another id (disable: turns off one of fettle's)", at, id, old))
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

// Tables returns the tables in files without parsing the rules. It needs no declared inputs and is
// faster than Load.
func Tables(files []File) (*Catalogue, error) {
	c := &Catalogue{tables: map[string]*Table{}}
	all := &file{}
	var problems []error
	for _, f := range onlyTables(files) {
		problems = append(problems, all.read(f))
	}
	for _, t := range all.tables {
		if old := c.tables[t.Name]; old != nil {
			problems = append(problems, fmt.Errorf("%s: table %s is already defined at %s", t.At, t.Name, old.At))
		}
		c.tables[t.Name] = t
		problems = append(problems, t.check()...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return c, nil
}

// Rules lists the rules, dependencies first.
func (c *Catalogue) Rules() []*Rule { return slices.Clone(c.ordered) }

// Filter returns the catalog with only the rules for which keep returns true.
func (c *Catalogue) Filter(keep func(*Rule) bool) *Catalogue {
	out := *c
	out.ordered = slices.DeleteFunc(slices.Clone(c.ordered), func(r *Rule) bool { return !keep(r) })
	return &out
}

// With returns the catalog with only the rules with the given ids and what they depend on.
func (c *Catalogue) With(ids ...string) *Catalogue {
	kept := map[string]bool{}
	var keep func(id string)
	keep = func(id string) {
		if r := c.byID[id]; r != nil && !kept[id] {
			kept[id] = true
			for _, d := range r.DependsOn {
				d, _, _ = strings.Cut(d, " ")
				keep(d)
			}
		}
	}
	for _, id := range ids {
		keep(id)
	}
	return c.Filter(func(r *Rule) bool { return kept[r.ID] })
}

// Rule returns a rule by its id, or nil.
func (c *Catalogue) Rule(id string) *Rule { return c.byID[id] }

// Disabled returns the reasons of disabled rules by id, as text for their findings.
func (c *Catalogue) Disabled() map[string]string { return maps.Clone(c.disabled) }

// disable records the rules disabled by files.
func (c *Catalogue) disable(all []disabled) []error {
	c.disabled = map[string]string{}
	var problems []error
	for _, d := range all {
		switch {
		case c.byID[d.id] == nil:
			problems = append(problems, fmt.Errorf("%s: disable: no rule has the id %q%s", d.at, d.id, text.Suggest(d.id, slices.Sorted(maps.Keys(c.byID)))))
		case strings.TrimSpace(d.reason) == "":
			problems = append(problems, fmt.Errorf("%s: disable: %s needs a reason (reason: TEXT), which reports show", d.at, d.id))
		default:
			c.disabled[d.id] = Disabled + d.reason + " (" + d.at.String() + ")"
			if d.copied {
				c.disabled[d.id] = DisabledByCopy + d.at.String() + ": " + d.reason
			}
		}
	}
	return problems
}

// unit returns the unit of the value that a rule measures, if known.
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

var idForm = text.LazyRegexp(`^[A-Za-z][A-Za-z0-9._-]*$`)

// Compile compiles the expressions of a rule.
func (c *Catalogue) Compile(r *Rule) error {
	if r.compiled {
		return r.broken
	}
	r.compiled = true
	env := map[string]any{"instance": ""}
	for _, b := range r.Inputs {
		env[b.Name] = c.typeOf(b).Zero()
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
		return problems // a reminder has no expressions to compile
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
		return problems // other errors would be consequences
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

// order sorts rules so that dependencies come first.
func order(all []*Rule, byID map[string]*Rule) ([]*Rule, error) {
	var out []*Rule
	state := map[string]int{} // 1: in progress, 2: done
	var visit func(r *Rule, path []string) error
	visit = func(r *Rule, path []string) error {
		switch state[r.ID] {
		case 1:
			return fmt.Errorf("%s: circular dependency: %s", r.At, strings.Join(append(path, r.ID), " -> "))
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
