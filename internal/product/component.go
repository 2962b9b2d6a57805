package product

import (
	"context"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Product is one server product: the ways to find, judge and set it. Daemon makes most of them;
// the table of all is internal/product/table.
type Product struct {
	// Name is the prefix of inputs and the kind of settings: "postgresql".
	Name string
	Doc  string
	// Parameters are the options that rules use, each as the input "NAME.PARAMETER".
	Parameters []Parameter
	// Inputs are the further inputs; their names begin with "NAME." too.
	Inputs []fact.Input
	// Find returns the instances that are set up on a machine, or the reason that they are
	// unknown.
	Find func(context.Context, *host.Host) ([]Installed, error)
	// Packages are patterns (path.Match) of the packages that install it; nil means NAME and
	// NAME-server. A copy that lists one of them and has none of its files is incomplete.
	Packages []string
	// Kind returns the kind of setting that writes its options; nil if fettle writes none.
	Kind func(*host.Host) setting.Kind
}

// Parameter is one option of a product.
type Parameter struct {
	Name string // the product's own
	Type fact.Type
	Unit string // "bytes", "s", "%"; "" for a count
	// Read converts the text of the configuration to a value of the type, in the unit:
	// "8MB" to 8388608.
	Read func(text string) (any, error)
	// Default is the text of its default; "" if it depends on the machine.
	Default string
	Doc     string
}

// Installed is one instance of a product on a machine, such as a cluster of PostgreSQL.
type Installed interface {
	// Name is "15/main", or "" if a machine has only one.
	Name() string
	// Option returns one of its options. Without a value it is absent.
	Option(name string) Option
	// Answer answers one of the product's Inputs; the name is without "NAME.".
	Answer(input string) fact.Answer
}

// Defaulter is an Installed whose defaults depend on its version.
type Defaulter interface {
	// Default returns the default of an option and its source, or "" if Parameter.Default
	// applies.
	Default(name string) (value, source string)
}

// Option is the value of an option in the files and in the running program. The source of each
// is FILE:LINE, or the name of the report.
type Option struct {
	File, Running fact.Fact[string]
}

// Effective returns the running value if it is known, else the value of the files.
func (o Option) Effective() fact.Fact[string] {
	if _, ok := o.Running.Get(); ok {
		return o.Running
	}
	return o.File
}
