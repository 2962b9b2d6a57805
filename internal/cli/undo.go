package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/ui"
)

// UndoResult is the JSON form of fettle undo.
type UndoResult struct {
	Schema string `json:"schema"` // fettle/undo/v1
	*tune.Undone
}

func undoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "undo [TRANSACTION...]", Short: "Give every value back as it was before fettle, or take back single transactions",
		Long: `Without a number: back to the state before fettle's first transaction that still
stands. With a number: takes back that transaction; values that a later one has
set stay. A value that somebody else has changed since is kept and named.`,
		ValidArgsFunction: a.completeTransactions,
		RunE: func(c *cobra.Command, args []string) error {
			ids := make([]int, len(args))
			for i, s := range args {
				n, err := strconv.Atoi(s)
				if err != nil || n < 1 {
					return ui.Hinted(ui.Usage, fmt.Errorf("%q is not a transaction number", s), "fettle history lists them")
				}
				ids[i] = n
			}
			return a.undo(c.Context(), ids)
		},
	}
}

func (a *app) undo(ctx context.Context, ids []int) error {
	if err := a.mustBeLive(); err != nil {
		return err
	}
	if err := mustBeRoot(); err != nil {
		return err
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	if s, err := m.engine.State(); err == nil {
		m.sayTorn(s) // taking the lock clears it away
	}
	if x := tune.Holder(m.engine.StateDir); x != nil {
		m.screen.Say("an experiment is under way (process %d): it ends when its change is taken back, and what is given back beside that may disturb what it measures", x.PID)
	}
	// An undo goes to its end: stopping half-way would be neither state.
	u, err := m.engine.Undo(context.WithoutCancel(ctx), ids...)
	nothing := errors.Is(err, tune.ErrNothing)
	if nothing {
		u, err = &tune.Undone{Undoes: []int{}, Result: "done", Values: []tune.UndoneValue{}}, nil
	}
	// What a command has changed, the journal does not know.
	if how := tune.LeftBehind(m.engine.StateDir); how != "" && len(ids) == 0 {
		err = errors.Join(err, ui.Hinted(ui.Failed, errors.New(leftBehind), "run "+how+"; or fettle prove --resume last"))
	} else if x := tune.Holder(m.engine.StateDir); x != nil && x.Undo != "" && len(ids) == 0 {
		err = errors.Join(err, ui.Hinted(ui.Failed, fmt.Errorf("the change of an experiment, which fettle's journal does not know, may still stand: process %d is to undo it", x.PID), "by hand: "+x.Undo))
	} else if nothing {
		a.screen.Say("%v", tune.ErrNothing)
	}
	if u == nil {
		return err
	}
	switch {
	case a.data():
		err = a.result(UndoResult{"fettle/undo/v1", u}, err)
	case u.Tx != 0:
		tune.PrintUndone(a.screen, u)
	}
	a.sayUnread(u.Tx, u.Result)
	return err
}
