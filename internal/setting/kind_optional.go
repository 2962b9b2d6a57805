package setting

import (
	"context"
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/ui"
)

// What a kind may implement in addition to Kind, and when:
//
//	Activator         values take effect after a program reloads or restarts
//	Aliaser           a setting has a second name of another kind
//	Comparer          the kernel reads and prints each setting in its own way
//	Composite         a value has parts that are settings of their own
//	Decider           the value of one setting determines the values of others
//	Exclusive         two settings express one limit: the last one written is in force
//	FileLister        values are kept in a file that has other lines too
//	Irreversible      a write cannot be undone
//	KernelFileLister  settings are files of the kernel, some with second names
//	RebootCleaner     side effects remain after the reboot that ends the value
//	RequestChecker    the kind could reach more of a machine than its plug-in does
//	Restorer          an earlier value cannot be restored by Write
//	Transient         settings end by themselves and never return
//	Tuner             a setting is a program that changes further settings
//	ValueChecker      some rejections by the kernel can be predicted
//
// A kind whose values may be in place without effect implements tune.Effecter as well.
// The engine calls an Activator once per program after the writes of a transaction. If
// the program is not healthy afterwards, the transaction is rolled back and the program
// activated again. Undo and recovery do the same.

// Activator is a kind with values that take effect after a program reloads or restarts, such
// as a database.
type Activator interface {
	// Activation returns the reload or restart that a change of a resolved setting needs. ok
	// is false if the program is not running, or on a copy.
	Activation(context.Context, Setting) (a Activation, ok bool)
	// Activate reloads or restarts the program and waits until it uses its values and is
	// healthy. The kind limits the wait. A restart also starts a stopped program.
	Activate(context.Context, Activation) error
}

// Aliaser is a kind with settings that are also settings of another kind: the MTU of a network
// device is also an attribute in /sys. Alias returns the canonical setting for a setting that
// another kind has resolved. ok is false if there is no alias. Two kinds must not claim the
// same setting.
type Aliaser interface {
	Alias(Setting) (id Setting, ok bool)
}

// Comparer is a kind that compares each setting differently, because the kernel parses and
// prints each in its own way.
type Comparer interface {
	Compare(s Setting, want, read Value) Comparison
}

// Composite is a kind with values that consist of parts, such as the arguments of a kernel. A part
// is named like a setting of another kind, which only reads it, so that one part can be kept.
type Composite interface {
	// Parts returns the parts of a value in order.
	Parts(Value) []Part
	// Join returns a value with these parts instead of its own; Absent if nothing is left.
	Join(Value, []Part) Value
}

// Part is one part of a value.
type Part struct {
	Setting Setting // resolved; zero if the part is not a setting
	Value   Value
	Text    string // as it is written
	// Implies are other parts with the same effect.
	Implies []Part
}

// Decider is a kind with settings that determine the values of other settings: a second name
// of a kernel variable, or a master switch.
type Decider interface {
	// Decides lists the values that other settings have after s was set to want. will returns
	// the value that a setting will have.
	Decides(s Setting, want Value, will func(Setting) Value) []Decided
	// DecidedBy lists the settings that may determine the value of this setting.
	DecidedBy(Setting) []Setting
}

// Decided is the value of a setting that another setting determines.
type Decided struct {
	Setting Setting
	Value   Value // Unknown if the units cannot be converted
	// Stays reports whether a later write to this setting has no effect. Otherwise
	// the later of the two writes wins.
	Stays bool
}

// Decides lists the values that other settings have after s was set to want. will returns the
// value that a setting will have.
func (k Kinds) Decides(s Setting, want Value, will func(Setting) Value) []Decided {
	if d, ok := k[s.Kind].(Decider); ok {
		return d.Decides(s, want, will)
	}
	return nil
}

// DecidedBy lists the settings that may determine the value of s.
func (k Kinds) DecidedBy(s Setting) []Setting {
	if d, ok := k[s.Kind].(Decider); ok {
		return d.DecidedBy(s)
	}
	return nil
}

// KernelFileLister is a kind with settings that are kernel files. KernelFiles lists every path
// through which a setting can be written: its own path, and aliases that Resolve maps to it.
// They need not exist.
type KernelFileLister interface {
	KernelFiles(Setting) []string
}

// KernelFiles lists the paths through which a setting can be written. It returns nil for kinds
// that are not kernel files.
func (k Kinds) KernelFiles(s Setting) []string {
	if f, ok := k[s.Kind].(KernelFileLister); ok {
		return f.KernelFiles(s)
	}
	return nil
}

// FileLister is a kind that stores values in files with other names or additional lines. Files
// returns nil if the file is unknown.
type FileLister interface{ Files(Setting) []string }

// ErrNotSettable is returned for a setting that users must not request by name.
var ErrNotSettable = &ui.Sentinel{Text: "fettle does not set this", Exits: ui.Refused}

// RequestChecker is a kind that could change more of a machine than its plug-in does. CheckRequest
// returns an error for a resolved setting and value that users and external plans must not request
// by name. The error wraps ErrNotSettable and lists the allowed settings and values. profileDirs
// are the profile directories. Undo and recovery do not check: fettle wrote the journal.
type RequestChecker interface {
	CheckRequest(s Setting, want Value, profileDirs []string) error
}

// CheckRequest returns an error for a value that must not be requested by the setting's name.
func (k Kinds) CheckRequest(s Setting, want Value, profileDirs []string) error {
	if g, ok := k[s.Kind].(RequestChecker); ok {
		return g.CheckRequest(s, want, profileDirs)
	}
	return nil
}

// Irreversible is a kind with writes that cannot be undone: they act at once and store
// nothing, or have effects that no setting covers. WhyIrreversible explains why a change from
// now to want is irreversible; ok is false if it can be undone.
type Irreversible interface {
	WhyIrreversible(s Setting, now, want Value) (why string, ok bool)
}

// WhyIrreversible explains why a change cannot be undone; ok is false if it can, or if nothing
// would be written.
func (k Kinds) WhyIrreversible(s Setting, now, want Value) (why string, ok bool) {
	kind, isIrreversible := k[s.Kind].(Irreversible)
	if !isIrreversible || k.Equal(s, now, want) {
		return "", false
	}
	return kind.WhyIrreversible(s, now, want)
}

// RebootCleaner is a kind with values that end at a reboot but may leave side effects: the
// files that a script wrote.
type RebootCleaner interface {
	// CleanAfterReboot removes the side effects of a value that was in force before the
	// reboot. did is false if there was nothing to remove.
	CleanAfterReboot(ctx context.Context, s Setting, had Value) (did bool, err error)
}

// ValueChecker is a kind that can predict some rejections by the kernel.
type ValueChecker interface {
	// Rejects reports whether the kernel would reject want. why describes the accepted values.
	Rejects(s Setting, want Value) (why string, refused bool)
}

// Rejects reports whether the kernel would reject want; refused is false if that is unknown.
// why describes the accepted values.
func (k Kinds) Rejects(s Setting, want Value) (why string, refused bool) {
	if r, ok := k[s.Kind].(ValueChecker); ok && !want.Absent && !want.Unknown {
		return r.Rejects(s, want)
	}
	return "", false
}

// Restorer is a kind with settings whose previous values cannot always be written directly.
type Restorer interface {
	// Restore restores the previous value after writing it failed. It may temporarily write
	// coupled settings, whose before-images are therefore recorded too.
	Restore(ctx context.Context, s Setting, had Value) error
}

// Transient is a kind with settings that end by themselves and never return, such as tasks.
// Absent means that nothing is left to set or to restore.
type Transient interface{ Transient() }

// Ended reports whether a setting of a transient kind no longer exists.
func Ended(k Kind, now Value) bool {
	_, transient := k.(Transient)
	return transient && now.Absent
}

// Tuner is a kind with settings that are other tuners: programs that change further settings
// when they start. Those changes belong to the program.
type Tuner interface{ Tuner() }

// Exclusive is a kind with pairs of settings for the same limit, such as vm.dirty_bytes and
// vm.dirty_ratio. Only the last written setting is in force. The other reads 0, which means
// "not in use".
type Exclusive interface {
	Counterpart(Setting) (twin Setting, ok bool)
	// RefusesZero reports whether the kernel rejects a written 0, although the setting reads 0
	// after its counterpart was written.
	RefusesZero(Setting) bool
}

// Counterpart returns the other setting of a pair. ok is false if s is not in a pair.
func (k Kinds) Counterpart(s Setting) (twin Setting, ok bool) {
	if t, is := k[s.Kind].(Exclusive); is {
		return t.Counterpart(s)
	}
	return Setting{}, false
}

// RefusesZero reports whether a setting of a pair cannot be written as 0.
func (k Kinds) RefusesZero(s Setting) bool {
	t, is := k[s.Kind].(Exclusive)
	return is && t.RefusesZero(s)
}

// Zero reports whether a value is the number 0 in any notation.
func Zero(v Value) bool {
	n, ok := number(strings.TrimSpace(v.Text))
	return ok && n == 0
}

// Activation is the reload or restart by which a program applies new values. The zero value
// means that neither is needed.
type Activation struct {
	// Program is the program's name in the form of its kind: "postgresql@15-main.service".
	Program string
	// Restart reports whether a restart is needed, because the program reads the value only
	// when it starts. Otherwise a reload is enough.
	Restart bool
}

// String returns "restart of PROGRAM" or "reload of PROGRAM".
func (a Activation) String() string {
	if a.Restart {
		return "restart of " + a.Program
	}
	return "reload of " + a.Program
}

// MarshalText returns "restart:PROGRAM" or "reload:PROGRAM", and nothing for
// the zero value.
func (a Activation) MarshalText() ([]byte, error) {
	if a.Program == "" {
		return nil, nil
	}
	if a.Restart {
		return []byte("restart:" + a.Program), nil
	}
	return []byte("reload:" + a.Program), nil
}

// UnmarshalText is the inverse of MarshalText.
func (a *Activation) UnmarshalText(b []byte) error {
	*a = Activation{}
	if len(b) == 0 {
		return nil
	}
	how, program, _ := strings.Cut(string(b), ":")
	if program == "" || how != "restart" && how != "reload" {
		return fmt.Errorf("activation %q: want restart:PROGRAM or reload:PROGRAM", b)
	}
	*a = Activation{Program: program, Restart: how == "restart"}
	return nil
}

// Activation returns the reload or restart that a change of the setting needs. ok is false if
// none is needed or the program is not running.
func (k Kinds) Activation(ctx context.Context, s Setting) (a Activation, ok bool) {
	if kind, is := k[s.Kind].(Activator); is {
		if a, ok := kind.Activation(ctx, s); ok {
			return a, true
		}
	}
	return Activation{}, false
}
