// methods is TuneD's interface com.redhat.tuned.control as a table: the
// name, arguments and answer of each method, who may call it, how its arguments
// are checked, and what it asks of the daemon. The bus and the socket serve it.

package daemon

import (
	"context"
	"fmt"
)

// Interface names the methods on the bus; an action of polkit is Namespace, a
// dot and the method's name (TuneD, com.redhat.tuned.policy).
const (
	Interface = "com.redhat.tuned.control"
	Namespace = "com.redhat.tuned"
	// Signal announces a finished switch: names, whether it went well, and the
	// error text.
	Signal = "profile_changed"
)

// Target is what the methods work on.
type Target struct {
	Control Control
	// AddSignalPath adds a unix socket to which signals are sent; nil where no
	// socket is served.
	AddSignalPath func(path string) bool
}

// Argument is one argument of a method: its name in TuneD, by which JSON-RPC
// may give it, and its D-Bus signature, which is i, s or a{ss}.
type Argument struct{ Name, Signature string }

// Access is who may call a method where no administrator has said otherwise:
// polkit's defaults for its action.
type Access int

const (
	// Everybody may call it.
	Everybody Access = iota
	// ActiveSession needs no password for the person at the machine's console;
	// everybody else becomes administrator first.
	ActiveSession
	// Administrator always needs an administrator's authentication.
	Administrator
	// RootOnly has no action of polkit's: TuneD defines none.
	RootOnly
)

// Method is one method.
type Method struct {
	Name string
	In   []Argument
	// Out is the signature of the one value that it answers; a Go value of that
	// signature is what Call and Denied return.
	Out    string
	Access Access
	// Denied is the answer to a caller without authority: TuneD answers with
	// nothing instead of an error.
	Denied any
	// refused answers a call with an argument that Valid refuses.
	refused func(argument string) any
	call    func(context.Context, Target, arguments) any
}

// arguments are a call's arguments in the order of Method.In: int32, string or
// map[string]string.
type arguments []any

func (a arguments) text(i int) string             { return a[i].(string) }
func (a arguments) number(i int) int              { return int(a[i].(int32)) }
func (a arguments) table(i int) map[string]string { return a[i].(map[string]string) }

// Find returns the method of a name.
func Find(name string) (Method, bool) {
	for _, m := range All {
		if m.Name == name {
			return m, true
		}
	}
	return Method{}, false
}

// Call calls the method with arguments as In describes them (int32, string,
// map[string]string) on behalf of a caller who has the authority. A value that
// is not of its argument's type is an error; one that TuneD's alphabet does not
// have is TuneD's answer.
func (m Method) Call(ctx context.Context, target Target, args ...any) (any, error) {
	if len(args) != len(m.In) {
		return nil, fmt.Errorf("%s takes %d arguments, not %d", m.Name, len(m.In), len(args))
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

// fits says whether a value is of the argument's type.
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
