package product

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/setting"
)

// Parameters is the table of a product's options.
type Parameters []Parameter

// Named returns the parameter with this name, or nil.
func (p Parameters) Named(name string) *Parameter {
	if i := slices.IndexFunc(p, func(p Parameter) bool { return p.Name == name }); i >= 0 {
		return &p[i]
	}
	return nil
}

// Same reports whether two values of an option are equal: as Read reads them, except for lists, or
// else as text.
func (p Parameters) Same(name, a, b string) bool {
	if p := p.Named(name); p != nil && p.Read != nil {
		x, errX := p.Read(a)
		y, errY := p.Read(b)
		if _, list := x.([]string); !list && errX == nil && errY == nil {
			return x == y
		}
	}
	return a == b
}

// Settable returns the parameter with this name, or nil for the names in byHand, which only an
// administrator sets.
func (p Parameters) Settable(name string, byHand []string) *Parameter {
	if slices.Contains(byHand, name) {
		return nil
	}
	return p.Named(name)
}

// Check returns an error for a value that Read rejects, or for a nil Parameter, which means that
// fettle does not set the option. product is its name in the error.
func (p *Parameter) Check(product, value string) error {
	if p == nil {
		return fmt.Errorf("%w: not a tuning option of %s", setting.ErrNotSettable, product)
	}
	_, err := p.Read(value)
	return err
}

// Of returns a constructor of parameters with one type, unit and Read.
func Of(as fact.Type, unit string, read func(string) (any, error)) func(name, def, doc string) Parameter {
	return func(name, def, doc string) Parameter {
		return Parameter{Name: name, Type: as, Unit: unit, Read: read, Default: def, Doc: doc}
	}
}

// Count returns a parameter that accepts a whole number from 0 to 2147483647.
func Count(name, def, doc string) Parameter { return Of(fact.Number, "", ReadCount)(name, def, doc) }

// ReadCount parses a whole number from 0 to 2147483647.
func ReadCount(text string) (any, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return float64(n), nil
}

// Switch returns a constructor of parameters with two words for yes and no, in any case.
func Switch(yes, no string) func(name, def, doc string) Parameter {
	return Of(fact.Truth, "", func(text string) (any, error) {
		switch strings.ToLower(text) {
		case yes:
			return true, nil
		case no:
			return false, nil
		}
		return nil, fmt.Errorf("%q: want %s or %s", text, yes, no)
	})
}
