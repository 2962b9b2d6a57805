package fact

import (
	"math"
	"reflect"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Type is the type of a rule input.
type Type string

// The types. Numbers are float64; sizes in bytes and times in seconds are exact
// up to 2^53.
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
	// Name is, for example, "memory.total_bytes". A "*" stands for the item of a
	// set that the rule iterates over: "disk.*.scheduler".
	Name string `json:"name"`
	Type Type   `json:"type"`
	// Unit is the unit of a number: "bytes", "s" or "%", and "" for a count.
	Unit string `json:"unit,omitempty"`
	Doc  string `json:"doc,omitempty"`
}

// Of returns the set whose items have this input, such as "disk". It returns "" for an input of
// the machine.
func (in Input) Of() string {
	of, _, ok := strings.Cut(in.Name, ".*.")
	if !ok {
		return ""
	}
	return of
}

// Answer is the machine's value for an input, which may also be absent or unknown.
type Answer struct {
	// Value is a float64, string, bool, []string or map[string]string. It is nil if absent or
	// unknown.
	Value any
	// At is the location that the value was read from: FILE:LINE, a path, a command.
	At string
	// From is set for a value of a program. It tells the value in use from the one after the
	// next start: Running, Files or a result of FromProgram.
	From string
	// Unknown is the reason that the value is unknown, or "".
	Unknown string
	// LowerBound is the reason that Value (a number) may be higher, or a list longer, because
	// not everything was counted. A rule that a higher value would violate is then not passed.
	LowerBound string
}

// Unread returns the answer for a location that could not be read. It is unknown for the reason
// of err, or absent if the machine has no such location (host.Why).
func Unread(at string, err error) Answer { return Answer{Unknown: host.Why(at, err), At: at} }

// Values of From, in addition to those of FromProgram.
const (
	Running = "running"
	Files   = "files (from the next start)"
)

// FromProgram returns the From of a value that a program itself read from its files on request
// (check --probe).
func FromProgram(program string) string { return "files, as " + program + " reads them" }

// MachineTree answers rule inputs for a real, recorded or hypothetical machine.
type MachineTree interface {
	// Answer returns the value of an input, with "*" replaced by the item.
	Answer(input string) Answer
	// Read returns the value of a setting, converted to a type.
	Read(setting string, as Type) Answer
	// Items lists the items of a set. unknown is the reason that they cannot be listed, or "".
	Items(set string) (names []string, unknown string)
}

// Zero returns a zero value of the type, for checking expressions.
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

// Plain converts a value to the Go type of one of the types; ok is false if
// that is impossible.
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

// Finite reports whether v is not NaN or infinite, as after a division by zero.
func Finite(v any) bool {
	f, ok := v.(float64)
	return !ok || !math.IsNaN(f) && !math.IsInf(f, 0)
}
