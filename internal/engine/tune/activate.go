package tune

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
)

// program is one that has to be told that its values have changed, by the kind
// of setting that knows it.
type program struct {
	kind string
	setting.Activation
}

// programs are those that a batch of writes concerns, in the order of the first
// write; each is told once.
type programs []program

// add takes one up. A restart stands for a reload of the same program.
func (p *programs) add(kind string, a setting.Activation) {
	if a.Program == "" {
		return
	}
	i := slices.IndexFunc(*p, func(q program) bool { return q.kind == kind && q.Program == a.Program })
	if i < 0 {
		*p = append(*p, program{kind, a})
	} else if a.Restart {
		(*p)[i].Restart = true
	}
}

// Activations are what applying the plan tells once all values are written, each
// program once.
func (p *Plan) Activations() []setting.Activation {
	var all programs
	for _, s := range p.Steps {
		all.add(s.Setting.Kind, s.Activation)
	}
	var out []setting.Activation
	for _, q := range all {
		out = append(out, q.Activation)
	}
	return out
}

// tell makes a program take its values and waits for its health.
func (e *Engine) tell(ctx context.Context, p program) error {
	k, ok := e.Kinds[p.kind].(setting.Activator)
	if !ok {
		return fmt.Errorf("%s: nobody here knows how: %w %q", p, setting.ErrUnknownKind, p.kind)
	}
	e.at("activate:" + p.String() + ":before")
	err := k.Activate(ctx, p.Activation)
	e.at("activate:" + p.String() + ":after")
	if err != nil {
		return fmt.Errorf("%s failed: %w", p, err)
	}
	return nil
}

// activate tells the programs whose values this transaction has changed. The
// first that does not come back healthy ends it, and all is taken back.
func (w *writer) activate(ctx context.Context) error {
	var all programs
	for _, en := range w.entries {
		if en.Activation.Program == "" {
			continue
		}
		if now, err := w.Kinds.Read(ctx, en.Setting); err == nil && w.Kinds.Equal(en.Setting, now, en.Before.Before) {
			continue // the write was refused
		}
		all.add(en.Setting.Kind, en.Activation)
	}
	for _, p := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.told = append(w.told, p)
		if err := w.tell(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// activateBack tells the programs of a transaction that was taken back, which
// had been told of its values. What they do not take is left over.
func (w *writer) activateBack(ctx context.Context) (left []Leftover) {
	for _, p := range w.told {
		err := w.tell(ctx, p)
		for _, en := range w.entries {
			if err != nil && en.Setting.Kind == p.kind && en.Activation.Program == p.Program {
				left = append(left, Leftover{Setting: en.Setting, Want: en.Before.Before, Err: inFileOnly(err)})
			}
		}
	}
	return left
}

// inBoot is true where what was cut off, or has failed, was so in this boot.
func (m move) inBoot(s *journal.State, boot string) bool {
	return slices.ContainsFunc(m.entries, func(en *journal.Entry) bool {
		return en.State == journal.Failed || en.Tx.BootID == boot || slices.ContainsFunc(s.Interrupted(), func(t *journal.Tx) bool {
			return t.Kind == journal.Undo && t.BootID == boot && slices.Contains(t.Undoes, en.Tx.ID)
		})
	})
}

func inFileOnly(err error) error { return fmt.Errorf("it is back in the file, but %w", err) }

// activateMoves tells the programs whose values an undo has given back, and marks
// the moves whose program does not take them.
//
// What was cut off in this boot counts as written and told, whatever it reads: the
// program that was told, or was to be, is in the journal. It may have ended since.
// One that a later boot has started, or is still to start, has read the files
// anew.
func (e *Engine) activateMoves(ctx context.Context, moves []move, left []Leftover) []Leftover {
	var all programs
	of := make([]programs, len(moves)) // by move
	for i, m := range moves {
		if m.state != journal.Restored || slices.ContainsFunc(left, func(l Leftover) bool { return l.Setting == m.setting }) {
			continue
		}
		if !e.Kinds.Equal(m.setting, m.found, m.to) {
			if a, ok := e.Kinds.Activation(ctx, m.setting); ok {
				of[i].add(m.setting.Kind, a)
			}
		}
		for _, en := range m.entries {
			if m.retell {
				of[i].add(m.setting.Kind, en.Activation)
			}
		}
		for _, p := range of[i] {
			all.add(p.kind, p.Activation)
		}
	}
	for _, p := range all {
		err := e.tell(ctx, p)
		if err == nil {
			continue
		}
		for i := range moves {
			if !slices.ContainsFunc(of[i], func(q program) bool { return q.kind == p.kind && q.Program == p.Program }) {
				continue
			}
			moves[i].state, moves[i].why = journal.Failed, inFileOnly(err).Error()
			left = append(left, Leftover{Setting: moves[i].setting, Want: moves[i].to, Err: inFileOnly(err)})
		}
	}
	return left
}
