package balance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin/cpu"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

// restAfterMove is the time for which repeated passes leave a moved process alone, as numad does.
const restAfterMove = 5 * time.Minute

// Rest returns a function that returns why repeated passes leave a process alone, or "": its last
// move was undone, or made less than restAfterMove ago. Undos for which forget returns true are
// ignored.
func Rest(state *journal.State, now time.Time, forget func(undo *journal.Tx) bool) func(host.TaskID) string {
	last := map[setting.Setting]*journal.Tx{}
	for _, t := range state.Txs {
		for _, en := range t.Entries {
			if strings.Contains(en.Reason.Text, toNodes) {
				last[en.Setting] = t
			}
		}
	}
	return func(id host.TaskID) string {
		t := last[cpu.TaskAffinity(id)]
		if t == nil {
			return ""
		}
		undo := state.Tx(t.UndoneBy())
		switch {
		case t.Commit != nil && undo != nil && !forget(undo):
			return fmt.Sprintf("its move was undone by transaction %d", undo.ID)
		case undo == nil && now.Sub(t.Time).Abs() < restAfterMove:
			return fmt.Sprintf("moved by transaction %d less than %s min ago", t.ID, unit.Digits(restAfterMove.Minutes()))
		}
		return ""
	}
}

// Live returns the transactions that have moved processes and are not undone.
func Live(state *journal.State) (txs []*journal.Tx) {
	for _, t := range state.Live() {
		if len(t.Entries) > 0 && strings.Contains(t.Entries[0].Reason.Text, toNodes) {
			txs = append(txs, t)
		}
	}
	return txs
}

// closeEnded closes the transactions of processes that have ended, so that the journal does not grow
// without bound.
func closeEnded(ctx context.Context, e *tune.Engine) error {
	state, err := e.State()
	if err != nil {
		return err
	}
	var ids []int
	for _, t := range Live(state) {
		ended := t.Commit != nil
		for _, en := range t.Entries {
			if !ended || !strings.HasSuffix(en.Setting.Name, "/affinity") {
				continue // the other entries are of the same tasks, and slow to read
			}
			now, err := e.Kinds.Read(ctx, en.Setting)
			ended = err == nil && now.Absent
		}
		if ended {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err = e.Undo(ctx, ids...)
	if errors.Is(err, tune.ErrTakenBack) {
		return nil // by fettle undo meanwhile
	}
	return err
}
