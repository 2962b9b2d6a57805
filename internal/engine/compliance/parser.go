package compliance

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// parser reads a document element by element. It keeps only what names a rule, a check or a value.
type parser struct {
	d       *xml.Decoder
	doc     *Document
	root    string // name of the first element
	depth   int
	results bool // a TestResult was found

	text    strings.Builder
	tooLong bool // the text is longer than a value may be

	rule     *RuleResult
	setValue string
	def      string
	open     []*criteria // of the definition, or of its results
	test     string
	object   string // also of a state
	within   entities
	entity   string // of the object or state
	variable string
	building variable
}

func (p *parser) run() error {
	for {
		t, err := p.d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.Directive:
			return errors.New("has a DTD, so it is not a scan result")
		case xml.StartElement:
			if p.depth++; p.depth > maxDepth {
				return fmt.Errorf("elements nested more than %d deep", maxDepth)
			}
			if p.root == "" {
				p.root = strings.Clone(t.Name.Local)
			}
			p.clear()
			p.start(t)
			if p.doc.items > maxItems {
				return fmt.Errorf("more than %d rules and checks", maxItems)
			}
		case xml.EndElement:
			p.end(t.Name.Local)
			p.depth--
			p.clear()
		case xml.CharData:
			if p.tooLong = p.tooLong || p.text.Len()+len(t) > maxText; !p.tooLong {
				p.text.Write(t)
			}
		}
	}
}

func (p *parser) clear() {
	p.text.Reset()
	p.tooLong = false
}

// words returns the text since the last tag, or "" if it is too long for a value.
func (p *parser) words() string {
	if p.tooLong {
		return ""
	}
	return strings.TrimSpace(p.text.String())
}

func attr(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name {
			return strings.Clone(a.Value)
		}
	}
	return ""
}

// testKinds maps the tests of OVAL that can name a setting to the parts of their objects and states.
var testKinds = map[string][]string{
	"sysctl":                {"name", "value"},
	"systemdunitproperty":   {"unit", "property", "value"},
	"systemdunitdependency": {"unit", "dependency"},
	"textfilecontent54":     {"filepath", "path", "pattern", "subexpression", "text"},
}

// start handles the beginning of an element.
func (p *parser) start(t xml.StartElement) {
	name := t.Name.Local
	kind, what, _ := cutLast(name, "_")
	switch _, known := testKinds[kind]; {
	case known && what == "test":
		p.startTest(t, kind)
	case known && (what == "object" || what == "state"):
		p.doc.items++
		p.object, p.within = attr(t, "id"), entities{}
	case p.object != "":
		p.startEntity(t)
	case p.test != "":
		p.testPart(t)
	case p.variable != "":
		p.variablePart(t)
	case strings.HasSuffix(name, "_variable"):
		p.doc.items++
		p.variable, p.building = attr(t, "id"), variable{external: name == "external_variable"}
	case !p.startRule(t):
		p.startDefinition(t)
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// startRule handles an element of XCCDF. It returns false for an element of another language.
func (p *parser) startRule(t xml.StartElement) bool {
	d := p.doc
	switch t.Name.Local {
	case "TestResult":
		p.results, d.Rules, d.values = true, nil, map[string]string{} // of several results the last one counts
	case "rule-result":
		d.items++
		p.rule = &RuleResult{ID: attr(t, "idref"), exports: map[string]string{}}
	case "check-content-ref":
		if p.rule != nil {
			d.items++
			p.rule.checks = append(p.rule.checks, attr(t, "name"))
		}
	case "check-export":
		if p.rule != nil {
			d.items++
			p.rule.exports[attr(t, "export-name")] = attr(t, "value-id")
		}
	case "set-value":
		p.setValue = attr(t, "idref")
	case "Value":
		d.items++
		operator := attr(t, "operator")
		if operator == "" {
			operator = "equals" // the default of XCCDF 1.2
		}
		d.operator[attr(t, "id")] = operator
	default:
		return false
	}
	return true
}

// startDefinition handles an element of a definition, or of the results of a scan. Only the results
// have tests with a test_id. They repeat the criteria without their tests' ids; those are ignored.
func (p *parser) startDefinition(t xml.StartElement) {
	d := p.doc
	switch t.Name.Local {
	case "definition":
		if id := attr(t, "id"); id != "" && attr(t, "class") != "" {
			d.items++
			p.def, p.open = id, nil
			delete(d.defs, id) // the reports of an ARF have the definitions again
			d.defs[id] = &criteria{operator: "AND"}
		}
	case "criteria", "criterion", "extend_definition":
		if p.def == "" {
			return
		}
		d.items++
		c := &criteria{test: attr(t, "test_ref"), extends: attr(t, "definition_ref"), negated: isTrue(attr(t, "negate"))}
		if t.Name.Local == "criteria" {
			if c.operator = attr(t, "operator"); c.operator == "" {
				c.operator = "AND"
			}
		}
		parent := d.defs[p.def]
		if len(p.open) > 0 {
			parent = p.open[len(p.open)-1]
		}
		parent.parts = append(parent.parts, c)
		p.open = append(p.open, c)
	case "test":
		if id := attr(t, "test_id"); id != "" {
			d.items++
			d.setResult(id, attr(t, "result"))
		}
	}
}

// isTrue parses a boolean of XML Schema.
func isTrue(text string) bool { return text == "true" || text == "1" }

// setResult stores the result of a test. A test that was evaluated with several values of a
// variable, and differently, is unknown.
func (d *Document) setResult(id, result string) {
	is := map[string]truth{"true": holds, "false": fails}[result]
	if was, twice := d.results[id]; twice && was != is {
		is = undecided
	}
	d.results[id] = is
}

func (p *parser) startTest(t xml.StartElement, kind string) {
	p.doc.items++
	p.test = attr(t, "id")
	none := attr(t, "check") == "none satisfy" || attr(t, "check_existence") == "none_exist"
	p.doc.tests[p.test] = test{kind: kind, any: attr(t, "state_operator") == "OR", negative: none}
}

func (p *parser) testPart(t xml.StartElement) {
	x := p.doc.tests[p.test]
	switch t.Name.Local {
	case "object":
		x.object = attr(t, "object_ref")
	case "state":
		p.doc.items++
		x.states = append(x.states, attr(t, "state_ref"))
	}
	p.doc.tests[p.test] = x
}

// startEntity handles a part of an object or state.
func (p *parser) startEntity(t xml.StartElement) {
	name := t.Name.Local
	if name == "set" || name == "filter" {
		p.within[""] = entity{}
		return
	}
	for _, names := range testKinds {
		for _, n := range names {
			if n == name {
				e := entity{op: attr(t, "operation"), variable: attr(t, "var_ref")}
				if e.op == "" {
					e.op = "equals"
				}
				if attr(t, "entity_check") == "none satisfy" {
					e.op = "none"
				}
				p.entity, p.within[n] = n, e
				return
			}
		}
	}
}

// variablePart handles a part of a variable. Values may be joined; everything else that OVAL can
// calculate is unknown.
func (p *parser) variablePart(t xml.StartElement) {
	p.doc.items++
	switch t.Name.Local {
	case "value", "possible_value", "literal_component", "concat":
	case "variable_component":
		p.building.parts = append(p.building.parts, entity{variable: attr(t, "var_ref")})
	default:
		p.building.unknown = true
	}
}

// end handles the end of an element.
func (p *parser) end(name string) {
	d := p.doc
	kind, what, _ := cutLast(name, "_")
	switch _, known := testKinds[kind]; {
	case known && what == "test":
		p.test = ""
	case known && (what == "object" || what == "state"):
		if what == "object" {
			d.objects[p.object] = p.within
		} else {
			d.states[p.object] = p.within
		}
		p.object, p.entity, p.within = "", "", nil
	case p.object != "":
		if e := p.within[name]; name == p.entity {
			e.value = p.words()
			p.within[name] = e
		}
	case p.variable != "" && strings.HasSuffix(name, "_variable"):
		d.variables[p.variable] = p.building
		p.variable = ""
	case p.variable != "" && name == "value":
		p.building.values = append(p.building.values, entity{value: p.words()})
	case p.variable != "" && name == "literal_component":
		p.building.parts = append(p.building.parts, entity{value: p.words()})
	default:
		p.endRule(name)
	}
}

func (p *parser) endRule(name string) {
	d := p.doc
	switch name {
	case "result":
		if p.rule != nil {
			p.rule.Result = p.words()
		}
	case "rule-result":
		if p.rule != nil {
			d.Rules = append(d.Rules, *p.rule)
		}
		p.rule = nil
	case "set-value":
		d.values[p.setValue] = p.words()
		d.items++
	case "definition":
		p.def = ""
	case "criteria", "criterion", "extend_definition":
		if len(p.open) > 0 {
			p.open = p.open[:len(p.open)-1]
		}
	}
}
