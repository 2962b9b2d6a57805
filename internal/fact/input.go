package fact

import (
	"math"
	"reflect"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Type is the type of a rule input.
type Type string

// Types. Numbers are float64; sizes in bytes and times in seconds are exact up to 2^53.
const (
	Number Type = "number"
	Text   Type = "text"
	Truth  Type = "truth"
	List   Type = "list" // of strings
	Map    Type = "map"  // of strings by name
	// Bytes is a size written as text ("8MB", "512kB") and read as a number of bytes.
	Bytes Type = "bytes"
)

// Input is a value of a machine that rules may read.
type Input struct {
	// Name is a name such as "memory.total_bytes". A "*" stands for an item of the set over
	// which the rule iterates: "disk.*.scheduler".
	Name string `json:"name"`
	Type Type   `json:"type"`
	// Unit is the unit of a number: "bytes", "s" or "%", and "" for a count.
	Unit string `json:"unit,omitempty"`
	Doc  string `json:"doc,omitempty"`
}

// Of returns the set whose items have this input, such as "disk", or "" for an input of the whole
// machine.
func (in Input) Of() string {
	of, _, ok := strings.Cut(in.Name, ".*.")
	if !ok {
		return ""
	}
	return of
}

// Answer is the machine's value for an input, or the reason that it has none.
type Answer struct {
	// Value is a float64, string, bool, []string or map[string]string, or nil if absent or
	// unknown.
	Value any
	// At is the source of the value: FILE:LINE, a path, a command.
	At string
	// From is set for a program's value. It says whether the value is in use or applies after
	// the next start: Running, Files or a result of FromProgram.
	From string
	// Unknown is why the value is unknown, or "".
	Unknown string
	// LowerBound is why Value may be too low (a number) or incomplete (a list), because not
	// everything was counted. A rule that a higher value would violate then does not pass.
	LowerBound string
}

// Unread returns the answer for a location whose reading returned err. It is unknown for the
// reason of err, or absent if the machine lacks the location (host.Why).
func Unread(at string, err error) Answer { return Answer{Unknown: host.Why(at, err), At: at} }

// Values of From, in addition to those of FromProgram.
const (
	Running = "running"
	Files   = "the file; the running process was not read"
)

// FromProgram returns the value of From for a value that a program read from its files on
// request (check --probe).
func FromProgram(program string) string { return "files, as " + program + " reads them" }

// MachineTree provides the inputs of rules for a real, recorded or hypothetical machine.
type MachineTree interface {
	// Answer returns the value of an input, with "*" replaced by the item.
	Answer(input string) Answer
	// Read returns the value of a setting, converted to the type as.
	Read(setting string, as Type) Answer
	// Items lists the items of a set. unknown is why they cannot be listed, or "".
	Items(set string) (names []string, unknown string)
}

// Zero returns the zero value of the type, for checking expressions.
func (t Type) Zero() any {
	switch t {
	case Number, Bytes:
		return 0.0
	case Truth:
		return false
	case List:
		return []string{}
	case Map:
		return map[string]string{}
	case Text:
		return ""
	}
	return nil
}

// Has reports whether v has the type.
func (t Type) Has(v any) bool { return reflect.TypeOf(v) == reflect.TypeOf(t.Zero()) }

// Plain converts a value to the Go type of an input type. ok is false if that is impossible.
func Plain(v any) (plain any, ok bool) {
	switch v := v.(type) {
	case float64, string, bool, []string, map[string]string:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case map[string]any:
		out := make(map[string]string, len(v))
		for k, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			out[k] = s
		}
		return out, true
	case []any:
		out := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			out[i] = s
		}
		return out, true
	}
	return nil, v == nil
}

// Finite reports whether v is neither NaN nor infinite, the results of a division by zero.
func Finite(v any) bool {
	f, ok := v.(float64)
	return !ok || !math.IsNaN(f) && !math.IsInf(f, 0)
}
