// component says what fettle has to know of a product - a database, a
// web server, a message broker - to judge it and to set it: what it was told in
// its files, what it runs with, and how it takes a new value. Each product is a
// package below; the table of all is internal/product/table.

package product

import (
	"context"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Product is one product that fettle knows.
type Product struct {
	// Name is how inputs and settings begin: "postgresql".
	Name string
	Doc  string
	// Parameters are those of its options that rules ask for. Each is an input
	// "NAME.PARAMETER".
	Parameters []Parameter
	// Inputs are further ones, whose names begin with "NAME." too.
	Inputs []fact.Input
	// Find reads what of the product is set up on a machine: none where it is not
	// there. The error says why that cannot be known.
	Find func(context.Context, *host.Host) ([]Installed, error)
	// Packages are patterns (path.Match) of the packages that bring it; NAME and
	// NAME-server where it says nothing. A copy that has one of them, and none of
	// its files, was made without them.
	Packages []string
	// Kind makes the kind of setting that writes its options; nil where fettle
	// writes none.
	Kind func(*host.Host) setting.Kind
}

// Parameter is one option of a product.
type Parameter struct {
	Name string // as the product calls it
	Type fact.Type
	Unit string // "bytes", "s", "%"; "" for a count
	// Read turns the text of the configuration into a value of the type, in the
	// unit: "8MB" into 8388608.
	Read func(text string) (any, error)
	// Default is what the product does where nobody told it, as its
	// configuration would have it; "" where it depends on the machine.
	Default string
	Doc     string
}

// Installed is one product as it is set up on a machine. A machine may have
// several: the clusters of PostgreSQL.
type Installed interface {
	// Name tells it from the others: "15/main"; "" where a machine has one.
	Name() string
	// Option is one of its options. What nobody has told it is absent.
	Option(name string) Option
	// Answer answers the product's further inputs, without "NAME.".
	Answer(input string) fact.Answer
}

// Defaulter is what an Installed may be whose defaults depend on its version.
type Defaulter interface {
	// Default is the default of an option and where that is from; "" where the parameter's
	// own holds.
	Default(name string) (value, source string)
}

// Option is one option in the two places where it can be: what the files set it to, and
// what the program runs with. The source of each is FILE:LINE, or says who was asked.
type Option struct {
	File, Running fact.Fact[string]
}

// Effective is what runs, if that is known; else what the files set.
func (o Option) Effective() fact.Fact[string] {
	if _, ok := o.Running.Get(); ok {
		return o.Running
	}
	return o.File
}
