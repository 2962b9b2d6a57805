package tune

import (
	"context"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
)

// program is a program to reload or restart after its settings were written. kind is the setting
// kind that does it.
type program struct {
	kind string
	setting.Activation
}

func (p program) is(kind string, a setting.Activation) bool {
	return p.kind == kind && p.Program == a.Program
}

// programs lists the programs to activate after a batch of writes, each once, in the order of the
// first write.
type programs []program

// add adds a program. A restart replaces a reload of the same program.
func (p *programs) add(kind string, a setting.Activation) {
	if a.Program == "" {
		return
	}
	i := slices.IndexFunc(*p, func(q program) bool { return q.is(kind, a) })
	if i < 0 {
		*p = append(*p, program{kind, a})
	} else if a.Restart {
		(*p)[i].Restart = true
	}
}

// Activations returns, once each, the programs to reload or restart after all values of the plan
// are written.
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

// activate reloads or restarts a program and waits until it is healthy.
func (e *Engine) activate(ctx context.Context, p program) error {
	k, ok := e.Kinds[p.kind].(setting.Activator)
	if !ok {
		return fmt.Errorf("%s: %w %q", p, setting.ErrUnknownKind, p.kind)
	}
	e.at("activate:" + p.String() + ":before")
	err := k.Activate(ctx, p.Activation)
	e.at("activate:" + p.String() + ":after")
	if err != nil {
		return fmt.Errorf("%s failed: %w", p, err)
	}
	return nil
}

// activateAll activates the programs whose values this transaction has changed. It stops at the
// first program that does not become healthy; the caller then rolls back.
func (w *writer) activateAll(ctx context.Context) error {
	var all programs
	for _, en := range w.entries {
		if en.Activation.Program == "" {
			continue
		}
		if now, err := w.Kinds.Read(ctx, en.Setting); err == nil && w.Kinds.Equal(en.Setting, now, en.Before.Before) {
			continue // the write was rejected
		}
		all.add(en.Setting.Kind, en.Activation)
	}
	for _, p := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.activated = append(w.activated, p)
		if err := w.activate(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// reactivate activates programs again after a rollback, if they had been activated with the new
// values. It returns the values of programs that failed.
func (w *writer) reactivate(ctx context.Context) (left []Leftover) {
	for _, p := range w.activated {
		err := w.activate(ctx, p)
		for _, en := range w.entries {
			if err != nil && p.is(en.Setting.Kind, en.Activation) {
				left = append(left, Leftover{Setting: en.Setting, Want: en.Before.Before, Err: inFileOnly(err)})
			}
		}
	}
	return left
}

// inBoot reports whether the move was interrupted, or failed, in this boot.
func (m move) inBoot(s *journal.State, boot string) bool {
	return slices.ContainsFunc(m.entries, func(en *journal.Entry) bool {
		return en.State == journal.Failed || en.Tx.BootID == boot || slices.ContainsFunc(s.Interrupted(), func(t *journal.Tx) bool {
			return t.Kind == journal.Undo && t.BootID == boot && slices.Contains(t.Undoes, en.Tx.ID)
		})
	})
}

func inFileOnly(err error) error { return fmt.Errorf("the file is restored, but %w", err) }

// activateMoves activates the programs whose values an undo has restored. If a program fails, its
// moves become Failed and are added to left.
//
// A move that was interrupted in this boot counts as written and activated, whatever its setting
// reads: the journal names the program, which may have ended since. A program started in a later
// boot has read the restored files anyway.
func (e *Engine) activateMoves(ctx context.Context, moves []move, left []Leftover) []Leftover {
	var all programs
	of := make([]programs, len(moves)) // programs of each move
	for i, m := range moves {
		if m.state != journal.Restored || isLeft(left, m.setting) {
			continue
		}
		if !e.Kinds.Equal(m.setting, m.found, m.to) {
			if a, ok := e.Kinds.Activation(ctx, m.setting); ok {
				of[i].add(m.setting.Kind, a)
			}
		}
		if m.reactivate {
			for _, en := range m.entries {
				of[i].add(m.setting.Kind, en.Activation)
			}
		}
		for _, p := range of[i] {
			all.add(p.kind, p.Activation)
		}
	}
	for _, p := range all {
		err := e.activate(ctx, p)
		if err == nil {
			continue
		}
		for i := range moves {
			if slices.ContainsFunc(of[i], func(q program) bool { return q.is(p.kind, p.Activation) }) {
				moves[i].state, moves[i].why = journal.Failed, inFileOnly(err).Error()
				left = append(left, Leftover{Setting: moves[i].setting, Want: moves[i].to, Err: inFileOnly(err)})
			}
		}
	}
	return left
}
