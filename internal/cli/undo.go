package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/quiet"
	"fettle.dev/fettle/internal/ui"
)

// UndoResult is the JSON form of fettle undo.
type UndoResult struct {
	Schema   string      `json:"schema"` // fettle/undo/v1
	Headline ui.Headline `json:"headline"`
	*tune.Undone
	// Missed are the jobs that were due while fettle quiet had stopped their timers.
	Missed []quiet.Missed `json:"missed_jobs,omitempty"`
}

func undoCommand(a *app) *cobra.Command {
	var details, dry bool
	c := &cobra.Command{
		Use: "undo [TRANSACTION...]", Short: "Restore all values from before fettle, or undo one change",
		Long: `Restores the values before fettle's changes. Without TRANSACTION it undoes all of them.
With TRANSACTION it undoes only this; values set by later transactions stay. A value
that another program has changed since is kept and listed. Old values that stay in force
until a reboot, or until a program ends, are listed too.`,
		RunE: func(c *cobra.Command, args []string) error {
			ids := make([]int, len(args))
			for i, s := range args {
				n, err := strconv.Atoi(s)
				if err != nil || n < 1 {
					return ui.Hinted(ui.Usage, fmt.Errorf("%q is not a transaction number", s), "fettle history lists all transactions")
				}
				ids[i] = n
			}
			if dry {
				return a.planUndo(c.Context(), ids)
			}
			return a.undo(c.Context(), ids, details)
		},
	}
	c.Flags().BoolVar(&details, "details", false, "also list the restored values")
	c.Flags().BoolVar(&dry, "dry-run", false, "show which values would be restored, and change nothing")
	return c
}

func (a *app) planUndo(ctx context.Context, ids []int) error {
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	s, err := m.ReadState()
	if err != nil {
		return err
	}
	u, err := m.PlanUndo(ctx, s, ids...)
	if err != nil {
		return err
	}
	doc := UndoResult{Schema: "fettle/undo/v1", Headline: u.Summarize(), Undone: u}
	if a.data() {
		return a.result(doc, nil)
	}
	tune.PrintUndone(a.screen, u, &doc.Headline, false)
	return nil
}

func (a *app) undo(ctx context.Context, ids []int, details bool) error {
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	if s, err := m.Engine.State(); err == nil {
		m.WarnTruncated(s) // the lock removes the truncated end
	}
	if x := tune.Holder(m.Engine.StateDir); x != nil {
		then := "it ends if its change is undone, and other restored values may distort it"
		if x.Verb == "quiet" {
			then = "its command goes on, with the restored values"
		}
		a.screen.Say("%s is running (process %d); %s", x.Name(), x.PID, then)
	}
	// An interrupted undo would leave a mixed state.
	u, err := m.Engine.Undo(context.WithoutCancel(ctx), ids...)
	nothing := errors.Is(err, tune.ErrNothing)
	if nothing {
		u, err = &tune.Undone{Undoes: []int{}, Result: "done", Values: []tune.UndoneValue{}}, nil
	}
	// The journal does not record what a command changed.
	if how := tune.LeftBehind(m.Engine.StateDir); how != "" && len(ids) == 0 {
		err = errors.Join(err, ui.Hinted(ui.Failed, errors.New(experiment.LeftBehind), "run "+how+"; or fettle prove --resume last"))
	} else if x := tune.Holder(m.Engine.StateDir); x != nil && x.Undo != "" && len(ids) == 0 {
		err = errors.Join(err, ui.Hinted(ui.Failed, fmt.Errorf("the change of %s may still be in force; it is not in fettle's journal, and process %d must undo it", x.Name(), x.PID), "by hand: "+x.Undo))
	} else if nothing {
		a.screen.Say("%v", tune.ErrNothing)
	}
	if u == nil {
		return err
	}
	doc := UndoResult{Schema: "fettle/undo/v1", Headline: u.Summarize(), Undone: u}
	if s, failed := m.Engine.State(); failed == nil && u.Tx != 0 {
		doc.Missed = quiet.StartMissed(context.WithoutCancel(ctx), m.Host, s, u.Undoes)
	}
	switch {
	case a.data():
		err = a.result(doc, err)
	case u.Tx != 0:
		tune.PrintUndone(a.screen, u, &doc.Headline, details)
		quiet.PrintMissed(a.screen, doc.Missed)
	}
	a.sayUnread(u.Tx, u.Result)
	return err
}
