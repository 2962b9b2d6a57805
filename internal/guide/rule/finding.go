package rule

import (
	"fmt"
	"strconv"
	"strings"
)

// State is what a rule says of a machine.
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

// What the reason of a finding begins with whose rule somebody does not want: the
// machine's administrator, or whoever has made a copy what it is.
const (
	Disabled       = "disabled: "
	DisabledByCopy = "disabled by the copy's "
)

// IsDisabled is true of a finding whose rule was not asked, because somebody does
// not want it; why is the reason.
func (f Finding) IsDisabled() (why string, yes bool) {
	if why, yes = strings.CutPrefix(f.Reason, Disabled); yes {
		return why, f.State == NotApplicable
	}
	return f.Reason, f.DisabledByCopy()
}

// DisabledByCopy is true where that is the copy that is audited.
func (f Finding) DisabledByCopy() bool {
	return f.State == NotApplicable && strings.HasPrefix(f.Reason, DisabledByCopy)
}

// Change is how a finding stands to the same of an earlier audit.
type Change string

// States are all of them, the worst first.
var States = []State{Failed, Warned, Unknown, Passed, NotApplicable, Reminded}

// Finding is the answer of one rule on one machine, or on one of the things it
// has several of.
type Finding struct {
	Rule     *Rule    `json:"-"`
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Instance string   `json:"instance,omitempty"`
	State    State    `json:"state"`
	Measured any      `json:"measured,omitempty"`
	Want     any      `json:"want,omitempty"`
	Unit     string   `json:"unit,omitempty"`
	At       []string `json:"at,omitempty"` // where the inputs were read
	// Inputs are those that are about a program: each with whether it runs so, or will.
	Inputs []ProgramInput `json:"inputs,omitempty"`
	// Reason says why it is not applicable or unknown.
	Reason string `json:"reason,omitempty"`
	// Ask is the command that makes it known where it is unknown; "" where the reason has
	// one, or where nothing that fettle could run would know more.
	Ask string `json:"ask,omitempty"`
	Why string `json:"why"`
	// Because is the rule whose failure explains this one's.
	Because string `json:"because,omitempty"`
	// Change is how it stands to an earlier audit, where it was compared with one.
	Change  Change   `json:"change,omitempty"`
	Sources []Source `json:"sources"`
	// Fix is how it is mended: where another rule explains it, as that one is.
	Fix *Repair `json:"fix,omitempty"`
	// Own is the rule's own fix where another one explains it: what is written if
	// somebody asks for this rule by its id, or where both set the same.
	Own *Repair `json:"-"`
}

// ProgramInput is an input that is about a program.
type ProgramInput struct {
	Name string `json:"name"`
	From string `json:"from"` // Running, Files or FromProgram
	At   string `json:"at,omitempty"`
}

// Repair is a fix with its values filled in.
type Repair struct {
	// Changes are settings that fettle writes through its journal.
	Changes []Entry `json:"changes,omitempty"`
	// Artefact is a file for somebody else's tool, with the entries that it is to
	// have, and Command what applies it.
	Artefact string  `json:"artefact,omitempty"`
	Entries  []Entry `json:"entries,omitempty"`
	Command  string  `json:"command,omitempty"`
	Text     string  `json:"text,omitempty"`
}

// Entry is a name and the value that it is to have.
type Entry struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// For is the rule whose value is taken, where several want another one; "" for
	// the one that has the entry.
	For string `json:"-"`
}

// Print is a value for a person: sizes in binary units, numbers without an
// exponent.
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
