// Package plugin defines plug-ins, which turn one type of profile section into changes, and
// their common code. The plug-ins are in the packages below this one; package table lists them
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

// Plugin turns the units of one type into changes. It only reads the machine.
type Plugin struct {
	// Name is the section's type, such as "sysctl".
	Name string
	// Doc is one sentence for `fettle list plugins` and the manual.
	Doc string
	// Options are the documented options in the order in which they apply.
	Options []Option
	// Free returns the option for a name that is not fixed (a sysctl key, "cmdline_realtime",
	// "group.name"); nil if all names are fixed.
	Free func(name string) (Option, bool)
	// Always plans the items that a unit has even without options, first; nil for none.
	Always func(ctx context.Context, r *Request) ([]Item, error)
	// Dynamic returns the parts of a unit that follow the load, and items for those that
	// cannot; nil for none. It runs no programs: only Next may.
	Dynamic func(ctx context.Context, r *Request) ([]Loop, []Item, error)
	// Devices lists the devices that `devices=` selects from, sorted, by kernel name; nil for a
	// plug-in without devices.
	Devices func(ctx context.Context, h *host.Host) ([]string, error)
	// NoDevice returns the items of a unit that gets no device; nil for none.
	NoDevice func(r *Request) []Item
	// DevicePath returns the sysfs directory of a device, for devices_udev_regex; nil for
	// a plug-in without udev devices.
	DevicePath func(device string) string
}

// Option is one option of a plug-in.
type Option struct {
	Name    string
	Doc     string // one sentence, with the unit and the range
	Default string // the default that TuneD documents, or ""
	// PerDevice options are planned once for each assigned device, the others
	// once for the unit, before them.
	PerDevice bool
	// Control options control others and plan nothing themselves.
	Control bool
	// Words describes how TuneD reads a boolean option; the zero value reads as Truth does.
	Words Words
	// Check returns an error for an invalid value of a Control option; nil if every value is
	// valid.
	Check func(o profile.Option) error
	// Plan turns a value into items. device is "" unless PerDevice.
	Plan func(ctx context.Context, r *Request, o profile.Option, device string) ([]Item, error)
}

// Request is the input of a plug-in that plans one unit.
type Request struct {
	Host    *host.Host
	Kinds   setting.Kinds
	Unit    profile.Unit
	Devices []string // assigned to this unit
	// Later is true if an earlier unit of the profile has the same type: some options for the
	// whole machine apply from the first unit only.
	Later bool
	// ProfileDirs are the directories of profiles; scripts run only from these.
	ProfileDirs []string
	// Environ contains the profile's variables for scripts (TUNED_name=value, Profile.Environ).
	Environ []string
	// Original returns the value of a setting without the selection in force, the base of
	// relative options (readahead_multiply, ">4096").
	Original func(setting.Setting) (setting.Value, error)
}

// Option returns an option of the unit.
func (r *Request) Option(name string) (profile.Option, bool) {
	for _, o := range r.Unit.Options {
		if o.Name == name {
			return o, true
		}
	}
	return profile.Option{}, false
}

// Verdict is the result of a value on a machine.
type Verdict string

// The verdicts of a value.
const (
	OK           Verdict = "ok"
	Drifted      Verdict = "drifted" // changed since fettle wrote it
	Differs      Verdict = "differs" // not as wanted, and fettle has not written it
	Overridden   Verdict = "overridden"
	Unsupported  Verdict = "unsupported"
	NeedsReboot  Verdict = "needs-reboot"
	NeedsRestart Verdict = "needs-restart"
	NeedsDaemon  Verdict = "needs-daemon"
	Rejected     Verdict = "rejected"
	Refused      Verdict = "refused"
	Kept         Verdict = "kept"     // named in keep.d: never written
	Deferred     Verdict = "deferred" // known when applied
	Dynamic      Verdict = "dynamic"  // follows the load
	Unknown      Verdict = "unknown"
)

// Verdicts lists all verdicts.
var Verdicts = []Verdict{OK, Drifted, Differs, Overridden, Unsupported, NeedsReboot, NeedsRestart, NeedsDaemon, Rejected, Refused, Kept, Deferred, Dynamic, Unknown}

// Item is one change, or a verdict that explains why nothing is written.
type Item struct {
	Change setting.Change
	// Verdict is set if the plug-in has decided that nothing is written: Unsupported, Rejected
	// (the value is not valid), Refused (it would do harm), Deferred. If it is empty, the
	// change is planned.
	Verdict Verdict
	Why     string // explains the verdict or the change
	// Now is the present value, if the plug-in has read it.
	Now    *setting.Value
	Device string
	// Fence starts a new stage: later items can be read only after this is written (a module
	// brings its attributes).
	Fence bool
}

// Unusable returns the verdict for a file that a profile names and that cannot be used because
// of err: a missing file is a wrong value, a file that a copy does not record is unknown, and
// any other is refused.
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

// Refuse returns an item that is not written, with a verdict and the reason.
func Refuse(s setting.Setting, o profile.Option, v Verdict, format string, args ...any) Item {
	it := Want(s, o.Value, o)
	it.Verdict, it.Why = v, fmt.Sprintf(format, args...)
	return it
}

// ReasonOf returns an option's position as the reason of a change.
func ReasonOf(o profile.Option) setting.Reason {
	return setting.Reason{File: o.Pos.File, Line: o.Pos.Line, Text: o.Name + "=" + o.Value}
}

// Sysfs returns the setting of an attribute below /sys.
func Sysfs(path string) setting.Setting { return setting.Setting{Kind: "sysfs", Name: path} }

// Sysctl returns the setting of a variable below /proc/sys.
func Sysctl(name string) setting.Setting { return setting.Setting{Kind: "sysctl", Name: name} }

// IsNone reports whether a value means "no change" in TuneD: empty or none.
func IsNone(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "", "none":
		return true
	}
	return false
}

// Truth parses a boolean option: true, 1, yes, on and so on, and their opposites.
func Truth(value string) (truth, ok bool) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "1", "true", "yes", "on", "t", "y", "enabled":
		return true, true
	case "0", "false", "no", "off", "f", "n", "disabled":
		return false, true
	}
	return false, false
}
