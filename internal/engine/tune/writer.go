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

// writer carries out one plan.
type writer struct {
	*Engine
	journal *journal.Journal
	tx      *journal.Tx
	plan    *Plan
	fresh   bool                                 // the plan has read its values under the lock that is held
	chains  map[setting.Setting][]*journal.Entry // as they were before this one
	entries []written
	told    programs // that were told of new values, or were to be
}

// foreign is true where a place does not read as fettle's last transaction had
// left it.
func (w *writer) foreign(kind setting.Kind, s setting.Setting, now setting.Value) bool {
	chain := w.chains[s]
	if len(chain) == 0 || slices.ContainsFunc(w.entries, func(en written) bool { return en.Setting == s }) {
		return false
	}
	top := chain[len(chain)-1]
	if len(top.Varies) > 0 && w.arrived(s) {
		return top.After != nil && !w.same(s, *top.After, now) // another device has its place
	}
	return !w.left(top, now)
}

// arrived is true for a place of a device that has just come.
func (w *writer) arrived(s setting.Setting) bool {
	return slices.ContainsFunc(w.plan.Steps, func(st Step) bool { return st.Setting == s && w.Arrived[st.Device] })
}

// written is one journal entry of the transaction under way.
type written struct {
	journal.Before
	step int   // index into the plan; -1 for a coupled place
	err  error // of the last write
	// after is what the place read when its verdict was found, nil before that.
	after *setting.Value
}

func (w *writer) run(ctx context.Context) error {
	stages := map[int][]int{}
	var order []int
	for i, s := range w.plan.Steps {
		if s.Action == None {
			continue
		}
		if _, ok := stages[s.Stage]; !ok {
			order = append(order, s.Stage)
		}
		stages[s.Stage] = append(stages[s.Stage], i)
	}
	slices.Sort(order)
	for _, n := range order {
		if err := w.stage(ctx, stages[n]); err != nil {
			return err
		}
	}
	w.retry(ctx)
	if err := w.activate(ctx); err != nil {
		return err
	}
	w.readBack(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	w.giveBack(ctx)
	return nil
}

// stage takes the before-images of its steps and of what their writes change
// as well, makes them durable, and then writes.
func (w *writer) stage(ctx context.Context, steps []int) error {
	var batch []written
	main := map[setting.Setting]bool{}
	for _, i := range steps {
		main[w.plan.Steps[i].Setting] = true
	}
	seen := map[setting.Setting]bool{}
	for _, i := range steps {
		s := &w.plan.Steps[i]
		kind, err := w.Kinds.For(s.Setting)
		if err != nil {
			return err
		}
		now, err := w.before(ctx, kind, s)
		if err != nil {
			s.unreadable(err)
			s.Action = None
			continue
		}
		if setting.Ended(kind, now) {
			s.ended()
			continue
		}
		s.Before = now
		if len(s.Varies) > 0 {
			s.Want = now // what it holds from here on is not this transaction's business
		}
		first := len(batch)
		// What stands on a value that an earlier transaction brought needs what
		// came with it as well: the earlier one may be undone first.
		if !w.same(s.Setting, s.Want, now) || len(w.chains[s.Setting]) > 0 {
			for _, c := range kind.Coupled(s.Setting) {
				id, err := w.Kinds.Resolve(c)
				if err != nil || main[id] || seen[id] {
					continue
				}
				v, err := w.Kinds.Read(ctx, id)
				if err != nil || v.Absent {
					continue // nothing there that could be given back
				}
				seen[id] = true
				ck, _ := w.Kinds.For(id)
				batch = append(batch, written{step: -1, Before: journal.Before{
					Setting: id, Before: v, Want: v, Lifetime: ck.Lifetime(), Reason: s.Reason, Foreign: w.foreign(ck, id, v),
				}})
			}
		}
		s.Activation = setting.Activation{}
		if !w.same(s.Setting, s.Want, now) {
			s.Activation, _ = w.Kinds.Activation(ctx, s.Setting)
		}
		_, outlives := kind.(setting.RebootCleaner)
		n := len(w.entries) + len(batch) + 1
		for k := first; k < len(batch); k++ {
			batch[k].CoupledTo = n
		}
		batch = append(batch, written{step: i, Before: journal.Before{
			Setting: s.Setting, Before: now, Want: s.Want, Lifetime: kind.Lifetime(), Reason: s.Reason,
			Releases: s.Action == Release, Foreign: w.foreign(kind, s.Setting, now), Outlives: outlives, Varies: s.Varies,
			Activation: s.Activation,
		}})
	}
	if len(batch) == 0 {
		return nil
	}
	images := make([]journal.Before, len(batch))
	for i := range batch {
		images[i] = batch[i].Before
	}
	if err := w.journal.Stage(w.tx, images); err != nil {
		return err
	}
	first := len(w.entries)
	for i := range batch {
		batch[i].N = images[i].N
	}
	w.entries = append(w.entries, batch...)
	// What the old selection leaves goes back first, newest first; then the
	// wanted values in the profile's order.
	for i := range w.entries[first:] {
		if en := &w.entries[first+i]; en.Releases {
			w.write(ctx, en)
		}
	}
	for i := range w.entries[first:] {
		if en := &w.entries[first+i]; !en.Releases {
			w.write(ctx, en)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// before is what a place holds before this transaction writes it. In the first stage that
// is what the plan has read: it was made under the lock that is still held, so no other
// transaction of fettle, the daemon's included, has written since, and this one has not
// yet. From the second stage on an earlier write may have changed it. A program that does
// not take the lock can write between any read and the write that follows: the kernel
// cannot compare and write. What runs for a time only (setting.Transient) is looked at
// again, since most of it that ends does so meanwhile.
func (w *writer) before(ctx context.Context, kind setting.Kind, s *Step) (setting.Value, error) {
	if _, transient := kind.(setting.Transient); w.fresh && len(w.entries) == 0 && !transient {
		return s.Before, nil
	}
	return kind.Read(ctx, s.Setting)
}

func (w *writer) write(ctx context.Context, en *written) {
	if en.step < 0 {
		return
	}
	kind, err := w.Kinds.For(en.Setting)
	if err != nil {
		en.err = err
		return
	}
	// A value that was there is not written again, unless a write before this one has
	// changed it. A file of the kernel that held another value is written without a look:
	// where a write before this one has brought the value, the second changes nothing.
	if en.err != nil || !kernelFile(en.Setting) || w.has(en, en.Before.Before) {
		if now, err := kind.Read(ctx, en.Setting); err == nil && w.has(en, now) {
			en.err = nil
			return
		}
	}
	w.at("write:" + en.Setting.String() + ":before")
	en.err = w.heard(en.Setting, kind.Write(ctx, en.Setting, en.Want))
	w.at("write:" + en.Setting.String() + ":after")
}

// has reports whether a place that reads now has the value that is wanted there.
func (w *writer) has(en *written, now setting.Value) bool {
	like, ours := w.likeness(w.chains[en.Setting], en.Setting, en.Want, now)
	return like == setting.Same || ours != nil
}

// retry gives a rejected value one more chance once the others are in place:
// min above max is refused until max has been raised.
func (w *writer) retry(ctx context.Context) {
	for i := range w.entries {
		en := &w.entries[i]
		if first := en.err; first != nil && ctx.Err() == nil {
			if w.write(ctx, en); en.err != nil {
				en.err = first // the second failure is often only its consequence
			}
		}
	}
}

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

// takeBack restores what this transaction has written and closes it.
func (w *writer) takeBack() (result string, err error) {
	ctx := context.Background() // Ctrl-C has been pressed already
	targets := make([]target, 0, len(w.entries))
	for _, en := range slices.Backward(w.entries) {
		targets = append(targets, target{setting: en.Setting, want: en.Before.Before})
	}
	left, _ := w.restore(ctx, targets)
	if left = append(left, w.activateBack(ctx)...); len(left) > 0 {
		// No commit: the entries stay live, and the next undo tries again.
		return journal.ResultIncomplete, &IncompleteError{Left: left}
	}
	if err := w.journal.Commit(journal.Commit{ID: w.tx.ID, Time: w.Host.Clock.Now().UTC(), Result: journal.ResultRolledBack}); err != nil {
		return journal.ResultRolledBack, err
	}
	for i := range w.plan.Steps {
		if s := &w.plan.Steps[i]; s.Action != None && s.Verdict != plugin.Rejected {
			s.Verdict, s.Why = plugin.Drifted, "taken back"
		}
	}
	return journal.ResultRolledBack, nil
}
