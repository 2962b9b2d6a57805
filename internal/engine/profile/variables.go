package profile

import (
	"fmt"

	"fettle.dev/fettle/internal/host"
)

// definition is one line that defines a variable. A name may have several definitions, evaluated
// in order: in a variables file and in the profile.
type definition struct {
	name, raw string
	pos       Pos
	state     definitionState

	value    string // set once evaluated
	deferred []Call
}

type definitionState int

const (
	pending definitionState = iota
	evaluating
	done
)

// define evaluates definitions from top to bottom. A variable used before its definition is
// evaluated first (Differences: forward-reference).
func (x *expander) define(defs []*definition) ([]Variable, error) {
	for _, d := range defs {
		x.definitions[d.name] = append(x.definitions[d.name], d)
	}
	vars := make([]Variable, 0, len(defs))
	for _, d := range defs {
		if err := x.evaluate(d); err != nil {
			return nil, err
		}
	}
	for _, d := range defs {
		vars = append(vars, Variable{Name: d.name, Value: d.value, Raw: d.raw, Pos: d.pos, Deferred: d.deferred})
	}
	return vars, nil
}

func (x *expander) evaluate(d *definition) error {
	if d.state != pending {
		return nil
	}
	if x.depth++; x.depth > maxVariableRun {
		return errAt(d.pos, "variable %q: more than %d variables refer to one another", d.name, maxVariableRun)
	}
	defer func() { x.depth-- }()
	d.state = evaluating
	value, calls, err := x.expand(d.raw, d.pos)
	if err != nil {
		return fmt.Errorf("%w (variable %q)", err, d.name)
	}
	d.state = done
	d.value, d.deferred = value, calls
	x.values[d.name] = value
	return nil
}

// lookup returns a variable's value at this point of the evaluation, and false if it is undefined.
func (x *expander) lookup(name string) (string, bool, error) {
	if v, ok := x.values[name]; ok {
		return v, true, nil
	}
	for _, d := range x.definitions[name] {
		if d.state == evaluating {
			return "", false, nil // refers to itself, directly or indirectly: stays as text
		}
		if d.state == pending {
			if err := x.evaluate(d); err != nil {
				return "", false, err
			}
			return x.values[name], true, nil
		}
	}
	return "", false, nil
}

// defineVariables evaluates [variables] and the files that it includes.
func (s *loading) defineVariables(vars *ordered[rawOption]) error {
	var defs []*definition
	add := func(name, value string, pos Pos) {
		if !isWord(name) {
			s.warn(pos, "variable %q is not defined: a name is letters, digits and \"_\"", name)
			return
		}
		defs = append(defs, &definition{name: name, raw: value, pos: pos})
	}
	for _, o := range vars.values() {
		if o.name != includeOption {
			add(o.name, o.value, o.pos)
			continue
		}
		entries, err := s.variablesFile(joinPath("/", o.value), o.pos)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.valueless {
				add(e.key, e.value, e.pos)
			}
		}
	}
	evaluated, err := s.x.define(defs)
	if err != nil {
		return err
	}
	for _, v := range evaluated {
		s.deferCalls(v.Deferred)
	}
	s.profile.Variables = evaluated
	return nil
}

// variablesFile reads a file of name=value lines. A missing file gives only a warning, as in
// TuneD.
func (s *loading) variablesFile(file string, from Pos) ([]*entry, error) {
	if !s.isFile(file) {
		s.profile.absent = append(s.profile.absent, file)
		if st, err := s.stat(file); err == nil && s.Snapshot == nil {
			s.warn(from, "variables file %s is %s, so it is not read", file, host.DescribeType(st.Mode()))
			return nil, nil
		}
		s.warn(from, "variables file %s does not exist", file)
		return nil, nil
	}
	if s.guarded(file) {
		if err := Trusted(s.Host, file); err != nil {
			return nil, errAt(from, "include=%s: %w", file, err)
		}
	}
	data, err := s.source(file, "variables")
	if err != nil {
		return nil, errAt(from, "include=%s: %w", file, err)
	}
	conf, err := parseConfig(file, data, parseSyntax{headerless: true, noValue: true})
	if err != nil {
		return nil, err
	}
	var entries []*entry
	for _, sec := range conf.sections {
		entries = append(entries, conf.options(sec)...)
	}
	return entries, nil
}
