// Package compliance reads the result of a compliance scan: an XCCDF 1.2 results file or an ARF
// (asset reporting format), as OpenSCAP writes them. It returns the settings that the scan's rules
// require, with their values where the document has them. The document is hostile input: its size,
// depth and number of elements are limited, and a DTD is refused. internal/cli uses it.
package compliance

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of a document.
const (
	maxSize    = 128 << 20 // bytes; an ARF of a whole benchmark has 15 to 40 MiB
	maxDepth   = 100       // elements within each other
	maxItems   = 200_000   // rules, definitions, tests, objects and states
	maxText    = 4096      // bytes of a name or value
	maxExtends = 20        // definitions that extend each other
)

var errTooLarge = fmt.Errorf("larger than %d MiB", maxSize>>20)

// Document is what a result says about rules and their checks.
type Document struct {
	Rules []RuleResult // in the order of the document
	// Checks reports whether the document has the OVAL definitions: an ARF does, an XCCDF results
	// file does not.
	Checks bool

	values   map[string]string // XCCDF values by id
	operator map[string]string // of an XCCDF value
	defs     map[string][]criterion
	tests    map[string]test
	objects  map[string]object
	states   map[string]state
	items    int
}

// RuleResult is the result of one rule.
type RuleResult struct {
	ID     string
	Result string
	// checks are the definitions that decide the rule. exports maps a variable of OVAL to an XCCDF
	// value.
	checks  []string
	exports map[string]string
}

// criterion is a test or another definition on which a definition depends.
type criterion struct {
	test, extends string
	negated       bool
}

type test struct {
	object   string
	states   []string
	any      bool // one of the states suffices
	negative bool // the object must not exist, or other than all objects are meant
}

// object names a kernel variable, or a property of a unit.
type object struct {
	sysctl, unit, property string
	unsure                 bool // the name is a pattern or a variable
}

// state is a comparison with a value or with a variable.
type state struct{ op, value, variable string }

// required reports whether a rule with this result was selected and applies to the machine. A rule
// that failed requires its value as well.
func (r *RuleResult) required() bool {
	switch r.Result {
	case "pass", "fail", "fixed", "error", "unknown":
		return true
	}
	return false
}

// Read reads a document.
func Read(r io.Reader) (*Document, error) {
	limited := &io.LimitedReader{R: r, N: maxSize + 1}
	p := parser{d: xml.NewDecoder(bufio.NewReaderSize(limited, 1<<16)), doc: &Document{
		values: map[string]string{}, operator: map[string]string{}, defs: map[string][]criterion{}, tests: map[string]test{}, objects: map[string]object{}, states: map[string]state{},
	}}
	err := p.run()
	switch {
	case limited.N <= 0:
		return nil, errTooLarge
	case err != nil:
		return nil, err
	case !p.results:
		return nil, errors.New("no XCCDF TestResult; want the file of oscap xccdf eval --results-arf or --results")
	}
	p.doc.Checks = len(p.doc.defs) > 0
	return p.doc, nil
}

// parser reads a document element by element. It keeps only what names a rule, a check or a value.
type parser struct {
	d       *xml.Decoder
	doc     *Document
	path    []string // local names of the open elements
	results bool     // a TestResult was found

	rule      *RuleResult
	def       string
	negated   []bool // by depth of criteria
	test      string
	object    string
	state     string
	text      strings.Builder
	setValue  string
	stateOpen state
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
			return errors.New("has a DTD, which results of scans do not have")
		case xml.StartElement:
			if len(p.path) >= maxDepth {
				return fmt.Errorf("more than %d elements within each other", maxDepth)
			}
			p.path = append(p.path, t.Name.Local)
			p.text.Reset()
			p.start(t)
			if p.doc.items > maxItems {
				return fmt.Errorf("more than %d rules and checks", maxItems)
			}
		case xml.EndElement:
			p.end(t.Name.Local)
			p.path = p.path[:len(p.path)-1]
			p.text.Reset()
		case xml.CharData:
			if p.text.Len()+len(t) <= maxText {
				p.text.Write(t)
			} else {
				p.text.WriteString(strings.Repeat(" ", maxText)) // never a value
			}
		}
	}
}

func attr(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name {
			return strings.Clone(a.Value)
		}
	}
	return ""
}

// start handles the beginning of an element.
func (p *parser) start(t xml.StartElement) {
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
		d.operator[attr(t, "id")] = attr(t, "operator")
	case "definition":
		if id := attr(t, "id"); id != "" && attr(t, "class") != "" {
			d.items++
			p.def, p.negated = id, nil
			d.defs[id] = nil // the reports of an ARF have the definitions again
		}
	case "criteria":
		p.negated = append(p.negated, attr(t, "negate") == "true" || len(p.negated) > 0 && p.negated[len(p.negated)-1])
	case "criterion", "extend_definition":
		if p.def != "" {
			d.items++
			negated := attr(t, "negate") == "true" || len(p.negated) > 0 && p.negated[len(p.negated)-1]
			d.defs[p.def] = append(d.defs[p.def], criterion{attr(t, "test_ref"), attr(t, "definition_ref"), negated})
		}
	case "sysctl_test", "systemdunitproperty_test":
		d.items++
		p.test = attr(t, "id")
		none := attr(t, "check") == "none satisfy" || attr(t, "check_existence") == "none_exist"
		d.tests[p.test] = test{any: attr(t, "state_operator") == "OR", negative: none}
	case "sysctl_object", "systemdunitproperty_object":
		d.items++
		p.object = attr(t, "id")
		d.objects[p.object] = object{}
	case "sysctl_state", "systemdunitproperty_state":
		d.items++
		p.state, p.stateOpen = attr(t, "id"), state{}
	default:
		p.part(t)
	}
}

// part handles an element within a test, an object or a state.
func (p *parser) part(t xml.StartElement) {
	d := p.doc
	switch name := t.Name.Local; {
	case p.test != "" && name == "object":
		x := d.tests[p.test]
		x.object = attr(t, "object_ref")
		d.tests[p.test] = x
	case p.test != "" && name == "state":
		d.items++
		x := d.tests[p.test]
		x.states = append(x.states, attr(t, "state_ref"))
		d.tests[p.test] = x
	case p.object != "" && (name == "name" || name == "unit" || name == "property"):
		o := d.objects[p.object]
		op := attr(t, "operation")
		o.unsure = o.unsure || attr(t, "var_ref") != "" || op != "" && op != "equals" && (name != "unit" || op != "pattern match")
		d.objects[p.object] = o
	case p.object != "" && (name == "set" || name == "filter"):
		o := d.objects[p.object]
		o.unsure = true
		d.objects[p.object] = o
	case p.state != "" && name == "value":
		op := attr(t, "operation")
		if op == "" {
			op = "equals"
		}
		if attr(t, "entity_check") == "none satisfy" {
			op = "none"
		}
		p.stateOpen.op, p.stateOpen.variable = op, attr(t, "var_ref")
	}
}

// end handles the end of an element; text is its text since the last tag.
func (p *parser) end(name string) {
	d, text := p.doc, strings.TrimSpace(p.text.String())
	switch name {
	case "result":
		if p.rule != nil {
			p.rule.Result = text
		}
	case "rule-result":
		if p.rule != nil {
			d.Rules = append(d.Rules, *p.rule)
		}
		p.rule = nil
	case "set-value":
		d.values[p.setValue] = text
		d.items++
	case "definition":
		p.def = ""
	case "criteria":
		if len(p.negated) > 0 {
			p.negated = p.negated[:len(p.negated)-1]
		}
	case "sysctl_test", "systemdunitproperty_test":
		p.test = ""
	case "sysctl_object", "systemdunitproperty_object":
		p.object = ""
	case "sysctl_state", "systemdunitproperty_state":
		d.states[p.state] = p.stateOpen
		p.state = ""
	case "name", "unit", "property":
		if p.object != "" {
			o := d.objects[p.object]
			switch name {
			case "name":
				o.sysctl = text
			case "unit":
				o.unit = text
			default:
				o.property = text
			}
			d.objects[p.object] = o
		}
	case "value":
		if p.state != "" {
			p.stateOpen.value = text
		}
	}
}
