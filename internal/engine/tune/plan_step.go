package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// item converts one item of a plug-in to a step: it resolves the setting, reads it and decides.
func (b *builder) item(ctx context.Context, it plugin.Item, unit string) {
	if it.Fence {
		defer func() { b.stage++ }()
	}
	step := Step{
		Setting: it.Change.Setting, Want: it.Change.Want, Op: it.Change.Op, Reason: it.Change.Reason,
		Unit: unit, Device: it.Device, Stage: b.stage, Why: it.Why,
	}
	if it.Verdict != "" {
		step.Action, step.Verdict = None, it.Verdict
		step.Before = setting.Absent
		if it.Change.Setting.Kind != plugin.OptionKind {
			_ = step.read(b.Kinds.Read(ctx, it.Change.Setting)) // does not change the verdict
		}
		if step.Before.Absent && (it.Verdict == plugin.Unknown || it.Verdict == plugin.Deferred) {
			step.Before, step.Unknown = setting.Unknown, it.Why
		}
		b.add(step)
		return
	}
	id, err := b.Kinds.Resolve(it.Change.Setting)
	if err != nil {
		step.unresolved(err)
		b.add(step)
		return
	}
	if id != it.Change.Setting {
		step.Named = it.Change.Setting.String()
	}
	step.Setting = id
	kind, err := b.Kinds.For(id)
	if err != nil {
		step.unresolved(err)
		b.add(step)
		return
	}
	step.Lifetime = kind.Lifetime()
	if it.Now != nil && id == it.Change.Setting {
		err = step.read(*it.Now, nil)
	} else {
		err = step.read(kind.Read(ctx, id))
	}
	if !b.keepParts(ctx, &step, kind) {
		return
	}
	b.decide(ctx, &step, kind, err)
	b.add(step)
}

// decide sets a step's action and verdict; the strongest reason comes first.
func (b *builder) decide(ctx context.Context, step *Step, kind setting.Kind, readErr error) {
	step.Action = None
	switch {
	case readErr != nil:
		step.unreadable(readErr)
		return
	case step.Before.Absent && isKernelValue(kind) && !step.Want.Absent:
		step.Verdict = plugin.Unsupported
		step.Why = cmp.Or(step.Why, "not supported by this kernel or machine")
		return
	}
	if k, ok := b.forbids(step, kind); ok {
		step.Verdict, step.Why = k.verdict(), k.why()
		return
	}
	if kernelFile(step.Setting) && strings.Contains(step.Want.Text, "${") {
		step.Verdict, step.Why = plugin.Rejected, "cannot expand a variable or function: "+step.Want.Text
		return
	}
	if b.Overridden != nil && !b.single {
		if o, ok := b.override(ctx, step); ok {
			step.Override = &o
			step.Verdict, step.Why = plugin.Overridden, fmt.Sprintf("not written: %s sets %s", o, show(o.Value))
			if o.Setting != step.Setting {
				step.Why += " as " + o.Setting.String()
			}
			return
		}
	}
	from := step.Before
	if !b.single {
		if v, ok := b.released(step.Setting); ok {
			from = v
		}
	}
	if step.Op != setting.Set {
		want, why, err := modify(step.Op, from, step.Want)
		if err != nil {
			step.Verdict, step.Why = plugin.Rejected, err.Error()
			return
		}
		step.Want, step.Why = want, cmp.Or(step.Why, why)
	}
	if why, ok := b.Kinds.WhyIrreversible(step.Setting, step.Before, step.Want); ok {
		step.Verdict, step.Why = plugin.Refused, "cannot be undone: "+why
		return
	}
	if b.varies(step) {
		return
	}
	if step.Lifetime == setting.Held && !b.Holds {
		// The value ends with the process that holds it, so it is not in the journal. If it reads
		// as wanted, the daemon holds it.
		step.Verdict = plugin.OK
		if !b.Kinds.Equal(step.Setting, step.Want, step.Before) {
			step.Verdict = plugin.NeedsDaemon
			step.Why = cmp.Or(step.Why, "needs an open descriptor, which only fettle's daemon can keep")
		}
		return
	}
	like, ours := b.likeness(b.chains[step.Setting], step.Setting, step.Want, step.Before)
	switch {
	case ours != nil:
		step.Action, step.Verdict, step.accepted, step.Why = Same, plugin.OK, true, writtenAndRead(step.Want, step.Before)
		if like == setting.Unclear {
			step.Verdict, step.Why = plugin.Unknown, step.Why+", as before"
		}
		return
	case like == setting.Same:
		step.Action, step.Verdict = Same, plugin.OK
		return
	}
	if k, through, ok := b.Kept(step.Setting); ok && through != step.Setting {
		step.Verdict, step.Why = k.verdict(), fmt.Sprintf("writing it would change %s: %s", through, k.why())
		return
	}
	if b.readOnly(step.Setting) {
		step.Verdict, step.Why = plugin.Rejected, "read-only in this kernel, even for root"
		return
	}
	// Writing the other spelling may set this one to 0; pairs decides that.
	if why, refused := b.Kinds.Rejects(step.Setting, step.Want); refused && !(setting.Zero(step.Want) && b.Kinds.RefusesZero(step.Setting)) {
		step.Verdict, step.Why = plugin.Rejected, why
		return
	}
	step.Action, step.Verdict = Write, plugin.Drifted
	step.Activation, _ = b.Kinds.Activation(ctx, step.Setting)
}

// forbids returns the entry that keeps a step from being written. A rule does not forbid the value
// that is already in place.
func (b *builder) forbids(step *Step, kind setting.Kind) (KeepEntry, bool) {
	want := step.Want
	if step.Op != setting.Set {
		if to, _, err := modify(step.Op, step.Before, want); err == nil {
			want = to
		}
	}
	k, ok := b.Keep.Forbids(want, kind.Equal, step.Setting, step.named())
	if ok && k.Rule != "" && !step.Before.Unknown && kind.Equal(want, step.Before) {
		return KeepEntry{}, false
	}
	return k, ok
}

// kernelFile reports whether a setting is a file of the kernel.
func kernelFile(s setting.Setting) bool { return s.Kind == "sysctl" || s.Kind == "sysfs" }

// readOnly reports whether a setting is a kernel file without write permission. That also stops
// root: the kernel checks the mode before any capability (fs/proc/proc_sysctl.c test_perm;
// fs/kernfs/file.c kernfs_fop_open). It returns false for a copied directory, whose modes may come
// from the copying.
func (b *builder) readOnly(s setting.Setting) bool {
	if !b.Host.Live {
		return false
	}
	file := s.Name
	switch s.Kind {
	case "sysctl":
		p, err := setting.SysctlPath(s.Name)
		if err != nil {
			return false
		}
		file = p
	case "sysfs":
	default:
		return false
	}
	st, err := b.Host.Files.Stat(file)
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o222 == 0
}

// isKernelValue reports whether an absent value means that the kernel lacks the setting. For other
// kinds it means that a file does not exist yet.
func isKernelValue(k setting.Kind) bool { return !k.Lifetime().SurvivesBoot() }

// modify returns the value that ">N" or "<N" results in for a current value, and the reason.
func modify(op setting.Op, from, want setting.Value) (setting.Value, string, error) {
	a, errA := strconv.ParseInt(strings.TrimSpace(from.Text), 10, 64)
	w, errW := strconv.ParseInt(strings.TrimSpace(want.Text), 10, 64)
	if errW != nil {
		return want, "", fmt.Errorf("%s%s: want a whole number after %q", op, want.Text, string(op))
	}
	if errA != nil {
		return want, "", fmt.Errorf("%s%s: cannot compare: the current value %q is not a number", op, want.Text, from.Text)
	}
	if op == setting.Raise && a >= w {
		return from, fmt.Sprintf("already at least %d", w), nil
	}
	if op == setting.Lower && a <= w {
		return from, fmt.Sprintf("already at most %d", w), nil
	}
	return want, "", nil
}

// named returns the setting with its name in the profile.
func (s *Step) named() setting.Setting {
	if n, err := setting.Parse(s.Named); s.Named != "" && err == nil {
		return n
	}
	return s.Setting
}

// read stores the current value, or the reason why it could not be read.
func (s *Step) read(now setting.Value, err error) error {
	s.Before = now
	switch {
	case err == nil:
		s.Unknown = ""
	case errors.Is(err, fs.ErrNotExist):
		s.Before = setting.Absent
	default:
		s.Before, s.Unknown = setting.Unknown, errno(err)
	}
	return err
}

// unresolved decides a step whose setting could not be resolved. A name that leads outside is
// refused. Any other counts as a wrong value.
func (s *Step) unresolved(err error) {
	s.Action, s.Verdict, s.Why = None, plugin.Rejected, err.Error()
	_ = s.read(setting.Value{}, err)
	switch {
	case errors.Is(err, setting.ErrOutside):
		s.Verdict = plugin.Refused
	case errors.Is(err, fs.ErrNotExist):
		s.Verdict = plugin.Unsupported
	case host.Unknown(err), errors.Is(err, fs.ErrPermission):
		s.Verdict = plugin.Unknown
	}
}

// ended decides a step whose transient setting has ended.
func (s *Step) ended() { s.Action, s.Verdict, s.Why = None, plugin.Unsupported, EndedItself }

// unreadable decides a step whose current value cannot be read. It is not written, because it
// could not be restored.
func (s *Step) unreadable(err error) {
	switch {
	case host.Unknown(err):
		s.Verdict, s.Why = plugin.Unknown, "not recorded in this copy"
	case errors.Is(err, fs.ErrPermission):
		s.Verdict, s.Why = plugin.Unknown, "not readable: "+errno(err)
	default:
		s.Verdict, s.Why = plugin.Unsupported, "cannot be read, so undo could not restore it: "+errno(err)
	}
}
