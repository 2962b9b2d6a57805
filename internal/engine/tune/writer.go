package tune

import (
	"context"
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
