package bus

import (
	"encoding/xml"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"

	"fettle.dev/fettle/internal/daemon"
)

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
		panic("introspection is not XML: " + err.Error()) // a fixed structure of texts
	}
	return introspect.IntrospectDeclarationString + string(out) + "\n"
}
