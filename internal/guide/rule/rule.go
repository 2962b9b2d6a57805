// Package rule turns facts into findings. Guidance is data: each rule has its source, the
// versions it applies to and the expected values. The package is pure: it neither reads nor
// changes a machine.
package rule

import (
	"fmt"

	"fettle.dev/fettle/internal/fact"
)

// Rule is one piece of guidance.
type Rule struct {
	ID string `json:"id"`
	// Title describes a machine that follows the rule, Failed one that does not. Of a reminder
	// Failed is the advice.
	Title  string `json:"title"`
	Failed string `json:"failed"`
	// Harm marks a rule that measures harm: if it fails, something waits, was lost or is full.
	Harm bool `json:"harm,omitempty"`
	// Platforms are the audits that include it: linux, satellite, puppet, ...
	Platforms []string `json:"platforms"`
	// Versions are the product versions it applies to; empty means all.
	Versions []Range `json:"versions,omitempty"`
	// On is the kind of machine it applies to; nil means all.
	On *Where `json:"on,omitempty"`
	// Severity is the state of a machine that does not follow it.
	Severity Severity `json:"severity"`
	// Each applies the rule to every item of a set of the machine: disk, net. Inputs have
	// "*" for the item: disk.*.scheduler.
	Each string `json:"each,omitempty"`
	// Inputs are the inputs of the rule, by their names in its expressions.
	Inputs []Binding `json:"inputs,omitempty"`
	// Applies reports whether the rule is for this machine.
	Applies *Expr `json:"applies,omitempty"`
	// For describes the machines that Applies accepts: others get the reason "it is for ...".
	For string `json:"for,omitempty"`
	// Measured is the judged value; by default the first input.
	Measured *Expr `json:"measured,omitempty"`
	// Unit is the unit of Measured, if Measured is not just an input.
	Unit string `json:"unit,omitempty"`
	// Want is the expected value.
	Want *Expr `json:"want,omitempty"`
	// Variants replace Want and Pass: the first one whose When is true.
	Variants []Variant `json:"variants,omitempty"`
	// Pass reports whether the machine follows the rule; by default measured == want. Nearly
	// reports whether a failure is only worth a warning.
	Pass   *Expr `json:"pass,omitempty"`
	Nearly *Expr `json:"nearly,omitempty"`
	// Reminder marks guidance that no program can check: it is shown if the rule applies,
	// counted separately, and never passes.
	Reminder bool `json:"reminder,omitempty"`
	// Missing is, for a reminder, the fact that fettle does not read, and a command that shows
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
	// Copied marks a rule from the copy of a machine (see File), with a fix that its author
	// wrote.
	Copied bool `json:"copied,omitempty"`

	keys     map[string]Pos // of each part
	compiled bool
	broken   error
}

// Key returns the position of a part of the rule, or of the rule.
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
	Fail Severity = "fail" // it breaks, loses data or wastes most of the machine
	Warn Severity = "warn" // it costs
)

// Range is a range of versions of a product, from From up to, but not including, Before. An
// empty bound is open.
type Range struct {
	Product string `json:"product"` // its version is the input PRODUCT.version
	From    string `json:"from,omitempty"`
	Before  string `json:"before,omitempty"`
	Pos     Pos    `json:"-"`
}

// Where is the kind of machine that a rule is for; empty fields match any.
type Where struct {
	// Kind is "bare-metal" or "guest". A setting that a guest cannot control, such as the
	// frequency of its CPUs, is for bare metal.
	Kind string `json:"kind,omitempty"`
	// Cloud, Vendor and Model are patterns as for file names ("Dell*").
	Cloud  string `json:"cloud,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model,omitempty"`
}

// Binding names an input in the expressions of a rule. The input is a declared one, or a
// setting read as a type.
type Binding struct {
	Name  string `json:"name"`
	Input string `json:"input"` // memory.total_bytes, sysctl:vm.swappiness
	// As is the type of a setting.
	As fact.Type `json:"as,omitempty"`
	// Absent is the value to use if the machine lacks the input; without it the rule is not
	// applicable there.
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

// Fix makes a machine follow the rule, with settings that fettle writes through its journal,
// entries of a file of another program, or words. In commands and words "{want}" stands for the
// wanted value and "{instance}" for the item, quoted for sh.
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

// Want is a setting or entry and its new value, by default the rule's wanted value. A Value
// that evaluates to nil leaves it unchanged. In the name "{instance}" stands for the item of
// a rule with each, "{unit}" for the rule's input unit; if that is empty, the change is
// omitted.
type Want struct {
	Name  string `json:"name"`
	Value *Expr  `json:"value,omitempty"`
	Pos   Pos    `json:"-"`
}

// Example is a machine described by a few values, and the finding of the rule.
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
