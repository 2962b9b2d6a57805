// Package plugin says what a plug-in is: it turns one kind of profile section
// into changes. Each plug-in has a package of its own below this one; package
// table lists them all.
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
	// Free answers for option names that are not fixed (a sysctl key,
	// "cmdline_realtime", "group.name"); nil where all names are fixed.
	Free func(name string) (Option, bool)
	// Always plans what a unit does by being there, before its options; nil for
	// most.
	Always func(ctx context.Context, r *Request) ([]Item, error)
	// Dynamic plans what of a unit follows the load, and what of it cannot; nil
	// where nothing does. It runs no program: only Next may.
	Dynamic func(ctx context.Context, r *Request) ([]Loop, []Item, error)
	// Devices lists what `devices=` selects from, sorted, by kernel name; nil
	// for a plug-in without devices.
	Devices func(ctx context.Context, h *host.Host) ([]string, error)
	// NoDevice plans what a unit has to say that no device is left for; nil for
	// most, which do nothing then.
	NoDevice func(r *Request) []Item
	// DevicePath is the sysfs directory of a device, for devices_udev_regex;
	// nil where the plug-in has no udev devices.
	DevicePath func(device string) string
}

// Option is one option of a plug-in.
type Option struct {
	Name    string
	Doc     string // one sentence, with the unit and the range
	Default string // what TuneD documents as the default; "" for none
	// PerDevice options are planned once for each assigned device, the others
	// once for the unit, before them.
	PerDevice bool
	// Control options steer others and plan nothing of their own.
	Control bool
	// Words is how TuneD reads a boolean option where its reading is not that of
	// Truth; the zero value is.
	Words Words
	// Check says what is wrong with the value of a Control option; nil where
	// every value means something.
	Check func(o profile.Option) error
	// Plan turns a value into items. device is "" unless PerDevice.
	Plan func(ctx context.Context, r *Request, o profile.Option, device string) ([]Item, error)
}

// Request is what a plug-in may ask while it plans one unit.
type Request struct {
	Host    *host.Host
	Kinds   setting.Kinds
	Unit    profile.Unit
	Devices []string // assigned to this unit
	// Later is true where an earlier unit of the profile has the same type:
	// some options for the whole machine are taken from the first unit only.
	Later bool
	// ProfileDirs are the directories that profiles are read from; scripts are
	// run only from below them.
	ProfileDirs []string
	// Environ are the profile's variables as scripts get them (TUNED_name=value,
	// Profile.Environ).
	Environ []string
	// Original reads a setting as it is without fettle's present selection:
	// what relative options (readahead_multiply, ">4096") start from.
	Original func(setting.Setting) (setting.Value, error)
}

// Option returns another option of the unit, as steering options need it.
func (r *Request) Option(name string) (profile.Option, bool) {
	for _, o := range r.Unit.Options {
		if o.Name == name {
			return o, true
		}
	}
	return profile.Option{}, false
}

// Verdict is what is known of a value; DESIGN.md lists the words.
type Verdict string

// The verdicts of a value.
const (
	OK           Verdict = "ok"
	Drifted      Verdict = "drifted"
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

// Verdicts are all of them.
var Verdicts = []Verdict{OK, Drifted, Overridden, Unsupported, NeedsReboot, NeedsRestart, NeedsDaemon, Rejected, Refused, Kept, Deferred, Dynamic, Unknown}

// Item is one change, or why there is none.
type Item struct {
	Change setting.Change
	// Verdict is set where the plug-in already knows that nothing is to be
	// written: Unsupported, Rejected (the value is not valid), Refused (it would
	// do harm), Deferred. Empty: plan the change.
	Verdict Verdict
	Why     string // what a person is told with the verdict, or beside the change
	// Now is what the setting reads, where the plug-in has looked; nil where it has not.
	Now    *setting.Value
	Device string
	// Fence starts a new stage: what follows can be read only after this is
	// written (a module brings its attributes).
	Fence bool
}

// Unusable is the verdict of a file that a profile names and that err keeps
// from being used: one that is not there is a wrong value, and any other is
// refused for what it could do. What a copy does not record is unknown.
func Unusable(err error) Verdict {
	switch {
	case host.Unknown(err):
		return Unknown
	case errors.Is(err, fs.ErrNotExist):
		return Rejected
	}
	return Refused
}

// Want is an item that sets a value, with the option's place as its reason.
func Want(s setting.Setting, value string, o profile.Option) Item {
	return Item{Change: setting.Change{Setting: s, Want: setting.Text(value), Reason: ReasonOf(o)}}
}

// Refuse is an item that is not written, with a verdict and the reason.
func Refuse(s setting.Setting, o profile.Option, v Verdict, format string, args ...any) Item {
	it := Want(s, o.Value, o)
	it.Verdict, it.Why = v, fmt.Sprintf(format, args...)
	return it
}

// ReasonOf makes an option's place the reason of a change.
func ReasonOf(o profile.Option) setting.Reason {
	return setting.Reason{File: o.Pos.File, Line: o.Pos.Line, Text: o.Name + "=" + o.Value}
}

// Sysfs names an attribute below /sys.
func Sysfs(path string) setting.Setting { return setting.Setting{Kind: "sysfs", Name: path} }

// Sysctl names a variable below /proc/sys.
func Sysctl(name string) setting.Setting { return setting.Setting{Kind: "sysctl", Name: name} }

// IsNone is true for the values by which TuneD's options say "leave it".
func IsNone(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "", "none":
		return true
	}
	return false
}

// Truth reads a boolean option: True, true, 1, yes, on and their opposites.
func Truth(value string) (truth, ok bool) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "1", "true", "yes", "on", "t", "y", "enabled":
		return true, true
	case "0", "false", "no", "off", "f", "n", "disabled":
		return false, true
	}
	return false, false
}
