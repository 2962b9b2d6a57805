package profile

import (
	"fmt"
	"strings"
)

// Modifier is how a value is to be compared with the present one before it is
// set.
type Modifier byte

const (
	// Always sets the value whatever is there.
	Always Modifier = 0
	// IfGreater ("value begins with >") sets it only if it is greater.
	IfGreater Modifier = '>'
	// IfLess ("value begins with <") sets it only if it is less.
	IfLess Modifier = '<'
)

// ParseModifier takes a leading > or < off an expanded value. A value of a
// single character has no modifier.
func ParseModifier(value string) (Modifier, string) {
	if len(value) > 1 && (value[0] == '>' || value[0] == '<') {
		return Modifier(value[0]), value[1:]
	}
	return Always, value
}

// Wants says whether value is to be set where the machine has current. Both
// must be whole numbers when there is a modifier.
func (m Modifier) Wants(value, current string) (bool, error) {
	if m == Always {
		return true, nil
	}
	v, ok := parseInt(value)
	if !ok {
		return false, fmt.Errorf("%c%s: %q is not a whole number, so it cannot be compared", m, value, value)
	}
	c, ok := parseInt(current)
	if !ok {
		return false, fmt.Errorf("%c%s: the present value %q is not a whole number, so it cannot be compared", m, value, strip(current))
	}
	if m == IfGreater {
		return v.Cmp(c) > 0, nil
	}
	return v.Cmp(c) < 0, nil
}

// Alternatives splits a value of the form a|b|c: the first that the machine can
// do is meant. It returns at least one.
func Alternatives(value string) []string {
	parts := strings.Split(value, "|")
	for i, p := range parts {
		parts[i] = strip(p)
	}
	return parts
}
