package rule

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/text"
)

// file collects the rules, tables and evidence of files. Unknown keys, duplicate keys and values
// of the wrong kind are errors with their line.
type file struct {
	name     string
	copied   bool
	problems []error

	rules    []*Rule
	tables   []*Table
	evidence []*Evidence
	disabled []disabled
}

// disabled is a rule that a file disables, with the reason.
type disabled struct {
	id, reason string
	at         Pos
	copied     bool
}

func (f *file) fault(n *yaml.Node, format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("%s: %w", Pos{f.name, n.Line}, fmt.Errorf(format, args...)))
}

// read decodes one file: a list of rules, tables and evidence.
func (f *file) read(from File) error {
	f.name, f.copied, f.problems = from.Name, from.Copied, nil
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(from.Text))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return syntaxError(f.name, from.Text, err)
	}
	if err := dec.Decode(&second); err == nil {
		f.fault(&second, `a second document begins here: a file is one list; remove the "---"`)
		return errors.Join(f.problems...)
	} else if !errors.Is(err, io.EOF) {
		return syntaxError(f.name, from.Text, err)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if has(root, "disable") {
		// "disable: [...]" alone, without a list around it.
		root = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{root}, Line: root.Line}
	}
	f.list(root, "the file", func(n *yaml.Node) {
		switch {
		case has(n, "disable"):
			f.fields(n, "disable", map[string]func(*yaml.Node){"disable": items(f, "disable", &f.disabled, f.disable)})
		case has(n, "table"):
			f.tables = append(f.tables, f.table(n))
		case has(n, "evidence"):
			f.evidence = append(f.evidence, f.measured(n))
		default:
			f.rules = append(f.rules, f.rule(n))
		}
	})
	return errors.Join(f.problems...)
}

func (f *file) disable(n *yaml.Node) disabled {
	d := disabled{at: Pos{f.name, n.Line}, copied: f.copied}
	f.fields(n, "disable", map[string]func(*yaml.Node){"id": into(f, "id", &d.id), "reason": into(f, "reason", &d.reason)})
	return d
}

// has reports whether a mapping has a key.
func has(n *yaml.Node, key string) bool {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// fields calls the function in known for each key of a mapping.
func (f *file) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		f.fault(n, "%s: want keys and values%s", what, such(what))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		take, ok := known[key.Value]
		switch {
		case !ok:
			all := slices.Sorted(maps.Keys(known))
			f.fault(key, "%s cannot have %q%s", what, key.Value, cmp.Or(text.Suggest(key.Value, all), ": the keys are "+strings.Join(all, ", ")))
		case seen[key.Value]:
			f.fault(key, "%s has the key %q twice", what, key.Value)
		default:
			take(value)
		}
		seen[key.Value] = true
	}
}

func (f *file) list(n *yaml.Node, what string, take func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		f.fault(n, "%s: want a list%s", what, such(what))
		return
	}
	for _, c := range n.Content {
		take(c)
	}
}

// items decodes a list.
func items[T any](f *file, what string, to *[]T, one func(*yaml.Node) T) func(*yaml.Node) {
	return func(n *yaml.Node) {
		f.list(n, what, func(n *yaml.Node) { *to = append(*to, one(n)) })
	}
}

// into decodes a scalar.
func into[T any](f *file, what string, to *T) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if err := n.Decode(to); err != nil || n.Kind != yaml.ScalarNode {
			f.fault(n, "%s: want %s, not %s", what, article[fmt.Sprintf("%T", *to)], written(n))
		}
	}
}

// written describes a value in messages.
func written(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(n.Value)
}

// oneOf rejects a word that is not one of the known ones.
func (f *file) oneOf(n *yaml.Node, what, word string, known ...string) {
	if word != "" && !slices.Contains(known, word) {
		f.fault(n, "%s %q: want %s or %s%s", what, word, strings.Join(known[:len(known)-1], ", "), known[len(known)-1], text.Suggest(word, known))
	}
}

var article = map[string]string{"string": "text", "bool": "true or false", "rule.Severity": "fail or warn", "rule.State": "a finding", "rule.Type": "a type", "int": "a number"}

func (f *file) words(what string, to *[]string) func(*yaml.Node) {
	return items(f, what, to, func(n *yaml.Node) (s string) {
		into(f, what, &s)(n)
		return s
	})
}

func (f *file) expr(to **Expr) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || strings.TrimSpace(n.Value) == "" {
			f.fault(n, "want an expression")
			return
		}
		*to = &Expr{Text: n.Value, At: Pos{f.name, n.Line}}
	}
}

func (f *file) rule(n *yaml.Node) *Rule {
	r := &Rule{Severity: Warn, Copied: f.copied, At: Pos{f.name, n.Line}, keys: map[string]Pos{}}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		r.keys[n.Content[i].Value] = Pos{f.name, n.Content[i].Line}
	}
	f.fields(n, "a rule", map[string]func(*yaml.Node){
		"id": into(f, "id", &r.ID), "title": into(f, "title", &r.Title), "failed": into(f, "failed", &r.Failed), "harm": into(f, "harm", &r.Harm), "platforms": f.words("platforms", &r.Platforms),
		"versions": items(f, "versions", &r.Versions, f.versions),
		"on":       func(n *yaml.Node) { r.On = f.where(n) },
		"severity": func(n *yaml.Node) {
			into(f, "severity", &r.Severity)(n)
			f.oneOf(n, "severity", string(r.Severity), string(Fail), string(Warn))
		},
		"each": into(f, "each", &r.Each), "reminder": into(f, "reminder", &r.Reminder), "missing": into(f, "missing", &r.Missing), "unit": into(f, "unit", &r.Unit),
		"inputs":  func(n *yaml.Node) { r.Inputs = f.inputs(n) },
		"applies": f.expr(&r.Applies), "for": into(f, "for", &r.For), "measured": f.expr(&r.Measured), "want": f.expr(&r.Want), "pass": f.expr(&r.Pass), "nearly": f.expr(&r.Nearly),
		"variants": items(f, "variants", &r.Variants, f.variant),
		"why":      into(f, "why", &r.Why), "sources": f.sources(&r.Sources), "depends-on": f.words("depends-on", &r.DependsOn),
		"fix":      func(n *yaml.Node) { r.Fix = f.fix(n) },
		"examples": items(f, "examples", &r.Examples, f.example),
	})
	if r.For != "" && r.Applies == nil {
		f.problems = append(f.problems, fmt.Errorf("%s: %s: the key for describes the condition in applies, which is missing; add applies: EXPRESSION", r.Key("for"), r.ID))
	}
	return r
}

func (f *file) versions(n *yaml.Node) Range {
	v := Range{Pos: Pos{f.name, n.Line}}
	f.fields(n, "versions", map[string]func(*yaml.Node){
		"of": into(f, "of", &v.Product), "from": into(f, "from", &v.From), "before": into(f, "before", &v.Before),
	})
	return v
}

func (f *file) where(n *yaml.Node) *Where {
	w := &Where{}
	f.fields(n, "on", map[string]func(*yaml.Node){
		"kind": into(f, "kind", &w.Kind), "cloud": into(f, "cloud", &w.Cloud), "vendor": into(f, "vendor", &w.Vendor), "model": into(f, "model", &w.Model),
	})
	if w.Kind != "" && w.Kind != "bare-metal" && w.Kind != "guest" {
		f.fault(n, "on: kind %q: want bare-metal or guest%s", w.Kind, text.Suggest(w.Kind, []string{"bare-metal", "guest"}))
	}
	for _, pattern := range []string{w.Cloud, w.Vendor, w.Model} {
		if _, err := path.Match(pattern, ""); err != nil {
			f.fault(n, "on: %q: %v", pattern, err)
		}
	}
	return w
}

// inputs decodes "name: input" or "name: {input: ..., as: TYPE, absent: VALUE}".
func (f *file) inputs(n *yaml.Node) []Binding {
	var out []Binding
	if n.Kind != yaml.MappingNode {
		f.fault(n, "inputs: want names and inputs: %s", forms["inputs"])
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		b := Binding{Name: n.Content[i].Value, Pos: Pos{f.name, n.Content[i].Line}}
		if v := n.Content[i+1]; v.Kind == yaml.ScalarNode {
			b.Input = v.Value
		} else {
			f.fields(v, "input "+b.Name, map[string]func(*yaml.Node){
				"input":  into(f, "input", &b.Input),
				"as":     into(f, "as", &b.As),
				"absent": func(n *yaml.Node) { b.Absent = f.value(n) },
			})
		}
		if !nameForm().MatchString(b.Name) || slices.Contains([]string{"measured", "want", "instance"}, b.Name) {
			f.fault(n.Content[i], "%q cannot be the name of an input: use letters, digits and \"_\"; measured, want and instance are reserved", b.Name)
		}
		if slices.ContainsFunc(out, func(o Binding) bool { return o.Name == b.Name }) {
			f.fault(n.Content[i], "inputs have the name %q twice", b.Name)
		}
		out = append(out, b)
	}
	return out
}

var nameForm = text.LazyRegexp(`^[a-z][a-z0-9_]*$`)

// value decodes a number, a word, true, false or a list of words.
func (f *file) value(n *yaml.Node) any {
	var v any
	if err := n.Decode(&v); err != nil {
		f.problems = append(f.problems, yamlError(f.name, err))
		return nil
	}
	v, ok := fact.Plain(v)
	if !ok {
		f.fault(n, "want a number, text, true, false, or a list or map of text")
	}
	return v
}

func (f *file) variant(n *yaml.Node) Variant {
	var v Variant
	f.fields(n, "a variant", map[string]func(*yaml.Node){
		"when": f.expr(&v.When), "want": f.expr(&v.Want), "pass": f.expr(&v.Pass), "why": into(f, "why", &v.Why), "sources": f.sources(&v.Sources),
	})
	return v
}

func (f *file) sources(to *[]Source) func(*yaml.Node) {
	return items(f, "sources", to, func(n *yaml.Node) Source {
		var s Source
		f.fields(n, "a source", map[string]func(*yaml.Node){
			"document": into(f, "document", &s.Document), "section": into(f, "section", &s.Section), "says": into(f, "says", &s.Says),
		})
		cited := Cite(s.Document, s.Section)
		cited.Says = s.Says
		return cited
	})
}

func (f *file) fix(n *yaml.Node) *Fix {
	x := &Fix{}
	f.fields(n, "fix", map[string]func(*yaml.Node){
		"changes": f.wants(&x.Changes), "artefact": into(f, "artefact", &x.Artefact), "entries": f.wants(&x.Entries),
		"command": into(f, "command", &x.Command), "text": into(f, "text", &x.Text),
	})
	if len(x.Entries) > 0 && x.Artefact == "" {
		f.fault(n, "fix: entries need artefact: FILE")
	}
	return x
}

// wants decodes "name: EXPRESSION", or "- name" if the value is the rule's wanted value.
func (f *file) wants(to *[]Want) func(*yaml.Node) {
	return func(n *yaml.Node) {
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				w := Want{Name: n.Content[i].Value, Pos: Pos{f.name, n.Content[i].Line}}
				f.expr(&w.Value)(n.Content[i+1])
				*to = append(*to, w)
			}
		case yaml.SequenceNode:
			for _, c := range n.Content {
				w := Want{Pos: Pos{f.name, c.Line}}
				into(f, "the name", &w.Name)(c)
				*to = append(*to, w)
			}
		default:
			f.fault(n, "want names and expressions, or a list of names")
		}
	}
}

func (f *file) example(n *yaml.Node) Example {
	e := Example{Pos: Pos{f.name, n.Line}, Given: map[string]any{}}
	f.fields(n, "an example", map[string]func(*yaml.Node){
		"name": into(f, "name", &e.Name),
		"finding": func(n *yaml.Node) {
			into(f, "finding", &e.Finding)(n)
			f.oneOf(n, "finding", string(e.Finding), string(Passed), string(Warned), string(Failed), string(NotApplicable), string(Unknown), string(Reminded))
		},
		"want": func(n *yaml.Node) { e.Want = f.value(n) },
		"given": func(n *yaml.Node) {
			if n.Kind != yaml.MappingNode {
				f.fault(n, "given: want a map of input names and values")
				return
			}
			for i := 0; i+1 < len(n.Content); i += 2 {
				e.Given[n.Content[i].Value] = f.value(n.Content[i+1])
			}
		},
	})
	return e
}
