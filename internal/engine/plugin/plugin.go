// Package plugin defines plug-ins and their common code. A plug-in converts one type of profile
// section to changes. The plug-ins are in the packages below this one; package table lists them
// all.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Plugin converts the units of one type to changes. It only reads the machine.
type Plugin struct {
	// Name is the section's type, such as "sysctl".
	Name string
	// Doc is one sentence for `fettle list plugins` and the manual.
	Doc string
	// Options are the documented options in the order of application.
	Options []Option
	// Free returns the option for a variable name (a sysctl key, "cmdline_realtime",
	// "group.name"). It is nil if all names are fixed.
	Free func(name string) (Option, bool)
	// Always plans the items that a unit has even without options; they come first. It may be
	// nil.
	Always func(ctx context.Context, r *Request) ([]Item, error)
	// Dynamic returns the load-dependent parts of a unit, and items for settings that cannot
	// follow the load. It runs no programs; only Next may. It may be nil.
	Dynamic func(ctx context.Context, r *Request) ([]Loop, []Item, error)
	// Devices lists the devices that `devices=` selects from, sorted, by kernel name. Nil for a
	// plug-in without devices.
	Devices func(ctx context.Context, h *host.Host) ([]string, error)
	// NoDevice returns the items of a unit that gets no device. It may be nil.
	NoDevice func(r *Request) []Item
	// DevicePath returns a device's sysfs directory, for devices_udev_regex. Nil for a plug-in
	// without udev devices.
	DevicePath func(device string) string
}

// Option describes one option of a plug-in.
type Option struct {
	Name    string
	Doc     string // one sentence, with unit and range
	Default string // TuneD's documented default, or ""
	// PerDevice options are planned once per assigned device. All others are planned once per
	// unit, before them.
	PerDevice bool
	// Control options only affect other options and plan nothing themselves.
	Control bool
	// Words describes how TuneD reads a boolean option. The zero value means that Truth parses it.
	Words Words
	// Check returns an error for an invalid value of a Control option. Nil if every value is
	// valid.
	Check func(o profile.Option) error
	// Plan converts a value to items. device is "" unless PerDevice is true.
	Plan func(ctx context.Context, r *Request, o profile.Option, device string) ([]Item, error)
}

// Request is a plug-in's input for planning one unit.
type Request struct {
	Host    *host.Host
	Kinds   setting.Kinds
	Unit    profile.Unit
	Devices []string // assigned to this unit
	// Later is true if an earlier unit of the profile has the same type. Some options for the
	// whole machine apply only in the first unit.
	Later bool
	// ProfileDirs are the profile directories; only scripts in them may run.
	ProfileDirs []string
	// Environ has the profile's variables for scripts (TUNED_name=value, Profile.Environ).
	Environ []string
	// Original returns a setting's value without the selection in force. Relative options are
	// based on it (readahead_multiply, ">4096").
	Original func(setting.Setting) (setting.Value, error)
}

// Option returns an option of the unit, and false if the unit lacks it.
func (r *Request) Option(name string) (profile.Option, bool) {
	for _, o := range r.Unit.Options {
		if o.Name == name {
			return o, true
		}
	}
	return profile.Option{}, false
}

// Verdict is the state of a value on a machine.
type Verdict string

// The verdicts of a value.
const (
	OK           Verdict = "ok"
	Drifted      Verdict = "drifted" // changed since fettle wrote it
	Differs      Verdict = "differs" // not as wanted, and never written by fettle
	Overridden   Verdict = "overridden"
	Unsupported  Verdict = "unsupported"
	NeedsReboot  Verdict = "needs-reboot"
	NeedsRestart Verdict = "needs-restart"
	NeedsDaemon  Verdict = "needs-daemon"
	Rejected     Verdict = "rejected"
	Refused      Verdict = "refused"
	Kept         Verdict = "kept"     // named in keep.d: never written
	Deferred     Verdict = "deferred" // known only when applied
	Dynamic      Verdict = "dynamic"  // follows the load
	Unknown      Verdict = "unknown"
)

// Verdicts lists all verdicts.
var Verdicts = []Verdict{OK, Drifted, Differs, Overridden, Unsupported, NeedsReboot, NeedsRestart, NeedsDaemon, Rejected, Refused, Kept, Deferred, Dynamic, Unknown}

// Item is one change, or a verdict with the reason why nothing is written.
type Item struct {
	Change setting.Change
	// Verdict is set if the plug-in decides against writing: Unsupported, Rejected (invalid
	// value), Refused (harmful), Deferred. If empty, the change is planned.
	Verdict Verdict
	Why     string // explains the verdict or the change
	// Now is the current value if the plug-in has read it, else nil.
	Now    *setting.Value
	Device string
	// Fence starts a new stage: later items can be read only after this one is written, such as a
	// module with its attributes.
	Fence bool
}

// Unusable returns the verdict for a file of a profile that cannot be used because of err. If the
// file is missing, the value is wrong. If a copy does not record the file, the verdict is unknown.
// For any other error the file is refused.
func Unusable(err error) Verdict {
	switch {
	case host.Unknown(err):
		return Unknown
	case errors.Is(err, fs.ErrNotExist):
		return Rejected
	}
	return Refused
}

// Want returns an item that sets a value, with the option's position as its reason.
func Want(s setting.Setting, value string, o profile.Option) Item {
	return Item{Change: setting.Change{Setting: s, Want: setting.Text(value), Reason: ReasonOf(o)}}
}

// Refuse returns an item that is not written, with verdict v and the formatted reason.
func Refuse(s setting.Setting, o profile.Option, v Verdict, format string, args ...any) Item {
	it := Want(s, o.Value, o)
	it.Verdict, it.Why = v, fmt.Sprintf(format, args...)
	return it
}

// ReasonOf returns an option's position, as the reason of a change.
func ReasonOf(o profile.Option) setting.Reason {
	return setting.Reason{File: o.Pos.File, Line: o.Pos.Line, Text: o.Name + "=" + o.Value}
}

// Sysfs returns the setting of an attribute, given its path in /sys.
func Sysfs(path string) setting.Setting { return setting.Setting{Kind: "sysfs", Name: path} }

// Sysctl returns the setting of a kernel variable, given its name.
func Sysctl(name string) setting.Setting { return setting.Setting{Kind: "sysctl", Name: name} }

// IsNone reports whether a value means "no change" in TuneD: "" or none.
func IsNone(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "", "none":
		return true
	}
	return false
}

// Truth parses a boolean option: true, 1, yes, on and the like, and their opposites. ok is false
// for any other value.
func Truth(value string) (truth, ok bool) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "1", "true", "yes", "on", "t", "y", "enabled":
		return true, true
	case "0", "false", "no", "off", "f", "n", "disabled":
		return false, true
	}
	return false, false
}
