// Package fact reads a machine into facts: what it is and how it is set up,
// each with its source. It never writes and never runs a program.
package fact

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// Fact is one thing read from a machine. It is in one of three states: it has a
// value; it is absent (the machine has no such thing: no cpufreq in a guest); or
// it is unknown (nobody could or did read it), with the reason. Absent and
// unknown have no value, never a zero.
//
// In JSON a fact is its bare value or null; Facts writes the reasons beside the
// tree ("unknown", "source"), so that a path such as .cpu.sockets is the value.
type Fact[T any] struct {
	value *T
	note
}

// note is what a fact says beside its value.
type note struct {
	source  string // the path it was read from
	absent  bool
	unknown string
	// more says why a list that has a value may lack some.
	more string
}

// Get returns the value, and whether there is one.
func (f Fact[T]) Get() (T, bool) {
	if f.value == nil {
		var zero T
		return zero, false
	}
	return *f.value, true
}

// Or returns the value, or other where there is none.
func (f Fact[T]) Or(other T) T {
	if f.value == nil {
		return other
	}
	return *f.value
}

// Is says that the fact has a value and that it is v.
func Is[T comparable](f Fact[T], v T) bool { return f.value != nil && *f.value == v }

// Absent says that the machine has no such thing.
func (n note) Absent() bool { return n.absent }

// Unknown returns why nothing is known, "" where something is.
func (n note) Unknown() string { return n.unknown }

// Source returns the path that the fact was read from.
func (n note) Source() string { return n.source }

// Known makes a fact with a value: for sizing, which has no machine to read,
// and for tests.
func Known[T any](v T, source string) Fact[T] { return Fact[T]{&v, note{source: source}} }

// Absent makes a fact about what the machine does not have.
func Absent[T any](source string) Fact[T] {
	return Fact[T]{note: note{source: source, absent: true}}
}

// Unknown makes a fact that nobody knows.
func Unknown[T any](source, why string) Fact[T] {
	return Fact[T]{note: note{source: source, unknown: why}}
}

func (f Fact[T]) MarshalJSON() ([]byte, error) { return json.Marshal(f.value) }

func (f *Fact[T]) UnmarshalJSON(b []byte) error {
	f.note = note{}
	return json.Unmarshal(b, &f.value)
}

// JSONType is the type that stands in JSON for a fact, or null: for the
// generator of the JSON Schema.
func (Fact[T]) JSONType() reflect.Type { return reflect.TypeFor[T]() }

func (f *Fact[T]) leafNote() *note { return &f.note }

func (f *Fact[T]) empty() bool { return f.value == nil }

func (f *Fact[T]) leafValue() any {
	if f.value == nil {
		return nil
	}
	return *f.value
}

// Set is things of one kind by name: disks, NUMA nodes. The set itself can be
// absent or unknown; an empty set that is known says that there are none.
type Set[T any] struct {
	items map[string]*T
	note
}

// Names returns the names in natural order (sda, sdb, sdaa; node2, node10).
func (s Set[T]) Names() []string { return sortedNames(s.items) }

// Get returns one by its name, nil if there is none.
func (s Set[T]) Get(name string) *T { return s.items[name] }

// Len returns how many there are; ok is false where that is not known.
func (s Set[T]) Len() (n int, ok bool) { return len(s.items), s.unknown == "" }

// add makes the item of a name.
func (s *Set[T]) add(name string) *T {
	if s.items == nil {
		s.items = map[string]*T{}
	}
	item := new(T)
	s.items[name] = item
	return item
}

func (s Set[T]) MarshalJSON() ([]byte, error) {
	if s.absent || s.unknown != "" {
		return []byte("null"), nil
	}
	var b bytes.Buffer // a map would be in the order of bytes: node10 before node2
	b.WriteByte('{')
	for i, name := range s.Names() {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		item, err := json.Marshal(s.items[name])
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(item)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (s *Set[T]) UnmarshalJSON(b []byte) error {
	s.note = note{}
	return json.Unmarshal(b, &s.items)
}

// JSONType is the type of one item: in JSON a set is an object of them by name,
// or null.
func (Set[T]) JSONType() reflect.Type { return reflect.TypeFor[map[string]T]() }

func (s *Set[T]) leafNote() *note { return &s.note }

func (s *Set[T]) empty() bool { return s.items == nil }

func (s *Set[T]) each(f func(name string, item any)) {
	for _, name := range s.Names() {
		f(name, s.items[name])
	}
}

// Item is one fact with its name: what Facts.List and Facts.Lookup give.
type Item struct {
	// Name is the path in the JSON tree with dots: "cpu.sockets",
	// "disk.nvme0n1.scheduler". Names of devices and mount points stand in it
	// as they are, dots and slashes included.
	Name string `json:"name"`
	// Value is a string, bool, int64, float64, []string, []int64 or
	// map[string]string; nil where absent or unknown.
	Value   any       `json:"value"`
	Absent  bool      `json:"absent,omitempty"`
	Unknown string    `json:"unknown,omitempty"`
	More    string    `json:"more,omitempty"` // why a list may lack some
	Source  string    `json:"source"`
	Time    time.Time `json:"time"`
}
