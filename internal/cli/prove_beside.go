package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// patience is how long an experiment waits for a transaction of somebody else.
const patience = 30 * time.Second

// leased takes the lease. The watchdog of one that was just killed is given a moment to
// restore the machine.
func (p *proof) leased(ctx context.Context) (*os.File, error) {
	for end := time.Now().Add(10 * time.Second); ; {
		lease, err := tune.Lease(p.engine.StateDir)
		if !errors.Is(err, tune.ErrLeased) || time.Now().After(end) {
			return lease, err
		}
		if x := tune.Holder(p.engine.StateDir); x != nil && !x.Restoring {
			if _, gone := os.Stat(fmt.Sprintf("/proc/%d", x.PID)); gone == nil {
				return nil, err
			}
		}
		if wait(ctx, 20*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// besideExperiment is the error of a measurement while another one switches values to and
// fro, or has left that to its watchdog.
func besideExperiment(x *tune.Leaseholder) error {
	who := fmt.Sprintf("process %d", x.PID)
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", x.PID)); err == nil && len(line) > 0 && !x.Restoring {
		who += ": " + strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
	}
	switch {
	case x.PID == 0:
		return ui.Hinted(ui.Busy, fmt.Errorf("%w: each would disturb the other", tune.ErrLeased), "fettle status shows it; wait for its end")
	case x.Restoring:
		return ui.Hinted(ui.Busy, fmt.Errorf("%w: it has ended, and its watchdog is still undoing its change (%s)", tune.ErrLeased, who), "wait a moment; fettle status says when that is done")
	}
	return ui.Hinted(ui.Busy, fmt.Errorf("%w (%s): each would disturb the other", tune.ErrLeased, who), fmt.Sprintf("wait for its end, or interrupt it, which restores the machine: kill -INT %d", x.PID))
}

// leaseTaken says of the error of a lease who has it, and what can be done.
func (m *machine) leaseTaken(err error) error {
	if x := tune.Holder(m.engine.StateDir); errors.Is(err, tune.ErrLeased) && x != nil {
		return besideExperiment(x)
	}
	return err
}

// unrehearsed is the error of a change that cannot be made, or taken back: nothing has
// been measured, and there is no record.
func (p *proof) unrehearsed(ctx context.Context, err error) error {
	if errors.As(err, new(*prove.Stuck)) {
		return p.stuck(err)
	}
	p.dismiss()
	switch {
	case ctx.Err() != nil:
		return ui.Exit(ui.Interrupted, errors.New("interrupted: the machine is as it was, and nothing was measured"))
	case errors.Is(err, journal.ErrBusy), errors.Is(err, tune.ErrLeased):
		return err
	}
	return ui.Exit(ui.RolledBack, fmt.Errorf("%w; it is undone, and nothing was measured", err))
}

// stuck is the error of a change that is not undone.
func (p *proof) stuck(err error) error {
	if p.o.UndoCmd != "" {
		return ui.Hinted(ui.Incomplete, err, "the watchdog tries for ten minutes more; by hand: "+p.o.UndoCmd)
	}
	return ui.Hinted(ui.Incomplete, err, "the watchdog tries for ten minutes more; fettle undo tries too")
}
