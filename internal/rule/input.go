package rule

import (
	"math"
	"reflect"
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
)

// Input is one thing that rules may ask of a machine.
type Input struct {
	Name string `json:"name"` // such as "puma.workers"
	Type Type   `json:"type"`
	// Unit is that of a number: "bytes", "s", "%"; "" for a count.
	Unit string `json:"unit,omitempty"`
	// Of is what the machine has several of and each has this input: "disk",
	// "unit", "process"; "" for an input of the machine.
	Of  string `json:"of,omitempty"`
	Doc string `json:"doc"`
}

// Answer is what a machine says to an input: it has a value, or has no such
// thing, or nobody knows.
type Answer struct {
	// Value is a float64, string, bool or []string; nil where the thing is
	// absent or unknown.
	Value any
	// At is where it was read: FILE:LINE, a path, a command.
	At string
	// Unknown says why nothing is known; "" where something is.
	Unknown string
}

// Machine answers for a whole machine, or for one of the things it has several
// of.
type Machine interface {
	// Answer is for inputs of the machine, and of the instance.
	Answer(input string) Answer
	// Instances lists the disks, units, processes, ... of a machine. unknown
	// says why they cannot be listed.
	Instances(of string) (all []Instance, unknown string)
}

// Instance is one of several: its name and its answers.
type Instance struct {
	Name string
	Machine
}

// zero is a value of the type, to check expressions with.
func (t Type) zero() any {
	switch t {
	case Number:
		return 0.0
	case Truth:
		return false
	case List:
		return []string{}
	}
	return ""
}

// has is true for a value of the type.
func (t Type) has(v any) bool { return reflect.TypeOf(v) == reflect.TypeOf(t.zero()) }

// plain brings a value to one of the types' Go types.
func plain(v any) (any, bool) {
	switch v := v.(type) {
	case float64, string, bool, []string:
		return v, true
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
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

// finite is false for what no machine has: the result of a division by zero.
func finite(v any) bool {
	f, ok := v.(float64)
	return !ok || !math.IsNaN(f) && !math.IsInf(f, 0)
}
