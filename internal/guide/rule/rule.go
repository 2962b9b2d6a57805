// Package rule turns facts into findings: guidance as data, each line of it with
// its source, the versions it holds for and what it expects of a machine. It is
// pure: it reads no machine and changes none.
package rule

import (
	"fmt"

	"fettle.dev/fettle/internal/fact"
)

// Rule is one line of guidance.
type Rule struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Platforms are the audits that ask it: linux, satellite, puppet, ...
	Platforms []string `json:"platforms"`
	// Versions are the products that it is for; none for every one.
	Versions []Range `json:"versions,omitempty"`
	// On is the sort of machine that it is for; nil for every one.
	On *Where `json:"on,omitempty"`
	// Severity is what a machine that does not follow it gets.
	Severity Severity `json:"severity"`
	// Each binds the rule to every item of a set of the machine: disk, net. Inputs
	// have a "*" in its place: disk.*.scheduler.
	Each string `json:"each,omitempty"`
	// Inputs are what the rule asks of the machine, by the name that its
	// expressions use.
	Inputs []Binding `json:"inputs,omitempty"`
	// Applies is false where the rule is not for this machine.
	Applies *Expr `json:"applies,omitempty"`
	// For says in words for what Applies is true: "it is for ..." is the reason of
	// what is not.
	For string `json:"for,omitempty"`
	// Measured is the value that is judged; the first input where it is not given.
	Measured *Expr `json:"measured,omitempty"`
	// Unit is that of what is measured, where it is no input as it is.
	Unit string `json:"unit,omitempty"`
	// Want is the value that is expected.
	Want *Expr `json:"want,omitempty"`
	// Variants replace Want and Pass where their When holds: the first that does.
	Variants []Variant `json:"variants,omitempty"`
	// Pass is whether the machine follows the rule: measured == want where it is
	// not given. Nearly is what is only worth a warning.
	Pass   *Expr `json:"pass,omitempty"`
	Nearly *Expr `json:"nearly,omitempty"`
	// Reminder marks guidance that no program can check: it is shown where the
	// rule applies, counted apart, and never passed.
	Reminder bool `json:"reminder,omitempty"`
	// Missing is, of a reminder, the fact that no program reads here, and the command
	// that brings it.
	Missing string `json:"missing,omitempty"`

	Why     string   `json:"why"`
	Sources []Source `json:"sources"`
	// DependsOn are rules whose failure explains this one's: "S12", or "S44 ITEM"
	// where it is that of one item.
	DependsOn []string  `json:"depends_on,omitempty"`
	Fix       *Fix      `json:"fix,omitempty"`
	Examples  []Example `json:"examples,omitempty"`

	At Pos `json:"at"`
	// Copied is true of a rule of the copy of a machine (see File): whoever made the
	// copy wrote it, its fix too.
	Copied bool `json:"copied,omitempty"`

	keys     map[string]Pos // where each part stands
	compiled bool
	broken   error
}

// Key is where a part of the rule stands: the rule itself where it has none.
func (r *Rule) Key(name string) Pos {
	if at, ok := r.keys[name]; ok {
		return at
	}
	return r.At
}

// Severity is how much it matters.
type Severity string

// The severities.
const (
	Fail Severity = "fail" // it breaks, loses data or wastes most of the machine
	Warn Severity = "warn" // it costs
)

// Range is a product and its versions: from the first up to, but not including,
// the second. "" is open.
type Range struct {
	Product string `json:"product"` // its version is the input PRODUCT.version
	From    string `json:"from,omitempty"`
	Before  string `json:"before,omitempty"`
	Pos     Pos    `json:"-"`
}

// Where is the sort of machine that a rule is for; what is empty is any.
type Where struct {
	// Kind is "bare-metal" or "guest". What a guest cannot satisfy, such as the
	// frequency of its CPUs, is for bare metal.
	Kind string `json:"kind,omitempty"`
	// Cloud, Vendor and Model are patterns as file names have them ("Dell*").
	Cloud  string `json:"cloud,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model,omitempty"`
}

// Binding gives an input a name in the expressions of one rule. The input is one
// of those that there are, or any setting, read as a type.
type Binding struct {
	Name  string `json:"name"`
	Input string `json:"input"` // memory.total_bytes, sysctl:vm.swappiness
	// As is the type of a setting.
	As fact.Type `json:"as,omitempty"`
	// Absent is the value where the machine has no such thing; without it the
	// rule is not applicable there.
	Absent any `json:"absent,omitempty"`
	Pos    Pos `json:"-"`
}

// Variant is what a rule expects of some versions or machines only.
type Variant struct {
	When    *Expr    `json:"when"`
	Want    *Expr    `json:"want,omitempty"`
	Pass    *Expr    `json:"pass,omitempty"`
	Why     string   `json:"why,omitempty"`
	Sources []Source `json:"sources,omitempty"`
}

// Source is where guidance comes from.
type Source struct {
	// Document and Section name it, such as "000" and "5.2.2", or a project and
	// a commit.
	Document string `json:"document" yaml:"document"`
	Section  string `json:"section,omitempty" yaml:"section"`
	// Says is the value that the source gives, where it is not the one used.
	Says string `json:"says,omitempty" yaml:"says"`
}

func (s Source) String() string {
	text := s.Document
	if s.Section != "" {
		text += " " + s.Section
	}
	if s.Says != "" {
		text += " (says " + s.Says + ")"
	}
	return text
}

// Fix is how a machine comes to follow the rule: settings that fettle writes
// through its journal, or entries of a file for somebody else's tool, or words. In
// commands and words "{want}" stands for what the rule wants and "{instance}" for its item, as sh takes them.
type Fix struct {
	Changes []Want `json:"changes,omitempty"`
	// Artefact is the file that the entries are for: "custom-hiera.yaml",
	// "installer" for options of its command line.
	Artefact string `json:"artefact,omitempty"`
	Entries  []Want `json:"entries,omitempty"`
	// Command is what applies the artefact.
	Command string `json:"command,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Want is a place and the value that it is to have: what the rule wants where
// Value is not given. Where its Value is nil the place is left as it is. "{instance}" in the name stands for the item of a rule with
// each, "{unit}" for the text of the rule's input unit; where that is empty there is
// no such place.
type Want struct {
	Name  string `json:"name"`
	Value *Expr  `json:"value,omitempty"`
	Pos   Pos    `json:"-"`
}

// Example is a machine in a few values, and what the rule says of it.
type Example struct {
	Name    string         `json:"name" yaml:"name"`
	Given   map[string]any `json:"given" yaml:"given"`
	Finding State          `json:"finding" yaml:"finding"`
	Want    any            `json:"want,omitempty" yaml:"want"`
	Pos     Pos            `json:"-" yaml:"-"`
}

// Pos is a place in a rule file.
type Pos struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

func (p Pos) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }
