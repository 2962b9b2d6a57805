package device //nolint:revive // the plug-in's name in profiles

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// EeePCSHEKindName is the kind of an Eee PC's bus clock, and Clock its one place.
const EeePCSHEKindName = "eeepc"

// Clock is the bus clock: 0 high, 1 normal, 2 saving.
var Clock = setting.Setting{Kind: EeePCSHEKindName, Name: "cpufv"}

// EeePCSHEKinds are the kinds of setting that this plug-in brings.
func EeePCSHEKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{EeePCSHEKindName: cpufv{h}}
}

var controlFiles = []string{"/sys/devices/platform/eeepc/cpufv", "/sys/devices/platform/eeepc-wmi/cpufv"}

// controlFile is the attribute that sets the clock; ok is false on every other
// machine.
func controlFile(h *host.Host) (path string, ok bool) {
	for _, p := range controlFiles {
		if plugin.Exists(h, p) {
			return p, true
		}
	}
	return "", false
}

// readable is false for the attribute of eeepc-wmi, which can only be written
// (drivers/platform/x86/asus-wmi.c).
func readable(h *host.Host, path string) bool {
	st, err := h.Files.Stat(path)
	return err == nil && st.Mode()&0o444 != 0
}

type cpufv struct{ host *host.Host }

func (cpufv) Resolve(s setting.Setting) (setting.Setting, error) {
	if s != Clock {
		return setting.Setting{}, fmt.Errorf("%s: want %s", s, Clock)
	}
	return s, nil
}

// Read takes the clock out of what the driver prints: the number of clocks in
// the second byte, the present one in the first (drivers/platform/x86/
// eeepc-laptop.c, cpufv_show).
func (k cpufv) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	path, ok := controlFile(k.host)
	if !ok {
		if plugin.Unrecorded(k.host, controlFiles...) {
			return setting.Value{}, host.NotRecorded(s.String())
		}
		return setting.Absent, nil
	}
	if !readable(k.host, path) {
		return setting.Value{}, &fs.PathError{Op: "read", Path: path, Err: fs.ErrPermission}
	}
	text, ok := plugin.Attribute(k.host, path)
	n, err := strconv.ParseUint(text, 0, 32)
	if !ok || err != nil {
		return setting.Value{}, fmt.Errorf("%s: %q is no number", path, text)
	}
	return setting.Text(strconv.FormatUint(n&0xff, 10)), nil
}

func (k cpufv) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	n, err := strconv.Atoi(strings.TrimSpace(v.Text))
	if v.Absent || err != nil || n < 0 || n > 255 {
		return fmt.Errorf("%s: %s is no clock", s, v)
	}
	path, ok := controlFile(k.host)
	if !ok {
		return fmt.Errorf("%s: %w", s, fs.ErrNotExist)
	}
	return k.host.Files.Store(path, []byte(strconv.Itoa(n)))
}

func (cpufv) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (cpufv) Coupled(setting.Setting) []setting.Setting { return nil }
func (cpufv) Lifetime() setting.Lifetime                { return setting.Runtime }
