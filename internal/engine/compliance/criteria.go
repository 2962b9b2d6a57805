package compliance

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// truth is the result of a test or of criteria.
type truth byte

const (
	undecided truth = iota
	holds
	fails
)

func (t truth) not() truth {
	switch t {
	case holds:
		return fails
	case fails:
		return holds
	}
	return undecided
}

// walk follows the criteria of one rule. It is bounded by maxExtends and maxVisits.
type walk struct {
	*Document
	host   *host.Host
	rule   *RuleResult
	depth  int // definitions within each other
	visits int
	named  bool // a test names a setting
}

// enter counts a visit and returns the parts of criteria, and what joins them: AND, OR, or "" for
// anything else. A definition has one part, its root. A negated AND is an OR of negated parts, and
// the other way round.
func (w *walk) enter(c *criteria, negated bool) (parts []*criteria, operator string, ok bool) {
	if w.visits++; w.visits > maxVisits || w.depth > maxExtends {
		return nil, "", false
	}
	if c.extends != "" {
		root, ok := w.defs[c.extends]
		return []*criteria{root}, "AND", ok
	}
	operator = c.operator
	switch {
	case operator == "AND" && negated:
		operator = "OR"
	case operator == "OR" && negated:
		operator = "AND"
	case operator != "AND" && operator != "OR":
		operator = ""
	}
	return c.parts, operator, true
}

// truthOf returns whether criteria are met now.
func (w *walk) truthOf(c *criteria, negated bool) truth {
	negated = negated != c.negated
	if c.test != "" {
		is := w.truthOfTest(c.test)
		if negated {
			is = is.not()
		}
		return is
	}
	parts, operator, ok := w.enter(c, negated)
	if !ok || operator == "" || len(parts) == 0 {
		return undecided
	}
	w.depth++
	defer func() { w.depth-- }()
	decides := fails // AND: one part that fails
	if operator == "OR" {
		decides = holds
	}
	all := decides.not()
	for _, part := range parts {
		if w.visits > maxVisits {
			return undecided
		}
		switch w.truthOf(part, negated) {
		case decides:
			return decides
		case undecided:
			all = undecided
		}
	}
	return all
}

// truthOfTest returns whether a test is met. For a kernel variable the present value decides, for
// all others the result of the scan.
func (w *walk) truthOfTest(id string) truth {
	if w.visits++; w.visits > maxVisits {
		return undecided
	}
	t, ok := w.tests[id]
	if ok && t.kind == "sysctl" && !t.negative && w.host != nil {
		if name, ok := w.sysctlOf(t); ok {
			allowed := w.allowed(t, "value")
			p, err := setting.SysctlPath(name)
			if b, rerr := w.host.Files.ReadFile(p); err == nil && rerr == nil && len(allowed) > 0 {
				if slices.ContainsFunc(allowed, func(a string) bool { return meets(string(b), a) }) {
					return holds
				}
				return fails
			}
		}
	}
	return w.results[id]
}

// meets reports whether a value fulfills a requirement such as "0" or ">=1".
func meets(value, allowed string) bool {
	for compare, sign := range map[string]int{">=": 1, "<=": -1} {
		if limit, ok := strings.CutPrefix(allowed, compare); ok {
			x, errX := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			y, errY := strconv.ParseInt(limit, 10, 64)
			return errX == nil && errY == nil && cmp.Compare(x, y) != -sign
		}
	}
	return strings.Join(strings.Fields(value), " ") == allowed
}

// requirements returns the values of settings that criteria require. Of alternatives (OR), one that
// is met suffices: the others require nothing. If none is met, each alternative is required, and
// each of their values for one setting is allowed.
func (w *walk) requirements(c *criteria, negated bool) []Requirement {
	negated = negated != c.negated
	if c.test != "" {
		return w.ofTest(c.test, negated)
	}
	parts, operator, ok := w.enter(c, negated)
	if !ok {
		return nil
	}
	w.depth++
	defer func() { w.depth-- }()
	var each [][]Requirement
	least := -1
	for _, part := range parts {
		if w.visits > maxVisits {
			break
		}
		found := w.requirements(part, negated)
		if operator == "OR" && w.truthOf(part, negated) == holds && (least < 0 || len(found) < len(each[least])) {
			least = len(each)
		}
		each = append(each, found)
	}
	if least >= 0 {
		return each[least]
	}
	var out []Requirement
	for _, found := range each {
		for _, q := range found {
			if operator == "" { // exactly one, or an odd number: any change may break it
				q.Allowed = nil
			}
			out = join(out, q, operator == "OR")
		}
	}
	return out
}

// join adds a requirement. Two requirements of one setting become one: either value if they are
// alternatives, else the values that both allow. Without such a value the setting must stay as it
// is.
func join(all []Requirement, q Requirement, alternatives bool) []Requirement {
	i := slices.IndexFunc(all, func(o Requirement) bool { return o.Rule == q.Rule && o.Setting == q.Setting })
	if i < 0 {
		return append(all, q)
	}
	old := &all[i]
	switch {
	case len(old.Allowed) == 0 || len(q.Allowed) == 0:
		old.Allowed = nil
	case alternatives:
		old.Allowed = slices.Clone(old.Allowed)
		for _, a := range q.Allowed {
			if !slices.Contains(old.Allowed, a) {
				old.Allowed = append(old.Allowed, a)
			}
		}
	default:
		old.Allowed = slices.DeleteFunc(slices.Clone(old.Allowed), func(a string) bool {
			return !slices.Contains(q.Allowed, a)
		})
	}
	return all
}
