package bus

import (
	"context"
	"encoding/xml"
	"log/slog"
	"strings"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"

	"fettle.dev/fettle/internal/daemon"
)

// The standard interfaces of every object.
const (
	introspectable = "org.freedesktop.DBus.Introspectable"
	peer           = "org.freedesktop.DBus.Peer"
)

// routePeer removes the interface from calls to Peer. The library would answer them itself, with
// the bus's identity instead of the machine's. A call without an interface goes to the object,
// which finds the method by name.
func routePeer(m *dbus.Message) {
	if m.Type == dbus.TypeMethodCall && m.Headers[dbus.FieldInterface].Value() == peer {
		delete(m.Headers, dbus.FieldInterface)
	}
}

// handler finds the object for a call.
type handler struct {
	target    daemon.Target
	authority authority
	machineID string
	ctx       context.Context
	log       *slog.Logger
}

// LookupObject and LookupInterface never fail: an object without methods answers UnknownMethod, as
// in libdbus.
func (h *handler) LookupObject(path dbus.ObjectPath) (dbus.ServerObject, bool) {
	return object{h, path}, true
}

// object is /Tuned, the root path "/" (introspection only), or an unknown path without methods.
type object struct {
	*handler
	path dbus.ObjectPath
}

func (o object) LookupInterface(name string) (dbus.Interface, bool) {
	return iface{o, name}, true
}

// iface is one interface of an object; for a call that names no interface, it is all of them.
type iface struct {
	object
	name string
}

func (i iface) LookupMethod(name string) (dbus.Method, bool) {
	of := func(interfaceName string) bool { return i.name == "" || i.name == interfaceName }
	switch {
	case name == "Ping" && of(peer):
		return answer(func() []any { return nil }), true
	case name == "GetMachineId" && of(peer):
		return answer(func() []any { return []any{strings.TrimSpace(i.machineID)} }), true
	case name == "Introspect" && of(introspectable) && (i.path == Path || i.path == "/"):
		return answer(func() []any { return []any{introspection(i.path)} }), true
	case i.path == Path && of(daemon.Interface):
		if m, ok := daemon.Find(name); ok {
			return method{i.handler, m}, true
		}
	}
	return nil, false
}

// answer is a method without arguments that every user may call.
type answer func() []any

func (a answer) Call(...any) ([]any, error) { return a(), nil }
func (a answer) NumArguments() int          { return 0 }
func (a answer) NumReturns() int            { return 1 }
func (a answer) ArgumentValue(int) any      { return nil }
func (a answer) ReturnValue(int) any        { return nil }

// method is one of TuneD's methods.
type method struct {
	*handler
	daemon.Method
}

// DecodeArguments inserts the caller before the arguments and checks their types. An invalid call
// is an error for every caller, authorized or not.
func (m method) DecodeArguments(_ *dbus.Conn, sender string, msg *dbus.Message, body []any) ([]any, error) {
	var wanted strings.Builder
	for _, in := range m.In {
		wanted.WriteString(in.Signature)
	}
	// An empty dictionary has no Go type of its own, so the signature is compared.
	signature, _ := msg.Headers[dbus.FieldSignature].Value().(dbus.Signature)
	if signature.String() != wanted.String() {
		return nil, dbus.NewError("org.freedesktop.DBus.Error.InvalidArgs",
			[]any{m.Name + " takes arguments of signature \"" + wanted.String() + "\", not \"" + signature.String() + "\""})
	}
	return append([]any{sender}, body...), nil
}

func (m method) Call(args ...any) ([]any, error) {
	sender := args[0].(string)
	if !m.authority.allows(m.ctx, m.log, sender, daemon.Namespace+"."+m.Name) {
		return []any{m.Denied}, nil
	}
	ctx := m.ctx
	if m.Access != daemon.Everybody {
		ctx = m.authority.caller(ctx, sender)
	}
	result, err := m.Method.Call(ctx, m.target, args[1:]...)
	if err != nil {
		return nil, dbus.MakeFailedError(err)
	}
	return []any{result}, nil
}

func (m method) NumArguments() int     { return len(m.In) }
func (m method) NumReturns() int       { return 1 }
func (m method) ArgumentValue(int) any { return nil } // DecodeArguments decides
func (m method) ReturnValue(int) any   { return m.Denied }

// valid replaces characters that the bus rejects: NUL and invalid UTF-8.
func valid(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// signalArguments are the names of the signal's arguments.
var signalArguments = []introspect.Arg{
	{Name: "profile_name", Type: "s"}, {Name: "result", Type: "b"}, {Name: "errstr", Type: "s"},
}

// introspection describes an object as XML (D-Bus specification, "Introspection
// Data Format").
func introspection(path dbus.ObjectPath) string {
	var node introspect.Node
	if path == Path {
		node.Name = string(Path)
		control := introspect.Interface{
			Name:    daemon.Interface,
			Signals: []introspect.Signal{{Name: daemon.Signal, Args: signalArguments}},
		}
		for _, m := range daemon.All {
			described := introspect.Method{Name: m.Name}
			for _, in := range m.In {
				described.Args = append(described.Args, introspect.Arg{Name: in.Name, Type: in.Signature, Direction: "in"})
			}
			described.Args = append(described.Args, introspect.Arg{Type: m.Out, Direction: "out"})
			control.Methods = append(control.Methods, described)
		}
		node.Interfaces = []introspect.Interface{{
			Name:    introspectable,
			Methods: []introspect.Method{{Name: "Introspect", Args: []introspect.Arg{{Type: "s", Direction: "out"}}}},
		}, control}
	} else {
		node.Children = []introspect.Node{{Name: string(Path[1:])}}
	}
	out, err := xml.MarshalIndent(node, "", "  ")
	if err != nil {
		panic("introspection is not XML: " + err.Error()) // fixed structure, strings only
	}
	return introspect.IntrospectDeclarationString + string(out) + "\n"
}
