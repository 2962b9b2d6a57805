package product

import (
	"context"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Product describes one server product: how to find, read, judge and set it. Daemon builds most of
// them; internal/product/table lists all.
type Product struct {
	// Name is the prefix of inputs and the kind of settings: "postgresql".
	Name string
	Doc  string
	// Parameters are the options that rules use, each as the input "NAME.PARAMETER".
	Parameters []Parameter
	// Inputs are inputs other than parameters; their names also begin with "NAME.".
	Inputs []fact.Input
	// Find returns the instances that are set up on a machine, or the reason that they are
	// unknown.
	Find func(context.Context, *host.Host) ([]Installed, error)
	// Packages are patterns (path.Match) of the packages that install the product; nil means NAME
	// and NAME-server. A copied machine is incomplete if it lists such a package without its files.
	Packages []string
	// Kind returns the kind of setting that writes the options; nil if fettle writes none of them.
	Kind func(*host.Host) setting.Kind
}

// Parameter is one option of a product.
type Parameter struct {
	Name string // the product's own name for it
	Type fact.Type
	Unit string // "bytes", "s", "%"; "" for a count
	// Read converts the configuration's text to a value in Unit: "8MB" to 8388608.
	Read func(text string) (any, error)
	// Default is the option's default as text; "" if it depends on the machine.
	Default string
	Doc     string
}

// Installed is one instance of a product on a machine, such as a cluster of PostgreSQL.
type Installed interface {
	// Name is "15/main", or "" if a machine has only one.
	Name() string
	// Option returns an option by its name. An option without a value is absent.
	Option(name string) Option
	// Answer answers one of the product's Inputs; input is the name without "NAME.".
	Answer(input string) fact.Answer
}

// Defaulter is an Installed with defaults that depend on its version.
type Defaulter interface {
	// Default returns the default of an option and its source, or "" if Parameter.Default
	// applies.
	Default(name string) (value, source string)
}

// Option is an option's value in the files and in the running program. The source of each value is
// FILE:LINE, or the name of the report.
type Option struct {
	File, Running fact.Fact[string]
}

// Effective returns the running value, or the value in the files if the running one is unknown.
func (o Option) Effective() fact.Fact[string] {
	if _, ok := o.Running.Get(); ok {
		return o.Running
	}
	return o.File
}
