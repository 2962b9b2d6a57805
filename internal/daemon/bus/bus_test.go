package bus

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/introspect"

	"fettle.dev/fettle/internal/daemon"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/testkit/root"
)

// asked is a daemon for the tests of the bus itself: what it answers shows that
// the arguments arrived. The daemon proper is driven by the protocol test.
type asked struct {
	daemon.Control
	changed chan daemon.ProfileChanged
}

func (a asked) Switch(ctx context.Context, names string) (bool, string) {
	if names == "who" {
		c, ok := tune.CallerIn(ctx)
		return ok, fmt.Sprintf("%d %s", c.UID, c.Via)
	}
	return true, "<" + names + ">"
}
func (a asked) ActiveProfile() string  { return "balanced" }
func (a asked) IsRunning() bool        { return true }
func (a asked) Mode() (string, string) { return "manual", "" }
func (a asked) Profiles(context.Context) []daemon.NamedSummary {
	return []daemon.NamedSummary{{Name: "a", Summary: "latin \xe9, nul \x00"}}
}
func (a asked) Plugins() map[string]map[string]string {
	return map[string]map[string]string{"vm": {"o": "d"}, "rtentsk": {}}
}
func (a asked) Instances(string) (bool, string, [][2]string) { return true, "OK", nil }
func (a asked) Capture(level int, limit time.Duration) string {
	return fmt.Sprintf("%d %s", level, limit)
}
func (a asked) CreateInstance(_ context.Context, plugin, name string, options map[string]string) (bool, string) {
	return true, fmt.Sprint(plugin, name, options)
}
func (a asked) Changed(context.Context) <-chan daemon.ProfileChanged { return a.changed }

// serve starts a bus and a service on it.
func serve(t *testing.T) (*root.Bus, asked) {
	t.Helper()
	b := root.NewBus(t, root.Options{})
	c := asked{changed: make(chan daemon.ProfileChanged)}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Serve(ctx, Options{Target: daemon.Target{Control: c}, Address: b.Address, MachineID: "feed\n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); s.Wait() })
	return b, c
}

func connect(t *testing.T, b *root.Bus) *dbus.Conn {
	t.Helper()
	conn, err := dbus.Connect(b.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestCallsOverTheBus(t *testing.T) {
	b, c := serve(t)
	conn := connect(t, b)
	control := daemon.Interface + "."
	for _, c := range []struct {
		path, method string
		args         []any
		want         string // body, or the name of the error
	}{
		{"/Tuned", control + "active_profile", nil, `["balanced"]`},
		{"/Tuned", "active_profile", nil, `["balanced"]`}, // a call may name no interface
		{"/Tuned", control + "is_running", nil, `[true]`},
		{"/Tuned", control + "switch_profile", []any{"a b"}, `[[]interface {}{true, "<a b>"}]`},
		{"/Tuned", control + "switch_profile", []any{"a\n"}, `[[]interface {}{false, "Invalid profile_name"}]`},
		{"/Tuned", control + "switch_profile", []any{"who"}, fmt.Sprintf(`[[]interface {}{true, "%d D-Bus"}]`, os.Geteuid())},
		{"/Tuned", control + "profile_mode", nil, `[[]interface {}{"manual", ""}]`},
		{"/Tuned", control + "profiles2", nil, `[[][]interface {}{[]interface {}{"a", "latin ` + "\uFFFD" + `, nul ` + "\uFFFD" + `"}}]`},
		{"/Tuned", control + "get_all_plugins", nil, `[map[string]map[string]string{"rtentsk":map[string]string{}, "vm":map[string]string{"o":"d"}}]`},
		{"/Tuned", control + "get_instances", []any{""}, `[[]interface {}{true, "OK", [][]interface {}{}}]`},
		{"/Tuned", control + "log_capture_start", []any{int32(40), int32(30)}, `["40 30s"]`},
		{"/Tuned", control + "instance_create", []any{"disk", "d", map[string]string{"a": "b"}}, `[[]interface {}{true, "diskdmap[a:b]"}]`},
		{"/Tuned", control + "instance_create", []any{"disk", "d", map[string]string{}}, `[[]interface {}{true, "diskdmap[]"}]`},
		{"/Tuned", control + "switch_profile", nil, "org.freedesktop.DBus.Error.InvalidArgs"},
		{"/Tuned", control + "switch_profile", []any{int32(1)}, "org.freedesktop.DBus.Error.InvalidArgs"},
		{"/Tuned", control + "switch_profile", []any{"a", "b"}, "org.freedesktop.DBus.Error.InvalidArgs"},
		{"/Tuned", control + "log_capture_start", []any{"40", "30"}, "org.freedesktop.DBus.Error.InvalidArgs"},
		{"/Tuned", control + "nothing", nil, "org.freedesktop.DBus.Error.UnknownMethod"},
		{"/Tuned", "org.example.None.active_profile", nil, "org.freedesktop.DBus.Error.UnknownMethod"},
		{"/Tuned", "org.freedesktop.DBus.Introspectable.active_profile", nil, "org.freedesktop.DBus.Error.UnknownMethod"},
		{"/Tuned", "org.freedesktop.DBus.Properties.GetAll", []any{daemon.Interface}, "org.freedesktop.DBus.Error.UnknownMethod"},
		{"/Other", control + "active_profile", nil, "org.freedesktop.DBus.Error.UnknownMethod"},
		{"/", control + "active_profile", nil, "org.freedesktop.DBus.Error.UnknownMethod"},
		{"/Tuned", "org.freedesktop.DBus.Peer.GetMachineId", nil, `["feed"]`},
		{"/Tuned", "org.freedesktop.DBus.Peer.Ping", nil, `[]`},
	} {
		call := conn.Object(Name, dbus.ObjectPath(c.path)).Call(c.method, 0, c.args...)
		got := ""
		var failure dbus.Error
		if errors.As(call.Err, &failure) {
			got = failure.Name
		} else {
			var parts []string
			for _, v := range call.Body {
				parts = append(parts, fmt.Sprintf("%#v", v))
			}
			got = "[" + strings.Join(parts, ", ") + "]"
		}
		if got != c.want {
			t.Errorf("%s %s%q\n got %s\nwant %s", c.path, c.method, c.args, got, c.want)
		}
	}

	if err := conn.AddMatchSignal(dbus.WithMatchInterface(daemon.Interface)); err != nil {
		t.Fatal(err)
	}
	signals := make(chan *dbus.Signal, 1)
	conn.Signal(signals)
	c.changed <- daemon.ProfileChanged{Profiles: "a \xff", OK: false, Message: "why"}
	s := <-signals
	if s.Path != Path || s.Name != control+daemon.Signal || fmt.Sprint(s.Body) != "[a \uFFFD false why]" {
		t.Errorf("signal %v", s)
	}
}

func TestIntrospection(t *testing.T) {
	for _, path := range []dbus.ObjectPath{Path, "/"} {
		var node introspect.Node
		if err := xml.Unmarshal([]byte(introspection(path)), &node); err != nil {
			t.Fatal(err)
		}
		if path == "/" {
			if len(node.Children) != 1 || node.Children[0].Name != "Tuned" {
				t.Errorf("root: %+v", node)
			}
			continue
		}
		if len(node.Interfaces) != 2 || len(node.Interfaces[1].Methods) != 27 || len(node.Interfaces[1].Signals) != 1 {
			t.Errorf("%+v", node)
		}
	}
}

// TestNoPolkitOnlyRoot: the bus of the test root has no polkit, so another user
// gets nothing.
func TestNoPolkitOnlyRoot(t *testing.T) {
	b, _ := serve(t)
	if err := os.Chmod(b.Root.Share(), 0o755); err != nil {
		t.Fatal(err)
	}
	call := func(user string) string {
		out, _ := b.Root.Run("setpriv", "--reuid="+user, "--regid="+user, "--clear-groups",
			"dbus-send", "--bus="+b.Address, "--print-reply=literal", "--dest="+Name, string(Path), daemon.Interface+".switch_profile", "string:x")
		return strings.Join(strings.Fields(out), " ")
	}
	if got := call("65534"); got != "struct { boolean false Unauthorized }" {
		t.Errorf("another user was answered %q", got)
	}
	if got := call("0"); got != "struct { boolean true <x> }" {
		t.Errorf("root was answered %q", got)
	}
}

func TestNameOfAnother(t *testing.T) {
	b, c := serve(t)
	_, err := Serve(t.Context(), Options{Target: daemon.Target{Control: c}, Address: b.Address})
	if !errors.Is(err, ErrOwned) {
		t.Errorf("a second service: %v", err)
	}
	if _, err := Serve(t.Context(), Options{Target: daemon.Target{Control: c}, Address: "unix:path=/nonexistent/bus"}); err == nil {
		t.Error("no bus is not an error")
	}
}

// TestBusRestart kills the bus and starts another at the same place: the
// service claims its name again and goes on.
func TestBusRestart(t *testing.T) {
	r := root.New(t, root.Options{})
	b := r.StartBus()
	c := asked{changed: make(chan daemon.ProfileChanged)}
	ctx, cancel := context.WithCancel(context.Background())
	var owned atomic.Int32
	s, err := Serve(ctx, Options{Target: daemon.Target{Control: c}, Address: b.Address, Owned: func() { owned.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	r.Must("sh", "-c", "kill -9 $(pidof dbus-daemon)")
	os.Remove(strings.TrimPrefix(b.Address, "unix:path="))
	// A switch while there is no bus is not announced and does not block.
	c.changed <- daemon.ProfileChanged{Profiles: "lost"}
	b = r.StartBus()
	if !root.Eventually(time.Minute, func() bool { return owned.Load() == 2 }) {
		t.Fatal("the name was not claimed again")
	}
	var name string
	if err := connect(t, b).Object(Name, Path).Call(daemon.Interface+".active_profile", 0).Store(&name); err != nil || name != "balanced" {
		t.Errorf("after the restart: %q, %v", name, err)
	}
	cancel()
	s.Wait()
	if b.Owned(Name) {
		t.Error("the name is still owned after the end")
	}
}
