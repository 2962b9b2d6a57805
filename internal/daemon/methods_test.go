package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// asked is a daemon that writes down what it is asked; it is here to test the
// handling of arguments, and answers nothing that a daemon would.
type asked struct {
	Control
	calls []string
}

func (a *asked) note(format string, args ...any) {
	a.calls = append(a.calls, fmt.Sprintf(format, args...))
}

func (a *asked) Switch(_ context.Context, names string) (bool, string) {
	a.note("switch %q", names)
	return true, "OK"
}
func (a *asked) ActiveProfile() string { return "active" }
func (a *asked) ProfileInfo(_ context.Context, name string) (bool, Info) {
	a.note("info %q", name)
	return true, Info{Name: name, Summary: "caf\xe9", Description: "nul\x00"}
}
func (a *asked) Capture(level int, limit time.Duration) string {
	a.note("capture %d %s", level, limit)
	return "token"
}
func (a *asked) CreateInstance(_ context.Context, plugin, name string, options map[string]string) (bool, string) {
	a.note("create %s %s %v", plugin, name, options)
	return true, "OK"
}
func (a *asked) AcquireDevices(_ context.Context, devices, instance string) (bool, string) {
	a.note("acquire %s %s", devices, instance)
	return true, "OK"
}

func TestTableIsTuneDs(t *testing.T) {
	if len(All) != 27 {
		t.Errorf("%d methods, TuneD 2.28 has 27", len(All))
	}
	if !slices.IsSortedFunc(All, func(a, b Method) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not in alphabetical order")
	}
	for _, m := range All {
		// What a caller without authority gets must be of the signature that is
		// promised, or the bus closes the connection.
		if got := dbus.SignatureOf(m.Denied).String(); got != m.Out {
			t.Errorf("%s: unauthorised answer has signature %s, want %s", m.Name, got, m.Out)
		}
		if m.refused != nil {
			if got := dbus.SignatureOf(m.refused("x")).String(); got != m.Out {
				t.Errorf("%s: answer to a bad argument has signature %s, want %s", m.Name, got, m.Out)
			}
		}
		for _, in := range m.In {
			if in.Signature != "i" && m.refused == nil {
				t.Errorf("%s: argument %s is not checked", m.Name, in.Name)
			}
		}
		if b, err := json.Marshal(m.Denied); err != nil || strings.Contains(string(b), "null") {
			t.Errorf("%s: unauthorised answer in JSON: %s, %v", m.Name, b, err)
		}
	}
}

func TestArguments(t *testing.T) {
	none := map[string]string{}
	for _, c := range []struct {
		method string
		args   []any
		want   any // nil: an error
		asked  string
	}{
		{"switch_profile", []any{"a b"}, Reply{true, "OK"}, `switch "a b"`},
		{"switch_profile", []any{""}, Reply{true, "OK"}, `switch ""`},
		{"switch_profile", []any{"a\nb"}, Reply{false, "Invalid profile_name"}, ""},
		{"switch_profile", []any{`a\b`}, Reply{false, "Invalid profile_name"}, ""},
		{"switch_profile", []any{"a`b"}, Reply{false, "Invalid profile_name"}, ""},
		{"switch_profile", []any{"é"}, Reply{false, "Invalid profile_name"}, ""},
		{"switch_profile", []any{strings.Repeat("a", 4097)}, Reply{false, "Invalid profile_name"}, ""},
		{"switch_profile", []any{strings.Repeat("a", 4096)}, Reply{true, "OK"}, "switch \"" + strings.Repeat("a", 4096) + "\""},
		{"switch_profile", nil, nil, ""},
		{"switch_profile", []any{"a", "b"}, nil, ""},
		{"switch_profile", []any{int32(1)}, nil, ""},
		{"profile_info", []any{""}, MethodInfo{true, "active", "caf\uFFFD", "nul\uFFFD"}, `info "active"`},
		{"profile_info", []any{"x\x1b"}, MethodInfo{}, ""},
		{"log_capture_start", []any{int32(40), int32(600)}, "token", "capture 40 10m0s"},
		{"log_capture_start", []any{int32(40), int32(-1)}, "token", "capture 40 0s"},
		{"instance_create", []any{"disk", "d", map[string]string{"devices": "sda"}}, Reply{true, "OK"}, "create disk d map[devices:sda]"},
		{"instance_create", []any{"disk", "d", map[string]string{"a\n": "b"}}, Reply{false, "Invalid options"}, ""},
		{"instance_create", []any{"disk", "d", map[string]string{"a": "\tb"}}, Reply{false, "Invalid options"}, ""},
		{"instance_create", []any{"disk", "d\x7f", none}, Reply{false, "Invalid instance_name"}, ""},
		{"instance_acquire_devices", []any{"sda\n", "d"}, Reply{false, "Invalid devices"}, ""},
		{"instance_acquire_devices", []any{"cpulist:0-3", "d"}, Reply{true, "OK"}, "acquire cpulist:0-3 d"},
		{"get_instances", []any{"\x00"}, Instances{false, "Invalid plugin_name", []Pair{}}, ""},
		{"instance_get_devices", []any{"\x00"}, Devices{false, "Invalid instance_name", []string{}}, ""},
		{"get_plugin_hints", []any{"\n"}, none, ""},
		{"get_plugin_documentation", []any{"\n"}, "", ""},
		{"register_socket_signal_path", []any{"/run/x"}, false, ""}, // no socket is served
	} {
		m, ok := Find(c.method)
		if !ok {
			t.Fatalf("no method %s", c.method)
		}
		a := &asked{}
		got, err := m.Call(context.Background(), Target{Control: a}, c.args...)
		if (err != nil) != (c.want == nil) {
			t.Errorf("%s%q: error %v", c.method, c.args, err)
		}
		if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", c.want) {
			t.Errorf("%s%q: %#v, want %#v", c.method, c.args, got, c.want)
		}
		if asked := strings.Join(a.calls, "; "); asked != c.asked {
			t.Errorf("%s%q: the daemon was asked %s, want %s", c.method, c.args, asked, c.asked)
		}
	}
}

func TestRefusedPlugins(t *testing.T) {
	m, _ := Find("instance_create")
	for _, plugin := range []string{"script", "service", "bootloader"} {
		a := &asked{}
		got, err := m.Call(context.Background(), Target{Control: a}, plugin, "x", map[string]string{})
		if r, ok := got.(Reply); err != nil || !ok || r.OK || len(a.calls) > 0 {
			t.Errorf("%s: %v, %v; asked %q", plugin, got, err, a.calls)
		}
	}
}
