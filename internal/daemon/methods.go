// This file lists the methods of TuneD's interface com.redhat.tuned.control as a table: name,
// arguments, result, allowed callers, argument checks, and the call of the daemon. The bus and the
// socket serve them.

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	internaltext "fettle.dev/fettle/internal/text"
)

// Interface is the interface's name on the bus. A method's polkit action is Namespace, a dot and
// the method's name (TuneD, com.redhat.tuned.policy).
const (
	Interface = "com.redhat.tuned.control"
	Namespace = "com.redhat.tuned"
	// Signal announces a finished switch, with the profiles, success or failure, and the error
	// text.
	Signal = "profile_changed"
)

// Target holds the objects that the methods act on.
type Target struct {
	Control Control
	// AddSignalPath adds a unix socket that receives signals; nil if no socket is served.
	AddSignalPath func(path string) bool
}

// Argument is one argument of a method. Name is TuneD's and also usable in JSON-RPC. Signature is
// the D-Bus signature: i, s or a{ss}.
type Argument struct{ Name, Signature string }

// Access defines who may call a method by default (polkit's defaults for its action). The
// administrator can change it.
type Access int

const (
	// Everybody allows all callers.
	Everybody Access = iota
	// ActiveSession lets the user at the console call without a password; other users authenticate
	// as administrator.
	ActiveSession
	// Administrator requires authentication as administrator.
	Administrator
	// RootOnly allows only root; TuneD defines no polkit action for these methods.
	RootOnly
)

// Method is a method of TuneD's interface.
type Method struct {
	Name string
	In   []Argument
	// Out is the D-Bus signature of the result. Call and Denied return a Go value with that
	// signature.
	Out    string
	Access Access
	// Denied is the result for an unauthorized caller: TuneD returns an empty result instead of an
	// error.
	Denied any
	// refused returns the result for an argument that Valid rejects.
	refused func(argument string) any
	call    func(context.Context, Target, arguments) any
}

// arguments are a call's arguments in the order of Method.In, each int32, string or
// map[string]string.
type arguments []any

func (a arguments) text(i int) string             { return a[i].(string) }
func (a arguments) number(i int) int              { return int(a[i].(int32)) }
func (a arguments) table(i int) map[string]string { return a[i].(map[string]string) }

// Find returns the method with that name.
func Find(name string) (Method, bool) {
	for _, m := range All {
		if m.Name == name {
			return m, true
		}
	}
	return Method{}, false
}

// Call calls the method for an authorized caller. args are as In describes them (int32, string,
// map[string]string). A value of the wrong type is an error. A string that Valid rejects gives
// TuneD's result.
func (m Method) Call(ctx context.Context, target Target, args ...any) (any, error) {
	if len(args) != len(m.In) {
		return nil, internaltext.Errorf("%s takes %s, not %d", m.Name, internaltext.Count(len(m.In), "argument"), len(args))
	}
	for i, in := range m.In {
		if !in.fits(args[i]) {
			return nil, fmt.Errorf("%s: argument %s is not of type %s", m.Name, in.Name, in.Signature)
		}
		if m.refused != nil && !validArgument(args[i]) {
			return m.refused(in.Name), nil
		}
	}
	return m.call(ctx, target, args), nil
}

// fits reports whether a value has the argument's type.
func (a Argument) fits(v any) bool {
	switch v.(type) {
	case int32:
		return a.Signature == "i"
	case string:
		return a.Signature == "s"
	case map[string]string:
		return a.Signature == "a{ss}"
	}
	return false
}

func validArgument(v any) bool {
	switch v := v.(type) {
	case string:
		return Valid(v)
	case map[string]string:
		for key, value := range v {
			if !Valid(key) || !Valid(value) {
				return false
			}
		}
	}
	return true
}

// Structures that methods return. On the bus a structure's fields are its members in order; in
// JSON it is an array, as Python writes a tuple.

// Reply is (bs): whether the call succeeded, and "OK" or the reason.
type Reply struct {
	OK      bool
	Message string
}

// Mode is (ss): "auto" or "manual", and an error text.
type Mode struct{ Mode, Failure string }

// MethodInfo is (bsss): whether the profile exists, name, summary and description.
type MethodInfo struct {
	OK                         bool
	Name, Summary, Description string
}

// Pair is (ss): a profile and its summary, or an instance and its plug-in.
type Pair struct{ Name, Value string }

// Instances is (bsa(ss)).
type Instances struct {
	OK        bool
	Message   string
	Instances []Pair
}

// Devices is (bsas).
type Devices struct {
	OK      bool
	Message string
	Devices []string
}

func (r Reply) MarshalJSON() ([]byte, error) { return tuple(r.OK, r.Message) }
func (m Mode) MarshalJSON() ([]byte, error)  { return tuple(m.Mode, m.Failure) }
func (i MethodInfo) MarshalJSON() ([]byte, error) {
	return tuple(i.OK, i.Name, i.Summary, i.Description)
}
func (p Pair) MarshalJSON() ([]byte, error) { return tuple(p.Name, p.Value) }
func (i Instances) MarshalJSON() ([]byte, error) {
	return tuple(i.OK, i.Message, i.Instances)
}
func (d Devices) MarshalJSON() ([]byte, error) { return tuple(d.OK, d.Message, d.Devices) }

// tuple is json.Marshal without escapes for HTML, as in Python.
func tuple(members ...any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(members)
	return bytes.TrimSpace(b.Bytes()), err
}

// maxLength is the maximum length of a string argument in bytes; alphabet lists its allowed
// characters. They are TuneD's since 2.24.1 (tuned/consts.py NAMES_MAX_LENGTH and
// NAMES_ALLOWED_CHARS). They fix CVE-2024-52336 and CVE-2024-52337: no control bytes in names that
// end in a log or a command.
const (
	maxLength = 4096
	alphabet  = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" +
		" !@'+-.,/:;_$&*()%<=>?#[]{|}^~\""
)

// Valid reports whether a string argument is acceptable; "" is.
func Valid(s string) bool {
	if len(s) > maxLength {
		return false
	}
	for i := range len(s) {
		if strings.IndexByte(alphabet, s[i]) < 0 {
			return false
		}
	}
	return true
}

// methodsText replaces NUL and invalid UTF-8: the bus disconnects a sender of either, and profiles
// may contain any bytes.
func methodsText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

func texts(list []string) []string {
	clean := make([]string, 0, len(list))
	for _, s := range list {
		clean = append(clean, methodsText(s))
	}
	return clean
}

func methodsTable(m map[string]string) map[string]string {
	clean := make(map[string]string, len(m))
	for key, value := range m {
		clean[methodsText(key)] = methodsText(value)
	}
	return clean
}

func pairs(list [][2]string) []Pair {
	clean := make([]Pair, 0, len(list))
	for _, p := range list {
		clean = append(clean, Pair{methodsText(p[0]), methodsText(p[1])})
	}
	return clean
}
