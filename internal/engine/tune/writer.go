package tune

import (
	"context"
	"maps"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
)

// writer applies one plan.
type writer struct {
	*Engine
	journal   *journal.Journal
	tx        *journal.Tx
	plan      *Plan
	fresh     bool                                 // the plan's values were read under the lock held now
	chains    map[setting.Setting][]*journal.Entry // chains before this transaction
	entries   []written
	activated programs // programs that were activated, or whose activation has begun
}

// written is one journal entry of the transaction in progress.
type written struct {
	journal.Before
	step  *Step          // nil for a coupled setting
	err   error          // error of the last write
	after *setting.Value // value read back for the verdict; nil until then
}

// foreign reports whether a setting's value differs from the one that fettle's last transaction
// left.
func (w *writer) foreign(s setting.Setting, now setting.Value) bool {
	last := top(w.chains[s])
	if last == nil || slices.ContainsFunc(w.entries, func(en written) bool { return en.Setting == s }) {
		return false
	}
	if len(last.Varies) > 0 && w.arrived(s) {
		return last.After != nil && !w.Kinds.Equal(s, *last.After, now) // the name belongs to a new device
	}
	return !w.left(last, now)
}

// arrived reports whether a setting belongs to a device that has just appeared.
func (w *writer) arrived(s setting.Setting) bool {
	return slices.ContainsFunc(w.plan.Steps, func(st Step) bool { return st.Setting == s && w.Arrived[st.Device] })
}

// run applies the plan stage by stage. Then it activates programs and reads all values back. After
// an error the caller rolls back.
func (w *writer) run(ctx context.Context) error {
	stages := map[int][]*Step{}
	for i := range w.plan.Steps {
		if s := &w.plan.Steps[i]; s.Action != None {
			stages[s.Stage] = append(stages[s.Stage], s)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(stages)) {
		if err := w.stage(ctx, stages[n]); err != nil {
			return err
		}
	}
	w.retry(ctx)
	if err := w.activateAll(ctx); err != nil {
		return err
	}
	w.readBack(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	w.revertRejected(ctx)
	return nil
}

// stage writes the before-images of its steps, and of settings that their writes also change,
// durably to the journal. Then it writes the values.
func (w *writer) stage(ctx context.Context, steps []*Step) error {
	var images []journal.Before
	var of []*Step // steps of each image; nil for a coupled setting
	recorded := map[setting.Setting]bool{}
	for _, s := range steps {
		recorded[s.Setting] = true
	}
	for _, s := range steps {
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
			s.Want = now // dynamic tuning now sets it, not this transaction
		}
		changes := !w.Kinds.Equal(s.Setting, s.Want, now)
		first := len(images)
		// A value on top of an earlier transaction also needs that transaction's coupled settings,
		// because the earlier one may be undone first.
		if changes || len(w.chains[s.Setting]) > 0 {
			for _, id := range w.Kinds.Coupled(s.Setting) {
				if recorded[id] {
					continue
				}
				v, err := w.Kinds.Read(ctx, id)
				if err != nil || v.Absent {
					continue // nothing to restore
				}
				recorded[id] = true
				ck, _ := w.Kinds.For(id)
				images = append(images, journal.Before{
					Setting: id, Before: v, Want: v, Lifetime: ck.Lifetime(), Reason: s.Reason, Foreign: w.foreign(id, v),
				})
			}
		}
		of = append(of, make([]*Step, len(images)-first)...)
		s.Activation = setting.Activation{}
		if changes {
			s.Activation, _ = w.Kinds.Activation(ctx, s.Setting)
		}
		for i := first; i < len(images); i++ {
			images[i].CoupledTo = len(w.entries) + len(images) + 1
		}
		_, outlives := kind.(setting.RebootCleaner)
		images = append(images, journal.Before{
			Setting: s.Setting, Before: now, Want: s.Want, Lifetime: kind.Lifetime(), Reason: s.Reason,
			Releases: s.Action == Release, Foreign: w.foreign(s.Setting, now), Outlives: outlives, Varies: s.Varies,
			Activation: s.Activation,
		})
		of = append(of, s)
	}
	if len(images) == 0 {
		return nil
	}
	if err := w.journal.Stage(w.tx, images); err != nil {
		return err
	}
	first := len(w.entries)
	for i, image := range images {
		w.entries = append(w.entries, written{Before: image, step: of[i]})
	}
	// Values released by the old selection are restored first, newest first. Then the new values
	// are written in the profile's order.
	batch := w.entries[first:]
	for i := range batch {
		if batch[i].Releases {
			w.write(ctx, &batch[i])
		}
	}
	for i := range batch {
		if !batch[i].Releases {
			w.write(ctx, &batch[i])
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// before returns a setting's value before this transaction writes it. In the first stage that is
// the plan's value: the lock has been held since, so no other transaction of fettle has written.
// In later stages an earlier write may have changed the value, so it is read again. So is a
// transient setting (setting.Transient), which may have ended. A program that does not take the
// lock can write between any read and the following write: the kernel has no compare-and-write.
func (w *writer) before(ctx context.Context, kind setting.Kind, s *Step) (setting.Value, error) {
	if _, transient := kind.(setting.Transient); w.fresh && len(w.entries) == 0 && !transient {
		return s.Before, nil
	}
	return kind.Read(ctx, s.Setting)
}

// write writes the value of one entry and stores the error in the entry.
func (w *writer) write(ctx context.Context, en *written) {
	if en.step == nil {
		return
	}
	// A value that was in place is written again only if an earlier write of this transaction has
	// changed it. A kernel file with another value is written without another read: writing the
	// same value twice changes nothing.
	if en.err != nil || !kernelFile(en.Setting) || w.has(en, en.Before.Before) {
		if now, err := w.Kinds.Read(ctx, en.Setting); err == nil && w.has(en, now) {
			en.err = nil
			return
		}
	}
	w.at("write:" + en.Setting.String() + ":before")
	en.err = w.warning(en.Setting, w.Kinds.Write(ctx, en.Setting, en.Want))
	w.at("write:" + en.Setting.String() + ":after")
}

// has reports whether now is the wanted value of the entry.
func (w *writer) has(en *written, now setting.Value) bool {
	like, ours := w.likeness(w.chains[en.Setting], en.Setting, en.Want, now)
	return like == setting.Same || ours != nil
}

// retry writes rejected values once more after all others: the kernel rejects a minimum above the
// maximum until the maximum has been raised.
func (w *writer) retry(ctx context.Context) {
	for i := range w.entries {
		en := &w.entries[i]
		if first := en.err; first != nil && ctx.Err() == nil {
			if w.write(ctx, en); en.err != nil {
				en.err = first // the second failure is often only a consequence
			}
		}
	}
}

// rollBack restores the values that this transaction has written and closes the transaction.
func (w *writer) rollBack() (result string, err error) {
	ctx := context.Background() // continues after Ctrl-C
	targets := make([]target, 0, len(w.entries))
	for _, en := range slices.Backward(w.entries) {
		targets = append(targets, target{setting: en.Setting, want: en.Before.Before})
	}
	if err := w.restoreSaved(w.journal.State, []*journal.Tx{w.tx}); err != nil {
		return journal.ResultIncomplete, err
	}
	left, _ := w.restore(ctx, targets)
	if left = append(left, w.reactivate(ctx)...); len(left) > 0 {
		// Without a commit the entries stay live, and the next undo tries again.
		return journal.ResultIncomplete, &IncompleteError{Left: left}
	}
	if err := w.journal.Commit(journal.Commit{ID: w.tx.ID, Time: w.Host.Clock.Now().UTC(), Result: journal.ResultRolledBack}); err != nil {
		return journal.ResultRolledBack, err
	}
	for i := range w.plan.Steps {
		if s := &w.plan.Steps[i]; s.Action != None && s.Verdict != plugin.Rejected {
			s.Verdict, s.Why = plugin.Drifted, "rolled back"
		}
	}
	return journal.ResultRolledBack, nil
}
