// eeepc_she is the plug-in for the bus clock of Asus Eee PC netbooks
// (Super Hybrid Engine). It tunes only dynamically.

package device //nolint:revive // the plug-in's name in profiles

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// EeePCSHE is the plug-in for [eeepc_she] sections.
var EeePCSHE = plugin.Plugin{
	Name:    "eeepc_she",
	Doc:     "adapts the bus clock of Asus Eee PC netbooks to the load; works only if dynamic tuning is on",
	Dynamic: eeepcsheDynamic,
	Options: []plugin.Option{
		{Name: "load_threshold_normal", Default: "0.6", Control: true,
			Doc: "one-minute load average at or above which the clock is set to she_normal"},
		{Name: "load_threshold_powersave", Default: "0.4", Control: true,
			Doc: "one-minute load average at or below which the clock is set to she_powersave; between the two limits the clock does not change"},
		{Name: "she_powersave", Default: "2", Control: true,
			Doc: "clock at rest: 0 high, 1 normal, 2 saving (sysfs-platform-eeepc-laptop, cpufv)"},
		{Name: "she_normal", Default: "1", Control: true,
			Doc: "clock under load: 0 high, 1 normal, 2 saving"},
	},
}

// band holds the loads at which the clock changes: at most rest, or at least busy.
type band struct{ rest, busy float64 }

// clock returns the clock for a load by TuneD's rule. ok is false if the clock stays the same.
func (b band) clock(load float64, saving, normal setting.Value) (v setting.Value, ok bool) {
	switch {
	case load <= b.rest:
		return saving, true
	case load >= b.busy:
		return normal, true
	}
	return v, false
}

func eeepcsheDynamic(_ context.Context, r *plugin.Request) ([]plugin.Loop, []plugin.Item, error) {
	s := busClock
	whole := profile.Option{Name: r.Unit.Name, Pos: r.Unit.Pos}
	path, ok := controlFile(r.Host)
	switch {
	case !ok:
		return nil, plugin.LacksFiles(r.Host, s, whole, controlFiles, "only Asus Eee PC netbooks have this bus clock"), nil
	case !readable(r.Host, path):
		return nil, plugin.Lacks(r.Host, s, whole, "the driver does not report the clock, so undo could not restore it"), nil
	}
	var bad []plugin.Item
	note := func(more []plugin.Item) { bad = append(bad, more...) }
	rest, more := r.Threshold(s, "load_threshold_powersave", 0.4)
	note(more)
	busy, more := r.Threshold(s, "load_threshold_normal", 0.6)
	note(more)
	saving, more := clock(r, "she_powersave", "2")
	note(more)
	normal, more := clock(r, "she_normal", "1")
	note(more)
	if len(bad) > 0 {
		return nil, bad, nil
	}
	b := band{rest, busy}
	return []plugin.Loop{{
		Places: []plugin.Varying{{
			Setting: s, Values: []setting.Value{saving, normal}, Reason: plugin.UnitReason(r.Unit, "the bus clock follows the load"),
		}},
		Next: func(context.Context, time.Duration) ([]plugin.Wish, error) {
			load, err := plugin.LoadAverage(r.Host)
			if err != nil {
				return nil, err
			}
			if v, ok := b.clock(load, saving, normal); ok {
				return []plugin.Wish{{Setting: s, Want: v}}, nil
			}
			return nil, nil
		},
	}}, nil, nil
}

// clock parses the option she_powersave or she_normal.
func clock(r *plugin.Request, option, standard string) (setting.Value, []plugin.Item) {
	o, given := r.Option(option)
	if !given {
		return setting.Text(standard), nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(o.Value))
	if err != nil || n < 0 || n > 2 {
		return setting.Value{}, plugin.BadValue(busClock, o, "0, 1 or 2")
	}
	return setting.Text(strconv.Itoa(n)), nil
}

// eeepcKind is the setting kind of an Eee PC's bus clock; busClock is its only setting.
const eeepcKind = "eeepc"

// busClock is the bus clock: 0 is high, 1 normal, 2 saving.
var busClock = setting.Setting{Kind: eeepcKind, Name: "cpufv"}

// EeePCSHEKinds returns the setting kinds that this plug-in adds.
func EeePCSHEKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{eeepcKind: cpufv{h}}
}

var controlFiles = []string{"/sys/devices/platform/eeepc/cpufv", "/sys/devices/platform/eeepc-wmi/cpufv"}

// controlFile returns the path of the attribute that sets the clock. ok is false if the machine
// has none.
func controlFile(h *host.Host) (path string, ok bool) {
	for _, p := range controlFiles {
		if plugin.Exists(h, p) {
			return p, true
		}
	}
	return "", false
}

// readable reports whether the attribute can be read; eeepc-wmi's is write-only
// (drivers/platform/x86/asus-wmi.c).
func readable(h *host.Host, path string) bool {
	st, err := h.Files.Stat(path)
	return err == nil && st.Mode()&0o444 != 0
}

type cpufv struct{ host *host.Host }

func (cpufv) Resolve(s setting.Setting) (setting.Setting, error) {
	if s != busClock {
		return setting.Setting{}, fmt.Errorf("%s: want %s", s, busClock)
	}
	return s, nil
}

// Read returns the current clock. The driver prints the number of clocks in the second byte and
// the current one in the first (drivers/platform/x86/eeepc-laptop.c, cpufv_show).
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
		return setting.Value{}, fmt.Errorf("%s: %q is not a number", path, text)
	}
	return setting.Text(strconv.FormatUint(n&0xff, 10)), nil
}

func (k cpufv) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	n, err := strconv.Atoi(strings.TrimSpace(v.Text))
	if v.Absent || err != nil || n < 0 || n > 255 {
		return fmt.Errorf("%s: %s is not a clock number", s, v)
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
