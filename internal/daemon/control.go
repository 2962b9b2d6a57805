// Package daemon keeps the selected profile in force. In: the selection in the state directory,
// device events, resume from suspend, the schedule, and calls over D-Bus and a socket. Out:
// transactions of internal/engine/tune, and TuneD's answers. Only the verb `fettle daemon` uses
// it; every other verb works without it.
//
// Packages below it:
//
//	bus       serves TuneD's name on the system bus, with polkit's decisions
//	socket    the same methods as JSON-RPC 2.0 on a unix socket
//	schedule  calendar expressions, and which profile they select at a moment; pure
package daemon

import (
	"context"
	"time"
)

// Control is the daemon as seen by clients of TuneD's bus interface and socket. Methods and
// results are TuneD's (com.redhat.tuned.control); the caller checks authorization.
type Control interface {
	// Start applies the selection. Stop reverts its values but keeps it selected. Reload reads the
	// configuration and applies the selection again. All return TuneD's results.
	Start(ctx context.Context) bool
	Stop(ctx context.Context) bool
	Reload(ctx context.Context) bool
	// Disable reverts the selection until a new one is made (tuned-adm off).
	Disable(ctx context.Context) bool
	// Switch selects profiles, separated by spaces.
	Switch(ctx context.Context, names string) (ok bool, message string)
	Auto(ctx context.Context) (ok bool, message string)
	ActiveProfile() string
	PostLoadedProfile() string
	// Mode returns "auto" or "manual", and an error text for the caller.
	Mode() (mode, failure string)
	Recommend(ctx context.Context) string
	IsRunning() bool
	Profiles(ctx context.Context) []NamedSummary
	ProfileInfo(ctx context.Context, name string) (ok bool, info Info)
	// Verify returns TuneD's strict result. ignoreMissing ignores settings that the machine lacks.
	Verify(ctx context.Context, ignoreMissing bool) bool
	// Plugins returns the options of each plug-in with their defaults.
	Plugins() map[string]map[string]string
	PluginDocumentation(name string) string
	PluginHints(name string) map[string]string
	// Instances returns the units in force as pairs of name and plug-in. If plugin is not "", it
	// returns only that plug-in's units.
	Instances(plugin string) (ok bool, message string, instances [][2]string)
	InstanceDevices(instance string) (ok bool, message string, devices []string)
	AcquireDevices(ctx context.Context, devices, instance string) (ok bool, message string)
	CreateInstance(ctx context.Context, plugin, name string, options map[string]string) (ok bool, message string)
	DestroyInstance(ctx context.Context, name string) (ok bool, message string)
	// Capture collects the daemon's messages of at least a level under a token (Python's logging:
	// 10 debug to 50 critical). It ends with CaptureEnd, which returns the messages, or after the
	// limit; 0 means unlimited.
	Capture(level int, limit time.Duration) (token string)
	CaptureEnd(token string) string
	// Changed announces every finished switch until ctx ends.
	Changed(ctx context.Context) <-chan ProfileChanged
}

// NamedSummary is a profile with its summary.
type NamedSummary struct{ Name, Summary string }

// Info is the result of profile_info.
type Info struct{ Name, Summary, Description string }

// ProfileChanged is TuneD's signal profile_changed.
type ProfileChanged struct {
	Profiles string
	OK       bool
	Message  string
}
