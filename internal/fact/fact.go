// Package fact reads a machine into facts: its hardware, kernel and configuration, each with
// its source. It never writes and never runs programs. Rules, recommendations, fingerprints
// and the verb facts use it.
package fact

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"
)

// Fact is one piece of information about a machine, in one of three states. It has a value; or
// it is absent, because the machine lacks it (cpufreq in a guest); or it is unknown for a
// reason, because it was not or could not be read. Absent and unknown facts have no value, not
// a zero value.
//
// In JSON a fact is its value or null. Facts writes the reasons next to the tree ("unknown",
// "source"), so that a path such as .cpu.sockets leads to the value.
type Fact[T any] struct {
	value *T
	note
}

// note holds a fact's source and state.
type note struct {
	source  string // path from which it was read
	absent  bool
	unknown string
	// more is why a list may be incomplete, or "".
	more string
}

// Get returns the value. ok is false if the fact is absent or unknown.
func (f Fact[T]) Get() (v T, ok bool) {
	if f.value == nil {
		var zero T
		return zero, false
	}
	return *f.value, true
}

// Or returns the value, or other if the fact is absent or unknown.
func (f Fact[T]) Or(other T) T {
	if f.value == nil {
		return other
	}
	return *f.value
}

// Is reports whether the fact has the value v.
func Is[T comparable](f Fact[T], v T) bool { return f.value != nil && *f.value == v }

// Absent reports whether the machine lacks the fact.
func (n note) Absent() bool { return n.absent }

// Unknown returns why the fact is unknown, or "".
func (n note) Unknown() string { return n.unknown }

// Source returns the path from which the fact was read.
func (n note) Source() string { return n.source }

// Known returns a fact with a value, for sizing without a machine and for tests.
func Known[T any](v T, source string) Fact[T] { return Fact[T]{&v, note{source: source}} }

// Absent returns an absent fact.
func Absent[T any](source string) Fact[T] {
	return Fact[T]{note: note{source: source, absent: true}}
}

// Unknown returns a fact that is unknown for the reason why.
func Unknown[T any](source, why string) Fact[T] {
	return Fact[T]{note: note{source: source, unknown: why}}
}

func (f Fact[T]) MarshalJSON() ([]byte, error) { return json.Marshal(f.value) }

func (f *Fact[T]) UnmarshalJSON(b []byte) error {
	f.note = note{}
	return json.Unmarshal(b, &f.value)
}

// JSONType returns the type of a known fact in JSON, for the JSON Schema generator.
func (Fact[T]) JSONType() reflect.Type { return reflect.TypeFor[T]() }

func (f *Fact[T]) leafNote() *note { return &f.note }

func (f *Fact[T]) empty() bool { return f.value == nil }

func (f *Fact[T]) leafValue() any {
	if f.value == nil {
		return nil
	}
	return *f.value
}

// Set holds items of one kind by name: disks, NUMA nodes. The set itself may be absent or
// unknown. A known empty set means that the machine has none.
type Set[T any] struct {
	items map[string]*T
	note
}

// Names returns the names in natural order (sda, sdb, sdaa; node2, node10).
func (s Set[T]) Names() []string { return sortedNames(s.items) }

// Get returns an item by name, or nil if it does not exist.
func (s Set[T]) Get(name string) *T { return s.items[name] }

// Len returns the number of items. ok is false if it is unknown.
func (s Set[T]) Len() (n int, ok bool) { return len(s.items), s.unknown == "" }

// add adds an empty item with the given name and returns it.
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
	var o object
	for _, name := range s.Names() {
		item, err := json.Marshal(s.items[name])
		if err != nil {
			return nil, err
		}
		o.put(name, item)
	}
	return o.end(), nil
}

func (s *Set[T]) UnmarshalJSON(b []byte) error {
	s.note = note{}
	return json.Unmarshal(b, &s.items)
}

// JSONType returns the type of a set in JSON: an object of items by name, or null.
func (Set[T]) JSONType() reflect.Type { return reflect.TypeFor[map[string]T]() }

func (s *Set[T]) leafNote() *note { return &s.note }

func (s *Set[T]) empty() bool { return s.items == nil }

func (s *Set[T]) each(f func(name string, item any)) {
	for _, name := range s.Names() {
		f(name, s.items[name])
	}
}

// object writes a JSON object in the order of its members. A map would be sorted by bytes: node10
// before node2.
type object struct{ bytes.Buffer }

func (o *object) put(key string, value []byte) {
	sep := byte(',')
	if o.Len() == 0 {
		sep = '{'
	}
	o.WriteByte(sep)
	k, _ := json.Marshal(key) //nolint:errchkjson // a string always has a form
	o.Write(k)
	o.WriteByte(':')
	o.Write(value)
}

func (o *object) end() []byte {
	if o.Len() == 0 {
		o.WriteByte('{')
	}
	o.WriteByte('}')
	return o.Bytes()
}

// Item is a fact with its name, as returned by Facts.List and Facts.Lookup.
type Item struct {
	// Name is the path in the JSON tree: "cpu.sockets", "disk.nvme0n1.scheduler". It contains
	// names of devices and mount points unchanged, including dots and slashes.
	Name string `json:"name"`
	// Value is a string, bool, int64, float64, []string, []int64 or map[string]string. It is
	// nil if absent or unknown.
	Value   any       `json:"value"`
	Absent  bool      `json:"absent,omitempty"`
	Unknown string    `json:"unknown,omitempty"`
	More    string    `json:"more,omitempty"` // why a list may be incomplete
	Source  string    `json:"source"`
	Time    time.Time `json:"time"`
}
