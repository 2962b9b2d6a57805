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
)

// Limits of a document.
const (
	maxSize    = 128 << 20 // bytes; an ARF of a whole benchmark has 15 to 40 MiB
	maxDepth   = 100       // elements within each other
	maxItems   = 200_000   // rules, criteria, tests, objects, states and variables
	maxText    = 4096      // bytes of a name or value
	maxExtends = 20        // definitions or variables that refer to each other
	maxVisits  = 10_000    // criteria that are visited for one rule
)

var errTooLarge = fmt.Errorf("larger than %d MiB", maxSize>>20)

// Document holds the rules in a scan's result, and their checks.
type Document struct {
	Rules []RuleResult // in the order of the document
	// Checks reports whether the document has the OVAL definitions: an ARF does, an XCCDF results
	// file does not.
	Checks bool

	values    map[string]string // XCCDF values by id
	operator  map[string]string // of an XCCDF value
	defs      map[string]*criteria
	tests     map[string]test
	results   map[string]truth // of tests, at the time of the scan
	objects   map[string]entities
	states    map[string]entities
	variables map[string]variable
	items     int
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

// criteria is a node of a definition: a test, another definition, or an operator with parts.
type criteria struct {
	test, extends string
	operator      string // AND, OR, ONE or XOR
	negated       bool
	parts         []*criteria
}

type test struct {
	kind     string // in testKinds
	object   string
	states   []string
	any      bool // one of the states suffices
	negative bool // the object must not exist, or other than all objects are meant
}

// entities are the parts of an object or state by name. The name "" marks an object with a set or a
// filter.
type entities map[string]entity

// entity is a comparison with a value or with a variable.
type entity struct{ op, value, variable string }

// variable is a variable of OVAL: values, or texts and other variables that are joined.
type variable struct {
	external bool
	unknown  bool // calculated in another way
	values   []entity
	parts    []entity
}

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
		values: map[string]string{}, operator: map[string]string{}, defs: map[string]*criteria{}, tests: map[string]test{},
		results: map[string]truth{}, objects: map[string]entities{}, states: map[string]entities{}, variables: map[string]variable{},
	}}
	err := p.run()
	switch {
	case limited.N <= 0:
		return nil, errTooLarge
	case err != nil:
		return nil, err
	case p.root == "CHECKLIST":
		return nil, errors.New("a STIG checklist (.ckl) has no values and no checks; want the file of oscap xccdf eval --results-arf or --results")
	case !p.results:
		return nil, errors.New("no XCCDF TestResult; want the file of oscap xccdf eval --results-arf or --results")
	}
	p.doc.Checks = len(p.doc.defs) > 0
	return p.doc, nil
}
