package fact

import (
	"math"
	"reflect"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// Type is the type of an input.
type Type string

// The types of inputs. A number is a float64: sizes in bytes and times in
// seconds are exact up to 2^53.
const (
	Number Type = "number"
	Text   Type = "text"
	Truth  Type = "truth"
	List   Type = "list" // of text
	Map    Type = "map"  // of text by name
	// Bytes is a size as text ("8MB", "512kB"), read as a number of bytes.
	Bytes Type = "bytes"
)

// Input is one thing that rules may ask of a machine.
type Input struct {
	// Name is "memory.total_bytes". A "*" stands for the item of a set that the
	// rule is bound to by each: "disk.*.scheduler".
	Name string `json:"name"`
	Type Type   `json:"type"`
	// Unit is that of a number: "bytes", "s", "%"; "" for a count.
	Unit string `json:"unit,omitempty"`
	Doc  string `json:"doc,omitempty"`
}

// Of is the set that a machine has several of and each has this input: "disk";
// "" for an input of the machine.
func (in Input) Of() string {
	of, _, ok := strings.Cut(in.Name, ".*.")
	if !ok {
		return ""
	}
	return of
}

// Answer is what a machine says to an input: it has a value, or has no such
// thing, or nobody knows.
type Answer struct {
	// Value is a float64, string, bool, []string or map[string]string; nil where
	// the thing is absent or unknown.
	Value any
	// At is where it was read: FILE:LINE, a path, a command.
	At string
	// From is, for an answer about a program, whether it runs with the value or will after
	// its next start: Running, Files or FromProgram; "" for everything else.
	From string
	// Unknown says why nothing is known; "" where something is.
	Unknown string
	// LowerBound says why Value, a number, may be higher, or a list longer: not all was
	// counted. A finding that more would turn bad is not passed.
	LowerBound string
}

// Unread is the answer of what could not be read at a place: unknown for the reason that
// err has, or absent where the machine has no such thing (host.Why).
func Unread(at string, err error) Answer { return Answer{Unknown: host.Why(at, err), At: at} }

// The values of From.
const (
	Running = "running"
	Files   = "files (from the next start)"
)

// FromProgram is the From of a value that a program itself has read from its files when it was
// asked (check --probe).
func FromProgram(program string) string { return "files, as " + program + " reads them" }

// MachineTree answers for a machine: one that is there, one that is recorded, or one
// that is only thought of.
type MachineTree interface {
	// Answer is the answer to an input, a "*" replaced by the item.
	Answer(input string) Answer
	// Read is the answer to a setting, read as a type.
	Read(setting string, as Type) Answer
	// Items lists a set. unknown says why it cannot be listed.
	Items(set string) (names []string, unknown string)
}

// Zero is a value of the type, to check expressions with.
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

// Has is true for a value of the type.
func (t Type) Has(v any) bool { return reflect.TypeOf(v) == reflect.TypeOf(t.Zero()) }

// Plain brings a value to one of the types' Go types.
func Plain(v any) (any, bool) {
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

// Finite is false for what no machine has: the result of a division by zero.
func Finite(v any) bool {
	f, ok := v.(float64)
	return !ok || !math.IsNaN(f) && !math.IsInf(f, 0)
}
