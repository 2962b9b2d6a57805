// Package rule turns facts into findings: guidance as data, each line of it with
// its source, the versions it holds for and what it expects of a machine. It is
// pure: it reads no machine and changes none.
package rule

import "fmt"

// Rule is one line of guidance.
type Rule struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Platforms are the audits that ask it: linux, satellite, puppet, ...
	Platforms []string `json:"platforms"`
	// Severity is what a machine that does not follow it gets.
	Severity Severity `json:"severity"`
	// Each binds the rule to every disk, unit, process, ... of the machine.
	Each string `json:"each,omitempty"`
	// Inputs are what the rule asks of the machine, by the name that its
	// expressions use.
	Inputs []Binding `json:"inputs,omitempty"`
	// Applies is false where the rule is not for this machine.
	Applies *Expr `json:"applies,omitempty"`
	// Measured is the value that is judged; the first input where it is not given.
	Measured *Expr `json:"measured,omitempty"`
	// Want is the value that is expected.
	Want *Expr `json:"want,omitempty"`
	// Variants replace Want and Pass where their When holds: the first that does.
	Variants []Variant `json:"variants,omitempty"`
	// Pass is whether the machine follows the rule: measured == want where it is
	// not given. Nearly is what is only worth a warning.
	Pass   *Expr `json:"pass,omitempty"`
	Nearly *Expr `json:"nearly,omitempty"`
	// Reminder marks guidance that no program can check: it is shown, and never
	// counts as passed.
	Reminder bool `json:"reminder,omitempty"`

	Why     string   `json:"why"`
	Sources []Source `json:"sources"`
	// DependsOn are rules whose failure explains this one's.
	DependsOn []string  `json:"depends_on,omitempty"`
	Fix       *Fix      `json:"fix,omitempty"`
	Examples  []Example `json:"examples,omitempty"`

	At Pos `json:"at"`
}

// Severity is how much it matters.
type Severity string

// The severities.
const (
	Fail Severity = "fail" // it breaks, loses data or wastes most of the machine
	Warn Severity = "warn" // it costs
)

// Binding gives an input a name in the expressions of one rule.
type Binding struct {
	Name  string `json:"name"`
	Input string `json:"input"`
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

// Fix is how a machine comes to follow the rule: a setting that fettle writes
// through its journal, or an entry of a file for somebody else's tool, or words.
type Fix struct {
	Setting  string `json:"setting,omitempty" yaml:"setting"`
	Artefact string `json:"artefact,omitempty" yaml:"artefact"`
	Entry    string `json:"entry,omitempty" yaml:"entry"`
	Value    *Expr  `json:"value,omitempty" yaml:"value"`
	Text     string `json:"text,omitempty" yaml:"text"`
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
