package rule

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
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

// The beginning of the reason if a rule is disabled, by the machine's administrator or in the
// copy of a machine.
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
	Failed   string `json:"failed,omitempty"` // the title if it does not pass
	Harm     bool   `json:"harm,omitempty"`   // of the rule
	Instance string `json:"instance,omitempty"`
	State    State  `json:"state"`
	Measured any    `json:"measured,omitempty"`
	Want     any    `json:"want,omitempty"`
	Unit     string `json:"unit,omitempty"`
	// Compare is AtMost, LessThan or AtLeast if Want is a bound that Measured violates.
	Compare Compare  `json:"compare,omitempty"`
	At      []string `json:"at,omitempty"` // the sources of the inputs, those of the measured value first
	// MeasuredAt are the sources of the measured value; empty for a default that no file has.
	MeasuredAt []string `json:"measured_at,omitempty"`
	// WantAt is the source of the wanted value where that is an input: a file that sets it.
	WantAt []string `json:"want_at,omitempty"`
	// Inputs are the inputs from programs, each with its origin: running program or files.
	Inputs []ProgramInput `json:"inputs,omitempty"`
	// Reason is the reason that it is not applicable or unknown.
	Reason string `json:"reason,omitempty"`
	// Ask is the command that would determine an unknown finding; "" if the reason names one,
	// or if none exists.
	Ask string `json:"ask,omitempty"`
	Why string `json:"why"`
	// Because is the rule whose failure explains the failure of this one.
	Because string `json:"because,omitempty"`
	// Change compares the finding with an earlier audit, if any.
	Change  Change   `json:"change,omitempty"`
	Sources []Source `json:"sources"`
	// Fix is the fix. If another rule explains the finding, it is the fix of the other rule.
	Fix *Repair `json:"fix,omitempty"`
	// Own is the rule's own fix if another rule explains the finding. It is used if the user
	// names this rule, or if both fixes set the same.
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
	// Artefact is a file of another program, Entries its new entries, and Command applies
	// it.
	Artefact string  `json:"artefact,omitempty"`
	Entries  []Entry `json:"entries,omitempty"`
	Command  string  `json:"command,omitempty"`
	Text     string  `json:"text,omitempty"`
}

// Entry is a name and its new value.
type Entry struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// For is the rule whose value was chosen if several set it; "" for the rule itself.
	For string `json:"-"`
}

// NotDetermined precedes the title of an unknown finding, which claims that the rule is followed.
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

// Compare is how a wanted value bounds a measured one.
type Compare string

// The comparisons.
const (
	AtMost   Compare = "at most"
	LessThan Compare = "less than"
	AtLeast  Compare = "at least"
)

// compare returns how a wanted number bounds a measured one that does not pass, or "".
func compare(pass *Expr, measured, want any) Compare {
	have, ok := measured.(float64)
	bound, both := want.(float64)
	if pass == nil || !ok || !both {
		return ""
	}
	switch {
	case have < bound && strings.Contains(pass.Text, "measured >="):
		return AtLeast
	case have > bound && strings.Contains(pass.Text, "measured <= want"):
		return AtMost
	case have >= bound && strings.Contains(pass.Text, "measured < want"):
		return LessThan
	}
	return ""
}

// Print formats a value for users: sizes in binary units, numbers without exponent.
func Print(v any, unit string) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		if unit == "bytes" {
			return printBytes(v)
		}
		return strings.TrimSpace(strconv.FormatFloat(v, 'f', -1, 64) + " " + unit)
	case []string:
		return strings.Join(v, ", ")
	}
	return fmt.Sprint(v)
}

func printBytes(v float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if v >= u.size || v <= -u.size {
			return strconv.FormatFloat(float64(int64(v/u.size*100+0.5))/100, 'f', -1, 64) + " " + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + " bytes"
}
