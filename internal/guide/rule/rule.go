// Package rule evaluates guidance on facts and returns findings. Guidance is data: each rule has
// its source, its versions and the expected values. The package is pure: it neither reads nor
// changes a machine.
package rule

import (
	"fmt"

	"fettle.dev/fettle/internal/fact"
)

// Rule is one piece of guidance.
type Rule struct {
	ID string `json:"id"`
	// Title describes a machine that follows the rule, Failed one that does not. For a reminder
	// Failed is the advice.
	Title  string `json:"title"`
	Failed string `json:"failed"`
	// Harm marks a rule that measures harm: if it fails, something waits, was lost or is full.
	Harm bool `json:"harm,omitempty"`
	// Platforms are the audits that include it: linux, satellite, puppet, ...
	Platforms []string `json:"platforms"`
	// Versions are the product versions that the rule applies to; empty means all.
	Versions []Range `json:"versions,omitempty"`
	// On is the kind of machine that the rule applies to; nil means any.
	On *Where `json:"on,omitempty"`
	// Severity is the state of a finding that does not pass.
	Severity Severity `json:"severity"`
	// Each is a set of the machine, such as disk or net: the rule is evaluated on every item.
	// Inputs have "*" for the item: disk.*.scheduler.
	Each string `json:"each,omitempty"`
	// Inputs are the rule's inputs, with their names in expressions.
	Inputs []Binding `json:"inputs,omitempty"`
	// Applies is the condition under which the rule applies to a machine.
	Applies *Expr `json:"applies,omitempty"`
	// For describes the machines for which Applies is true. On others the reason is "it is for
	// ...".
	For string `json:"for,omitempty"`
	// Measured is the value to compare; by default the first input.
	Measured *Expr `json:"measured,omitempty"`
	// Unit is the unit of Measured, if Measured is not just an input.
	Unit string `json:"unit,omitempty"`
	// Want is the expected value.
	Want *Expr `json:"want,omitempty"`
	// Variants replace Want and Pass; the first one whose When is true applies.
	Variants []Variant `json:"variants,omitempty"`
	// Pass is the condition under which the machine follows the rule; by default measured == want.
	// Nearly is the condition under which a failure is only a warning.
	Pass   *Expr `json:"pass,omitempty"`
	Nearly *Expr `json:"nearly,omitempty"`
	// Reminder marks guidance that no program can check. It is shown if the rule applies,
	// counted separately, and never passes.
	Reminder bool `json:"reminder,omitempty"`
	// Missing says, for a reminder, which fact fettle does not read, and which command shows
	// it.
	Missing string `json:"missing,omitempty"`

	Why     string   `json:"why"`
	Sources []Source `json:"sources"`
	// DependsOn are rules whose failure explains a failure of this rule: "S12", or "S44 ITEM"
	// for one item.
	DependsOn []string  `json:"depends_on,omitempty"`
	Fix       *Fix      `json:"fix,omitempty"`
	Examples  []Example `json:"examples,omitempty"`

	At Pos `json:"at"`
	// Copied marks a rule from a copied machine (see File.Copied), whose author wrote the
	// fix.
	Copied bool `json:"copied,omitempty"`

	keys     map[string]Pos // of each part
	compiled bool
	broken   error
}

// Key returns the position of a part of the rule, or the rule's position.
func (r *Rule) Key(name string) Pos {
	if at, ok := r.keys[name]; ok {
		return at
	}
	return r.At
}

// Severity is the state of a finding that does not pass.
type Severity string

// The severities.
const (
	Fail Severity = "fail" // it breaks something, loses data or wastes most of the machine
	Warn Severity = "warn" // it costs performance or resources
)

// Range is a range of a product's versions: from From to, but excluding, Before. An empty bound is
// open.
type Range struct {
	Product string `json:"product"` // its version is the input PRODUCT.version
	From    string `json:"from,omitempty"`
	Before  string `json:"before,omitempty"`
	Pos     Pos    `json:"-"`
}

// Where is the kind of machine that a rule applies to; empty fields match any.
type Where struct {
	// Kind is "bare-metal" or "guest". Rules about settings that a guest cannot control, such as
	// CPU frequency, are for bare metal.
	Kind string `json:"kind,omitempty"`
	// Cloud, Vendor and Model are patterns as for file names ("Dell*").
	Cloud  string `json:"cloud,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model,omitempty"`
}

// Binding names an input for a rule's expressions. The input is a declared one, or a setting read
// as a type.
type Binding struct {
	Name  string `json:"name"`
	Input string `json:"input"` // memory.total_bytes, sysctl:vm.swappiness
	// As is the type of a setting.
	As fact.Type `json:"as,omitempty"`
	// Absent is the value for a machine that lacks the input. Without it the rule does not apply
	// to such a machine.
	Absent any `json:"absent,omitempty"`
	Pos    Pos `json:"-"`
}

// Variant replaces the expectation of a rule for some versions or machines.
type Variant struct {
	When    *Expr    `json:"when"`
	Want    *Expr    `json:"want,omitempty"`
	Pass    *Expr    `json:"pass,omitempty"`
	Why     string   `json:"why,omitempty"`
	Sources []Source `json:"sources,omitempty"`
}

// Fix makes a machine follow the rule: settings that fettle writes through its journal, entries of
// another program's file, or words. In commands and words "{want}" stands for the wanted value,
// "{instance}" for the item, quoted for sh; in words "{NAME}" stands for a text input of that name.
type Fix struct {
	Changes []Want `json:"changes,omitempty"`
	// Artefact is the file of the entries: "custom-hiera.yaml", or "installer" for options
	// of its command line.
	Artefact string `json:"artefact,omitempty"`
	Entries  []Want `json:"entries,omitempty"`
	// Command applies the artefact.
	Command string `json:"command,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Want is a setting or entry with its new value, by default the rule's wanted value. A Value that
// evaluates to nil leaves it unchanged. In the name "{instance}" stands for the item of a rule
// with Each, "{unit}" for the rule's input unit. If unit is empty, the change is omitted.
type Want struct {
	Name  string `json:"name"`
	Value *Expr  `json:"value,omitempty"`
	Pos   Pos    `json:"-"`
}

// Example is a machine described by a few values, with the rule's expected finding.
type Example struct {
	Name    string         `json:"name" yaml:"name"`
	Given   map[string]any `json:"given" yaml:"given"`
	Finding State          `json:"finding" yaml:"finding"`
	Want    any            `json:"want,omitempty" yaml:"want"`
	Pos     Pos            `json:"-" yaml:"-"`
}

// Pos is a position in a rule file.
type Pos struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

func (p Pos) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }
