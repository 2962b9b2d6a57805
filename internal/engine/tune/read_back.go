package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
)

// readBack reads every written setting and stores the verdicts in the plan.
func (w *writer) readBack(ctx context.Context) {
	w.readZeros(ctx)
	for i := range w.entries {
		en := &w.entries[i]
		kind, err := w.Kinds.For(en.Setting)
		if err != nil || en.step == nil {
			continue
		}
		s := en.step
		now, err := kind.Read(ctx, en.Setting)
		if err == nil {
			en.after = &now
		}
		switch {
		case err == nil && w.Kinds.Equal(en.Setting, en.Want, now):
			s.Verdict = effect(en.Lifetime)
			if ef, ok := kind.(Effecter); ok && w.Host.Live && !en.Releases {
				s.Verdict, s.Why = ef.Effect(ctx, en.Setting, en.Want)
			}
		case err == nil && setting.Ended(kind, now):
			s.Verdict, s.Why = plugin.Unsupported, EndedItself
		case errors.Is(en.err, setting.ErrUnsupported):
			s.Verdict, s.Why = plugin.Unsupported, en.err.Error()
		case en.err != nil:
			s.Verdict, s.Why = plugin.Rejected, errno(en.err)
		case err != nil:
			s.Verdict, s.Why = plugin.Unknown, errno(err)
		case w.Kinds.Compare(en.Setting, en.Want, now) == setting.Unclear:
			s.Verdict, s.Why = w.accepted(en, now)
		case !w.Kinds.Equal(en.Setting, en.Before.Before, now):
			s.Verdict, s.Why, s.Changed = plugin.Rejected, fmt.Sprintf("the kernel changes it to %s", show(now)), true
		default:
			s.Verdict, s.Why = plugin.Rejected, fmt.Sprintf("the kernel kept %s", show(now))
		}
	}
}

// accepted returns the verdict of a value in a file of unknown format: the kernel accepted it
// without an error, but it reads differently.
func (w *writer) accepted(en *written, now setting.Value) (plugin.Verdict, string) {
	why := writtenAndRead(en.Want, now)
	switch like, ours := w.likeness(w.chains[en.Setting], en.Setting, en.Want, now); {
	case ours != nil && like == setting.Same:
		return plugin.OK, why // set by an earlier write, and not written again
	case ours != nil || now == en.Before.Before:
		return plugin.Unknown, why + ", as before"
	}
	return plugin.OK, why
}

// readZeros checks the spellings of limits that were not written because the write of the other
// spelling sets them to 0.
func (w *writer) readZeros(ctx context.Context) {
	for i := range w.plan.Steps {
		s := &w.plan.Steps[i]
		if _, twin := w.Kinds.Counterpart(s.Setting); !twin || s.Action != None || s.Verdict != plugin.Drifted {
			continue
		}
		if now, err := w.Kinds.Read(ctx, s.Setting); err == nil && setting.Zero(now) {
			s.Verdict = plugin.OK
		}
	}
}

// revertRejected restores values that a failed write changed anyway: of "5 ; c" the kernel accepts
// the 5 and then reports an error. It runs last, since a retry may have succeeded.
func (w *writer) revertRejected(ctx context.Context) {
	var targets []target
	failed := map[setting.Setting]*Step{}
	for _, en := range slices.Backward(w.entries) {
		main := en
		if en.step == nil {
			main = w.entries[en.CoupledTo-1]
		}
		if main.err == nil || main.Releases || main.step.Verdict != plugin.Rejected {
			continue
		}
		if now, err := w.Kinds.Read(ctx, main.Setting); err == nil && w.Kinds.Equal(main.Setting, main.Before.Before, now) {
			continue // no part was accepted
		}
		targets = append(targets, target{setting: en.Setting, want: en.Before.Before})
		failed[en.Setting] = main.step
	}
	if len(targets) == 0 {
		return
	}
	left, _ := w.restore(ctx, targets)
	for i := range w.entries {
		w.entries[i].after = nil
	}
	for _, l := range left {
		if now, err := w.Kinds.Read(ctx, l.Setting); err == nil {
			failed[l.Setting].Why += fmt.Sprintf("; but %s is now %s and cannot be restored to %s: %s", l.Setting, show(now), show(l.Want), errno(l.Err))
		}
	}
}

// effect returns the verdict of a value that is in place but may take effect later.
func effect(l setting.Lifetime) plugin.Verdict {
	switch l {
	case setting.Restart:
		return plugin.NeedsRestart
	case setting.Reboot:
		return plugin.NeedsReboot
	}
	return plugin.OK
}

// outcomes returns the final value of every setting in the transaction.
func (w *writer) outcomes() []journal.Outcome {
	ctx := context.Background()
	out := make([]journal.Outcome, 0, len(w.entries))
	for _, en := range w.entries {
		if en.after == nil {
			v, err := w.Kinds.Read(ctx, en.Setting)
			if err != nil {
				continue // without an outcome the entry counts as fettle's, whatever its setting reads
			}
			en.after = &v
		}
		o := journal.Outcome{N: en.N, After: *en.after}
		if en.step != nil && en.step.Verdict != plugin.OK {
			o.Verdict, o.Why = string(en.step.Verdict), en.step.Why
		}
		out = append(out, o)
	}
	return out
}

// likeness compares a wanted value with the value read from its setting. If the texts alone do not
// decide, fettle's newest write may: it wrote the wanted value, and the setting reads as it did
// after that write. That entry is then returned, else nil.
func (e *Engine) likeness(chain []*journal.Entry, s setting.Setting, want, read setting.Value) (setting.Comparison, *journal.Entry) {
	like, last := e.Kinds.Compare(s, want, read), top(chain)
	if like != setting.Unclear || last == nil || last.CoupledTo != 0 || last.After == nil || *last.After != read || last.Want != want {
		return like, nil
	}
	switch plugin.Verdict(last.Verdict) {
	case "", plugin.OK:
		return setting.Same, last
	case plugin.Unknown:
		return setting.Unclear, last // the write had no visible effect
	}
	return like, nil
}

// top returns the newest entry of a chain, or nil.
func top(chain []*journal.Entry) *journal.Entry {
	if len(chain) == 0 {
		return nil
	}
	return chain[len(chain)-1]
}

// left reports whether now is the value that an entry left.
func (e *Engine) left(en *journal.Entry, now setting.Value) bool {
	return en.LeftBy(now, func(a, b setting.Value) bool { return e.Kinds.Equal(en.Setting, b, a) })
}

// writtenAndRead describes a value that reads differently than written.
func writtenAndRead(want, read setting.Value) string {
	return fmt.Sprintf("wrote %s, read back %s", show(want), show(read))
}
