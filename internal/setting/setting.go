// Package setting names the places of a machine that hold a value, and knows
// how the kernel's own kinds of place are found, read, written and compared.
package setting

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"fettle.dev/fettle/internal/host"
)

// Setting is one place that holds a value: sysctl:vm.swappiness,
// sysfs:/sys/kernel/mm/ksm/run, file:/etc/modprobe.d/tuned.conf.
type Setting struct {
	Kind string // a key of Kinds
	Name string // what the kind calls the place
}

func (s Setting) String() string { return s.Kind + ":" + s.Name }

// MarshalText makes a setting one word in JSON.
func (s Setting) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads "kind:name".
func (s *Setting) UnmarshalText(b []byte) error {
	p, err := Parse(string(b))
	*s = p
	return err
}

// Parse reads "kind:name". A bare name that begins with /sys/ is sysfs's, one
// below /proc/sys/ and any other name without a colon is a sysctl.
func Parse(text string) (Setting, error) {
	switch kind, name, found := strings.Cut(text, ":"); {
	case text == "":
		return Setting{}, errors.New("empty setting: want KIND:NAME, such as sysctl:vm.swappiness")
	case strings.HasPrefix(text, "/proc/sys/"):
		return Setting{"sysctl", strings.TrimPrefix(text, "/proc/sys/")}, nil
	case strings.HasPrefix(text, "/sys/"):
		return Setting{"sysfs", text}, nil
	case strings.HasPrefix(text, "/"):
		return Setting{"file", text}, nil
	case !found:
		return Setting{"sysctl", text}, nil
	case kind == "" || name == "":
		return Setting{}, fmt.Errorf("setting %q: want KIND:NAME, such as sysctl:vm.swappiness", text)
	default:
		return Setting{kind, name}, nil
	}
}

// Value is what a setting holds, as the kernel or the file has it.
type Value struct {
	Text   string
	Absent bool // the place does not exist; Text is empty
	// Unknown is set where nobody knows what the place holds: it could not be
	// read. Text is empty. It is for plans and verdicts, and never journalled.
	Unknown bool
	Attr    *host.Attr // owner and mode, for whole files only
}

// Absent is the value of a place that does not exist.
var Absent = Value{Absent: true}

// Unknown is the value of a place that could not be read.
var Unknown = Value{Unknown: true}

// IsZero makes omitzero leave an unknown value out: null is an absent one.
func (v Value) IsZero() bool { return v.Unknown }

// Text is a present value.
func Text(s string) Value { return Value{Text: s} }

func (v Value) String() string {
	switch {
	case v.Absent:
		return "(absent)"
	case v.Unknown:
		return "(unknown)"
	}
	return v.Text
}

type wireValue struct {
	Text   *string    `json:"text,omitempty"`
	Base64 *string    `json:"base64,omitempty"` // when the bytes are not UTF-8
	Attr   *host.Attr `json:"attr,omitempty"`
}

// MarshalJSON writes null for an absent place, a string for a plain value and
// an object for a file, so that no byte of it is lost.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.Absent || v.Unknown {
		return []byte("null"), nil
	}
	valid := utf8.ValidString(v.Text)
	if valid && v.Attr == nil {
		return json.Marshal(v.Text)
	}
	w := wireValue{Attr: v.Attr}
	if valid {
		w.Text = &v.Text
	} else {
		b := base64.StdEncoding.EncodeToString([]byte(v.Text))
		w.Base64 = &b
	}
	return json.Marshal(w)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (v *Value) UnmarshalJSON(b []byte) error {
	*v = Value{}
	if string(b) == "null" {
		v.Absent = true
		return nil
	}
	if len(b) > 1 && b[0] == '"' {
		// Nearly all of a journal's values are plain words, and a second
		// decoder for each takes a tenth of the time of reading it.
		if text := b[1 : len(b)-1]; !bytes.ContainsFunc(text, func(r rune) bool { return r == '\\' || r >= 0x80 }) {
			v.Text = string(text)
			return nil
		}
		return json.Unmarshal(b, &v.Text)
	}
	var w wireValue
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	v.Attr = w.Attr
	switch {
	case w.Text != nil:
		v.Text = *w.Text
	case w.Base64 != nil:
		raw, err := base64.StdEncoding.DecodeString(*w.Base64)
		if err != nil {
			return err
		}
		v.Text = string(raw)
	}
	return nil
}

// Lifetime says how long a written value lasts, which decides what a reboot
// leaves to undo.
type Lifetime string

// The lifetimes. Runtime and held values are gone after a reboot; the others
// are in files, and the word says when the file takes effect.
const (
	Runtime Lifetime = "runtime" // in the running kernel
	Held    Lifetime = "held"    // as long as a descriptor is open
	File    Lifetime = "file"    // in a file that is read at once or each time
	Restart Lifetime = "restart" // in a file that a service reads when it starts
	Reboot  Lifetime = "reboot"  // in a file that takes effect at the next boot
)

// Lifetimes are all of them.
var Lifetimes = []Lifetime{Runtime, Held, File, Restart, Reboot}

// SurvivesBoot is true for values in files.
func (l Lifetime) SurvivesBoot() bool { return l != Runtime && l != Held }

// Kind is one kind of place.
type Kind interface {
	// Resolve gives the one identity of a place: symbolic links, aliases and
	// spellings lead to the same Setting. It refuses names that lead out of
	// the kind's own roots. A place that does not exist resolves to its
	// cleaned name.
	Resolve(Setting) (Setting, error)
	// Read returns Absent where the place does not exist; an error means that
	// the value cannot be known.
	Read(context.Context, Setting) (Value, error)
	// Write puts the value there, once. Writing Absent removes the place where
	// the kind can do that.
	Write(context.Context, Setting, Value) error
	// Equal compares as the kernel prints: "4096 87380" and "4096\t87380" are
	// one value.
	Equal(a, b Value) bool
	// Coupled lists the places that a write to this one changes as well, so
	// that their before-images are kept too.
	Coupled(Setting) []Setting
	Lifetime() Lifetime
}

// ErrUnsupported is wrapped by a Write that only the try could show to be
// impossible here: the kernel manages the interrupt itself. It is no failure.
var ErrUnsupported = errors.New("unsupported")

// ProgramWarning is returned by a Write that has done what it was asked to through a
// program that reported a failure. The place reads as wanted, nothing is tried
// again or taken back, and a person is told the text.
type ProgramWarning struct{ Text string }

func (c *ProgramWarning) Error() string { return c.Text }

// Kinds is the table of kinds by name. Packages of higher layers add theirs by
// handing in a larger table.
type Kinds map[string]Kind

// ErrUnknownKind is returned for a setting whose kind is not in the table.
var ErrUnknownKind = errors.New("unknown kind of setting")

// For returns the kind of a setting.
func (k Kinds) For(s Setting) (Kind, error) {
	kind, ok := k[s.Kind]
	if !ok {
		return nil, fmt.Errorf("%s: %w %q", s, ErrUnknownKind, s.Kind)
	}
	return kind, nil
}

// IsNameError says whether an error of Resolve is of the name itself, which no machine has,
// and not of what this machine lacks, does not let be read, or is not to be reached.
func IsNameError(err error) bool {
	var path *fs.PathError
	return err != nil && !errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) &&
		!errors.Is(err, ErrOutside) && !errors.Is(err, host.ErrNotRecorded)
}

// Resolve gives the identity of a setting.
func (k Kinds) Resolve(s Setting) (Setting, error) {
	kind, err := k.For(s)
	if err != nil {
		return Setting{}, err
	}
	id, err := kind.Resolve(s)
	if err != nil {
		return Setting{}, err
	}
	for _, other := range k {
		if a, ok := other.(Aliaser); ok {
			if own, ok := a.Alias(id); ok {
				return own, nil
			}
		}
	}
	return id, nil
}

// Read reads a setting.
func (k Kinds) Read(ctx context.Context, s Setting) (Value, error) {
	kind, err := k.For(s)
	if err != nil {
		return Value{}, err
	}
	return kind.Read(ctx, s)
}

// Write writes a setting.
func (k Kinds) Write(ctx context.Context, s Setting, v Value) error {
	kind, err := k.For(s)
	if err != nil {
		return err
	}
	return kind.Write(ctx, s, v)
}

// Kernel is the table of the kinds that the kernel and the file system have.
func Kernel(h *host.Host) Kinds {
	return Kinds{
		"sysctl": sysctl{h},
		"sysfs":  sysfs{h},
		"file":   file{h},
		"dir":    dir{h},
	}
}

// Op says how a wanted value relates to the present one (TuneD's assignment
// modifiers).
type Op string

// The modifiers: a plain value is set, ">N" only raises, "<N" only lowers.
const (
	Set   Op = ""
	Raise Op = ">"
	Lower Op = "<"
)

// Change is a setting with the value wanted and the reason.
type Change struct {
	Setting Setting `json:"setting"`
	Want    Value   `json:"want"`
	Op      Op      `json:"op,omitempty"`
	Reason  Reason  `json:"reason"`
}

// Reason says who wants a change: a profile's line, or a rule.
type Reason struct {
	Profile string `json:"profile,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Text    string `json:"text,omitempty"` // the option as written, or why
	Rule    string `json:"rule,omitempty"`
}

func (r Reason) String() string {
	switch {
	case r.File != "" && r.Line > 0:
		return fmt.Sprintf("%s:%d", r.File, r.Line)
	case r.File != "":
		return r.File
	case r.Rule != "":
		return r.Rule
	}
	return r.Text
}

// absentOr turns "no such file" into Absent; a copy that does not hold the place
// does not know.
func absentOr(err error) (Value, error) {
	if host.Missing(err) {
		return Absent, nil
	}
	return Value{}, err
}

// JSONShape is the JSON Schema of what MarshalJSON writes.
func (Value) JSONShape() map[string]any {
	return map[string]any{"type": []string{"string", "object", "null"}}
}
