package rule

import (
	"cmp"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/unit"
)

// State is the result of a rule on a machine.
type State string

// The states of a finding. Unknown and reminder never count as passed.
const (
	Passed        State = "pass"
	Warned        State = "warn"
	Failed        State = "fail"
	NotApplicable State = "not-applicable"
	Unknown       State = "unknown"
	Reminded      State = "reminder"
)

// Beginnings of the reason for a rule disabled by the machine's administrator, or by a copied
// machine.
const (
	Disabled       = "disabled: "
	DisabledByCopy = "disabled by the copy's "
)

// IsDisabled reports whether the rule of a finding is disabled, and returns the reason.
func (f Finding) IsDisabled() (why string, yes bool) {
	if why, yes = strings.CutPrefix(f.Reason, Disabled); yes {
		return why, f.State == NotApplicable
	}
	return f.Reason, f.DisabledByCopy()
}

// DisabledByCopy reports whether the audited copy disabled the rule.
func (f Finding) DisabledByCopy() bool {
	return f.State == NotApplicable && strings.HasPrefix(f.Reason, DisabledByCopy)
}

// Change is the result of comparing a finding with an earlier audit.
type Change string

// States lists all states, the worst first.
var States = []State{Failed, Warned, Unknown, Passed, NotApplicable, Reminded}

// Finding is the result of a rule on a machine, or on one item of a set.
type Finding struct {
	Rule     *Rule  `json:"-"`
	ID       string `json:"id"`
	Title    string `json:"title"`
	Failed   string `json:"failed,omitempty"` // title of a finding that does not pass
	Harm     bool   `json:"harm,omitempty"`   // of the rule
	Instance string `json:"instance,omitempty"`
	State    State  `json:"state"`
	Measured any    `json:"measured,omitempty"`
	Want     any    `json:"want,omitempty"`
	Unit     string `json:"unit,omitempty"`
	// Compare is AtMost, LessThan or AtLeast if Want is a bound that Measured violates, else "".
	Compare Compare  `json:"compare,omitempty"`
	At      []string `json:"at,omitempty"` // sources of the inputs, the measured value's first
	// MeasuredAt lists the sources of the measured value. It is empty for a default that no file
	// sets.
	MeasuredAt []string `json:"measured_at,omitempty"`
	// WantAt is the source of the wanted value, if that is an input: a file that sets it.
	WantAt []string `json:"want_at,omitempty"`
	// Inputs are the inputs from programs, each with its origin.
	Inputs []ProgramInput `json:"inputs,omitempty"`
	// Reason is why the rule does not apply or the finding is unknown.
	Reason string `json:"reason,omitempty"`
	// Ask is the command that would determine an unknown finding. It is "" if the reason names
	// one, or if none exists.
	Ask string `json:"ask,omitempty"`
	Why string `json:"why"`
	// Because is the rule whose failure explains the failure of this one.
	Because string `json:"because,omitempty"`
	// Change is the comparison with an earlier audit, or "".
	Change  Change   `json:"change,omitempty"`
	Sources []Source `json:"sources"`
	// Fix is the fix. If another rule explains the finding, it is that rule's fix.
	Fix *Repair `json:"fix,omitempty"`
	// Own is the rule's own fix if another rule explains the finding. It is used if the user names
	// this rule, or if both fixes set the same value.
	Own *Repair `json:"-"`
}

// ProgramInput is an input of a program.
type ProgramInput struct {
	Name string `json:"name"`
	From string `json:"from"` // Running, Files or FromProgram
	At   string `json:"at,omitempty"`
}

// Repair is a fix with its values filled in.
type Repair struct {
	// Changes are settings that fettle writes through its journal.
	Changes []Entry `json:"changes,omitempty"`
	// Artefact is another program's file. Entries are its new entries; Command applies them.
	Artefact string  `json:"artefact,omitempty"`
	Entries  []Entry `json:"entries,omitempty"`
	Command  string  `json:"command,omitempty"`
	Text     string  `json:"text,omitempty"`
}

// Entry is a name and its new value.
type Entry struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// For is the rule whose value was used if several set the entry; "" for this rule.
	For string `json:"-"`
}

// NotDetermined precedes the title of an unknown finding, because the title describes a machine
// that follows the rule.
const NotDetermined = "not determined: "

// Heading returns the title for the state of the finding.
func (f Finding) Heading() string {
	switch f.State {
	case Warned, Failed, Reminded:
		return cmp.Or(f.Failed, f.Title)
	case Unknown:
		return NotDetermined + f.Title
	}
	return f.Title
}

// Compare is the comparison of a measured value with a wanted bound.
type Compare string

// The comparisons.
const (
	AtMost   Compare = "at most"
	LessThan Compare = "less than"
	AtLeast  Compare = "at least"
)

// compare returns how a wanted number bounds a measured one that fails, or "".
func compare(pass *Expr, measured, want any) Compare {
	have, ok := measured.(float64)
	bound, both := want.(float64)
	switch {
	case !ok || !both:
	case pass == nil:
		if bound == 0 && have > 0 { // events that must not occur
			return AtMost
		}
	case have < bound && strings.Contains(pass.Text, "measured >="):
		return AtLeast
	case have > bound && strings.Contains(pass.Text, "measured <= want"):
		return AtMost
	case have >= bound && strings.Contains(pass.Text, "measured < want"):
		return LessThan
	}
	return ""
}

// Print formats a value for programs and commands: a number with all its digits, without an
// exponent and without commas.
func Print(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return unit.Exact(v)
	case []string:
		return strings.Join(v, ", ")
	}
	return fmt.Sprint(v)
}
