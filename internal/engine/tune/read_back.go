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

// readBack compares every place with what was wanted and puts the verdicts into
// the plan.
func (w *writer) readBack(ctx context.Context) {
	w.zeros(ctx)
	for i := range w.entries {
		en := &w.entries[i]
		if en.step < 0 {
			continue
		}
		s := &w.plan.Steps[en.step]
		kind, err := w.Kinds.For(en.Setting)
		if err != nil {
			continue
		}
		now, err := kind.Read(ctx, en.Setting)
		if err == nil {
			en.after = &now
		}
		switch {
		case err == nil && w.same(en.Setting, en.Want, now):
			s.Verdict = effect(en.Lifetime)
			if ef, ok := kind.(Effecter); ok && w.Host.Live && !en.Releases {
				s.Verdict, s.Why = ef.Effect(ctx, en.Setting, en.Want)
			}
		case err == nil && setting.Ended(kind, now):
			s.Verdict, s.Why = plugin.Unsupported, ended
		case errors.Is(en.err, setting.ErrUnsupported):
			s.Verdict, s.Why = plugin.Unsupported, en.err.Error()
		case en.err != nil:
			s.Verdict, s.Why = plugin.Rejected, errno(en.err)
		case err != nil:
			s.Verdict, s.Why = plugin.Unknown, errno(err)
		case w.Kinds.Compare(en.Setting, en.Want, now) == setting.Unclear:
			s.Verdict, s.Why = w.accepted(en, now)
		case !w.same(en.Setting, en.Before.Before, now):
			s.Verdict, s.Why, s.Changed = plugin.Rejected, fmt.Sprintf("the kernel makes %s of it", show(now)), true
		default:
			s.Verdict, s.Why = plugin.Rejected, fmt.Sprintf("the kernel keeps %s", show(now))
		}
	}
}

// accepted is the verdict of a value that the kernel took without an error, and that
// reads otherwise in a file of which it is not known how the kernel prints it.
func (w *writer) accepted(en *written, now setting.Value) (plugin.Verdict, string) {
	why := writtenAndRead(en.Want, now)
	switch like, ours := w.likeness(w.chains[en.Setting], en.Setting, en.Want, now); {
	case ours != nil && like == setting.Same:
		return plugin.OK, why // by an earlier write, and not written again
	case ours != nil || now == en.Before.Before:
		return plugin.Unknown, why + " as before"
	}
	return plugin.OK, why
}

// zeros looks at the spellings of limits that are not written, because they become 0
// with the other one.
func (w *writer) zeros(ctx context.Context) {
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

// giveBack undoes what a write that failed has changed all the same: the kernel
// takes the beginning of "5 ; c", and complains of the rest. It comes last,
// since a retry may still have succeeded.
func (w *writer) giveBack(ctx context.Context) {
	var targets []target
	failed := map[setting.Setting]*Step{}
	for _, en := range slices.Backward(w.entries) {
		main := en
		if en.step < 0 {
			main = w.entries[en.CoupledTo-1]
		}
		s := &w.plan.Steps[main.step]
		if main.err == nil || main.Releases || s.Verdict != plugin.Rejected {
			continue
		}
		if now, err := w.Kinds.Read(ctx, main.Setting); err == nil && w.same(main.Setting, main.Before.Before, now) {
			continue // nothing of it was taken
		}
		targets = append(targets, target{setting: en.Setting, want: en.Before.Before})
		failed[en.Setting] = s
	}
	if len(targets) == 0 {
		return
	}
	left, _ := w.restore(ctx, targets)
	for i := range w.entries {
		w.entries[i].after = nil
	}
	for _, l := range left {
		now, err := w.Kinds.Read(ctx, l.Setting)
		if err != nil {
			continue
		}
		failed[l.Setting].Why += fmt.Sprintf("; yet %s is %s now, and does not go back to %s: %s", l.Setting, show(now), show(l.Want), errno(l.Err))
	}
}

// effect is the verdict of a value that is in place but may not work yet.
func effect(l setting.Lifetime) plugin.Verdict {
	switch l {
	case setting.Restart:
		return plugin.NeedsRestart
	case setting.Reboot:
		return plugin.NeedsReboot
	}
	return plugin.OK
}

// outcomes is what every place of the transaction reads in the end.
func (w *writer) outcomes() []journal.Outcome {
	ctx := context.Background()
	out := make([]journal.Outcome, 0, len(w.entries))
	for _, en := range w.entries {
		if en.after == nil {
			v, err := w.Kinds.Read(ctx, en.Setting)
			if err != nil {
				continue // no outcome: the entry stays ours whatever it reads
			}
			en.after = &v
		}
		o := journal.Outcome{N: en.N, After: *en.after}
		if en.step >= 0 {
			if s := w.plan.Steps[en.step]; s.Verdict != plugin.OK {
				o.Verdict, o.Why = string(s.Verdict), s.Why
			}
		}
		out = append(out, o)
	}
	return out
}

// likeness relates a wanted value to what its place reads. Where the texts alone do
// not tell, fettle's own newest write of that value does, which is returned then: the
// kernel accepted it, and the place reads as it did after it.
func (e *Engine) likeness(chain []*journal.Entry, s setting.Setting, want, read setting.Value) (setting.Comparison, *journal.Entry) {
	like := e.Kinds.Compare(s, want, read)
	if like != setting.Unclear || len(chain) == 0 {
		return like, nil
	}
	top := chain[len(chain)-1]
	if top.CoupledTo != 0 || top.After == nil || *top.After != read || top.Want != want {
		return like, nil
	}
	switch plugin.Verdict(top.Verdict) {
	case "", plugin.OK:
		return setting.Same, top
	case plugin.Unknown:
		return setting.Unclear, top // it had changed nothing that shows
	}
	return like, nil
}

// same reports whether a place that reads now has a value.
func (e *Engine) same(s setting.Setting, want, now setting.Value) bool {
	return e.Kinds.Equal(s, want, now)
}

// left reports whether a place reads as an entry has left it.
func (e *Engine) left(en *journal.Entry, now setting.Value) bool {
	return en.LeftBy(now, func(a, b setting.Value) bool { return e.same(en.Setting, b, a) })
}

// writtenAndRead names what was written to a place and what it reads.
func writtenAndRead(want, read setting.Value) string {
	return fmt.Sprintf("%s was written, %s is read", show(want), show(read))
}
