// Package setting reads, compares and writes single settings of a machine, such as sysctls,
// sysfs attributes and files. A setting is named KIND:NAME. Plug-ins and products add kinds.
// The tuning engine uses all of them.
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

// Setting names one setting: sysctl:vm.swappiness,
// sysfs:/sys/kernel/mm/ksm/run, file:/etc/modprobe.d/tuned.conf.
type Setting struct {
	Kind string // a key of Kinds
	Name string // the name within the kind
}

func (s Setting) String() string { return s.Kind + ":" + s.Name }

// MarshalText returns "kind:name".
func (s Setting) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses "kind:name".
func (s *Setting) UnmarshalText(b []byte) error {
	p, err := Parse(string(b))
	*s = p
	return err
}

// Parse parses "kind:name". Names below /proc/sys/ and bare names are sysctls,
// names below /sys/ are sysfs attributes, other absolute paths are files.
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

// Value is the value of a setting, as the kernel or the file has it.
type Value struct {
	Text   string
	Absent bool // the setting does not exist; Text is empty
	// Unknown reports whether the value could not be read. Text is then empty. Plans and
	// verdicts use it; the journal never does.
	Unknown bool
	Attr    *host.Attr // owner and mode, for whole files only
}

// Absent is the value of a setting that does not exist.
var Absent = Value{Absent: true}

// Unknown is the value of a setting that could not be read.
var Unknown = Value{Unknown: true}

// IsZero makes omitzero omit unknown values. In JSON, null means absent.
func (v Value) IsZero() bool { return v.Unknown }

// Text returns the value with a text.
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
	Base64 *string    `json:"base64,omitempty"` // if the bytes are not UTF-8
	Attr   *host.Attr `json:"attr,omitempty"`
}

// MarshalJSON writes null for an absent setting, a string for a plain value,
// and an object with all bytes for a file.
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
		// Most values in a journal are plain words. A second decoder for each would take a
		// tenth of the time for reading it.
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

// Lifetime is how long a written value lasts. It determines what remains to undo after a reboot.
type Lifetime string

// Lifetimes. Runtime and held values are lost at a reboot. The other values are in files; the
// name says when the file takes effect.
const (
	Runtime Lifetime = "runtime" // in the running kernel
	Held    Lifetime = "held"    // while a descriptor is open
	File    Lifetime = "file"    // in a file that is read immediately or each time
	Restart Lifetime = "restart" // in a file that a service reads when it starts
	Reboot  Lifetime = "reboot"  // in a file that takes effect at the next boot
)

// Lifetimes lists all lifetimes.
var Lifetimes = []Lifetime{Runtime, Held, File, Restart, Reboot}

// SurvivesBoot reports whether the value is stored in a file.
func (l Lifetime) SurvivesBoot() bool { return l != Runtime && l != Held }

// Kind reads and writes the settings of one kind.
type Kind interface {
	// Resolve returns the canonical name of a setting. Symbolic links, aliases and spellings
	// resolve to the same Setting. It returns an error for names outside the kind's roots. A
	// setting that does not exist resolves to its cleaned name.
	Resolve(Setting) (Setting, error)
	// Read returns Absent if the setting does not exist, and an error if it cannot be read.
	Read(context.Context, Setting) (Value, error)
	// Write writes the value once. Writing Absent removes the setting if the kind
	// supports that.
	Write(context.Context, Setting, Value) error
	// Equal reports whether the kernel treats two values as the same: "4096 87380" equals
	// "4096\t87380".
	Equal(a, b Value) bool
	// Coupled lists the other settings that a write to this setting changes, so that their
	// before-images are recorded.
	Coupled(Setting) []Setting
	Lifetime() Lifetime
}

// ErrUnsupported is wrapped by the error of a Write that is impossible on this machine, for
// example because the kernel manages the interrupt itself. It does not count as a failure.
var ErrUnsupported = errors.New("unsupported")

// ProgramWarning is returned by a Write that succeeded although its program reported a
// failure. The setting has the requested value. Nothing is retried or undone, and the text is
// shown as a warning.
type ProgramWarning struct{ Text string }

func (c *ProgramWarning) Error() string { return c.Text }

// Kinds maps the names of kinds to kinds. Higher layers pass more kinds.
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

// IsNameError reports whether an error of Resolve means that the name is invalid on any
// machine. It returns false for missing, unreadable and unreachable settings.
func IsNameError(err error) bool {
	var path *fs.PathError
	return err != nil && !errors.As(err, &path) && !host.NotFound(err) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrOutside)
}

// Resolve returns the canonical name of a setting.
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

// Read returns the value of a setting by its kind. It returns ErrUnknownKind for other kinds.
func (k Kinds) Read(ctx context.Context, s Setting) (Value, error) {
	kind, err := k.For(s)
	if err != nil {
		return Value{}, err
	}
	return kind.Read(ctx, s)
}

// Write writes a value by the setting's kind. It returns ErrUnknownKind for other kinds.
func (k Kinds) Write(ctx context.Context, s Setting, v Value) error {
	kind, err := k.For(s)
	if err != nil {
		return err
	}
	return kind.Write(ctx, s, v)
}

// Coupled returns the canonical names of the other settings that a write to s changes.
func (k Kinds) Coupled(s Setting) []Setting {
	kind, err := k.For(s)
	if err != nil {
		return nil
	}
	var out []Setting
	for _, c := range kind.Coupled(s) {
		if id, err := k.Resolve(c); err == nil && id != s {
			out = append(out, id)
		}
	}
	return out
}

// Kernel returns the kinds that the kernel and the file system provide.
func Kernel(h *host.Host) Kinds {
	return Kinds{
		"sysctl": sysctl{h},
		"sysfs":  sysfs{h},
		"file":   file{h},
		"dir":    dir{h},
	}
}

// Op relates a requested value to the current value (TuneD's assignment modifiers).
type Op string

// Modifiers: a plain value is set, ">N" only raises the value, "<N" only lowers it.
const (
	Set   Op = ""
	Raise Op = ">"
	Lower Op = "<"
)

// Change is a requested value of a setting, with its reason.
type Change struct {
	Setting Setting `json:"setting"`
	Want    Value   `json:"want"`
	Op      Op      `json:"op,omitempty"`
	Reason  Reason  `json:"reason"`
}

// Reason is the origin of a change: a line of a profile, or a rule.
type Reason struct {
	Profile string `json:"profile,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Text    string `json:"text,omitempty"` // the option as written, or an explanation
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

// absentOr returns Absent for fs.ErrNotExist. For any other error, such as an unrecorded file
// of a copy, it returns the error.
func absentOr(err error) (Value, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return Absent, nil
	}
	return Value{}, err
}

// JSONShape returns the JSON Schema of MarshalJSON's output.
func (Value) JSONShape() map[string]any {
	return map[string]any{"type": []string{"string", "object", "null"}}
}
