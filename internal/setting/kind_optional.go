package setting

import (
	"context"
	"strings"

	"fettle.dev/fettle/internal/ui"
)

// What a kind may implement in addition to Kind, and when:
//
//	Activator         values take effect when a program reads them: reload, restart
//	Aliaser           a location has a second name of another kind
//	Comparer          each location is read and printed by the kernel in its own way
//	Decider           the value of one location decides what others hold
//	FileLister        values are kept in a file that has other lines too
//	Guarded           the kind could reach more of a machine than its plug-in does
//	KernelFileLister  locations are files of the kernel, some with second names
//	OneWayer          a write cannot be undone
//	Outliver          something is left after the boot that the location ends with
//	Refuser           it is known which values the kernel rejects
//	Restorer          an earlier value cannot be restored by Write
//	Transient         locations end by themselves and never come back
//	Tuner             a location is a program that sets locations of its own
//	Twinned           two spellings of one limit: the one written last is in force
//
// A kind whose values may be in place without effect implements tune.Effecter as well.
// The engine calls an Activator once for each program after the writes of a transaction;
// if the program is not healthy afterwards, the transaction is rolled back and the program
// told again. Undo and recovery do the same.

// Activator is a kind whose values take effect when a program is told of them: a
// database reads its file again, or only when it starts.
type Activator interface {
	// Activation says what has to be told once the value of a resolved place has
	// changed; ok is false where nothing runs that could be told, and on a copy.
	Activation(context.Context, Setting) (a Activation, ok bool)
	// Activate tells the program and waits until it has taken its values and
	// answers as a healthy one does. The kind bounds the wait. A program that
	// has ended is started where a restart is asked for.
	Activate(context.Context, Activation) error
}

// Aliaser is a kind some of whose places have a second name of another kind: the
// MTU of a network device is an attribute in /sys too. Alias gives the one
// identity of a place that another kind has resolved; ok is false where it is
// none of these. No two kinds may claim one place.
type Aliaser interface {
	Alias(Setting) (id Setting, ok bool)
}

// Comparer is a kind whose places are compared one by one, because the kernel reads
// and prints each in its own way.
type Comparer interface {
	Compare(s Setting, want, read Value) Comparison
}

// Decider is a kind some of whose settings decide what others hold: a second name of
// one variable of the kernel, or a switch above others.
type Decider interface {
	// Decides lists what other settings hold once a setting has been written. will
	// answers what a setting is going to hold.
	Decides(s Setting, want Value, will func(Setting) Value) []Decided
	// DecidedBy lists the settings for which Decides may list this one.
	DecidedBy(Setting) []Setting
}

// Decided is what a setting holds because of another one.
type Decided struct {
	Setting Setting
	Value   Value // Unknown where the two are in units that cannot be compared
	// Stays reports whether a later write to the setting changes nothing. If it does,
	// the later of the two writes holds.
	Stays bool
}

// Decides lists what other settings hold once s is want.
func (k Kinds) Decides(s Setting, want Value, will func(Setting) Value) []Decided {
	if d, ok := k[s.Kind].(Decider); ok {
		return d.Decides(s, want, will)
	}
	return nil
}

// DecidedBy lists the settings that may decide what s holds.
func (k Kinds) DecidedBy(s Setting) []Setting {
	if d, ok := k[s.Kind].(Decider); ok {
		return d.DecidedBy(s)
	}
	return nil
}

// KernelFileLister is a kind whose places are files of the kernel. KernelFiles lists all through
// which a place can be written: its own and the second names that Resolve folds
// into it. They need not exist.
type KernelFileLister interface {
	KernelFiles(Setting) []string
}

// KernelFiles lists the files through which a place can be written; none for kinds
// whose places are not the kernel's files.
func (k Kinds) KernelFiles(s Setting) []string {
	if f, ok := k[s.Kind].(KernelFileLister); ok {
		return f.KernelFiles(s)
	}
	return nil
}

// FileLister is a kind that keeps its values in files, which have a name of their own
// or other lines too; none where it is not known which.
type FileLister interface{ Files(Setting) []string }

// ErrNotSettable says that a place is none that may be asked for by its name.
var ErrNotSettable = &ui.Sentinel{Text: "not a place that fettle sets", Exits: ui.Refused}

// RequestChecker is a kind that could reach more of a machine than its plug-in does.
// MayAsk says whether a person, or a plan that somebody else may have written,
// may ask for a value of a resolved setting by its name; the error wraps
// ErrNoPlace and says what is allowed. profileDirs are the directories that
// profiles are read from. Undo and recovery do not ask: what is in the journal
// was written by fettle.
type RequestChecker interface {
	CheckRequest(s Setting, want Value, profileDirs []string) error
}

// CheckRequest says whether a value may be asked for by the setting's name.
func (k Kinds) CheckRequest(s Setting, want Value, profileDirs []string) error {
	if g, ok := k[s.Kind].(RequestChecker); ok {
		return g.CheckRequest(s, want, profileDirs)
	}
	return nil
}

// Irreversible is a kind some of whose writes cannot be taken back: they act at once
// and keep nothing, or take something along that no setting stands for. OneWay
// says why a change from one value to another is of that sort; ok is false for
// the others.
type Irreversible interface {
	WhyIrreversible(s Setting, now, want Value) (why string, ok bool)
}

// WhyIrreversible says why a change could not be taken back; ok is false for those that
// can, and where nothing would be written.
func (k Kinds) WhyIrreversible(s Setting, now, want Value) (why string, ok bool) {
	kind, isOneWayer := k[s.Kind].(Irreversible)
	if !isOneWayer || k.Equal(s, now, want) {
		return "", false
	}
	return kind.WhyIrreversible(s, now, want)
}

// RebootCleaner is a kind whose places end with the boot while something that they
// did may outlast it: the files that a script wrote.
type RebootCleaner interface {
	// CleanAfterReboot takes back what is left of a place that held a value before the
	// machine was started anew. It answers false where that value left nothing.
	CleanAfterReboot(ctx context.Context, s Setting, had Value) (did bool, err error)
}

// ValueChecker is a kind of which it is known for some settings which values a write is
// refused.
type ValueChecker interface {
	// Rejects says what a setting takes where it does not take want.
	Rejects(s Setting, want Value) (why string, refused bool)
}

// Rejects says what a setting takes where it does not take want; refused is false where
// it does, and where that is not known.
func (k Kinds) Rejects(s Setting, want Value) (why string, refused bool) {
	if r, ok := k[s.Kind].(ValueChecker); ok && !want.Absent && !want.Unknown {
		return r.Rejects(s, want)
	}
	return "", false
}

// Restorer is a kind some of whose places cannot be given back by a Write,
// because they have had a value that nobody is let ask for.
type Restorer interface {
	// Restore puts back what the place had, where a Write of that was refused.
	// On the way it writes at most places that are coupled with this one, whose
	// before-images are therefore kept too, and leaves those as it has found them.
	Restore(ctx context.Context, s Setting, had Value) error
}

// Transient is a kind whose places end by themselves and never come back, as a
// task does. There Absent means that nothing is left to set or to give back.
type Transient interface{ Transient() }

// Ended is true where a place of a transient kind is not there any more.
func Ended(k Kind, now Value) bool {
	_, transient := k.(Transient)
	return transient && now.Absent
}

// Tuner is a kind whose places are programs that set places of their own when
// they are started: another tuner. What these set then is theirs.
type Tuner interface{ Tuner() }

// Exclusive is a kind some of whose places are two spellings of one limit, such as
// vm.dirty_bytes and vm.dirty_ratio. Only one of the two is in force, the one
// written last, and the other then reads 0: a 0 says "not this spelling".
type Exclusive interface {
	Counterpart(Setting) (twin Setting, ok bool)
	// RefusesZero reports whether the kernel refuses a 0 in a spelling, which
	// becomes 0 when the other one is written.
	RefusesZero(Setting) bool
}

// Counterpart is the other spelling of a limit; ok is false for what has none.
func (k Kinds) Counterpart(s Setting) (twin Setting, ok bool) {
	if t, is := k[s.Kind].(Exclusive); is {
		return t.Counterpart(s)
	}
	return Setting{}, false
}

// RefusesZero reports whether a spelling of a limit cannot be written as 0.
func (k Kinds) RefusesZero(s Setting) bool {
	t, is := k[s.Kind].(Exclusive)
	return is && t.RefusesZero(s)
}

// Zero reports whether a value is the number 0 in any spelling of it.
func Zero(v Value) bool {
	n, ok := number(strings.TrimSpace(v.Text))
	return ok && n == 0
}
