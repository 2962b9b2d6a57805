package product

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
)

// Parameters is the table of a product's options.
type Parameters []Parameter

// Named is the line of an option; nil where there is none.
func (p Parameters) Named(name string) *Parameter {
	if i := slices.IndexFunc(p, func(p Parameter) bool { return p.Name == name }); i >= 0 {
		return &p[i]
	}
	return nil
}

// Count is an option with a whole number from 0 to 2147483647.
func Count(name, def, doc string) Parameter {
	return Parameter{Name: name, Type: fact.Number, Read: ReadCount, Default: def, Doc: doc}
}

// ReadCount reads a whole number from 0 to 2147483647.
func ReadCount(text string) (any, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return float64(n), nil
}

// Switch makes options of two words for yes and no, in any case.
func Switch(yes, no string) func(name, def, doc string) Parameter {
	read := func(text string) (any, error) {
		switch strings.ToLower(text) {
		case yes:
			return true, nil
		case no:
			return false, nil
		}
		return nil, fmt.Errorf("%q is neither %s nor %s", text, yes, no)
	}
	return func(name, def, doc string) Parameter {
		return Parameter{Name: name, Type: fact.Truth, Read: read, Default: def, Doc: doc}
	}
}
