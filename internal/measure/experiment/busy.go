package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// patience is the maximum time that an experiment waits for another transaction.
const patience = 30 * time.Second

// lease takes the lease. It waits briefly for the watchdog of an experiment that was just killed
// to restore the machine.
func lease(ctx context.Context, m *tune.Machine, verb string) (*os.File, error) {
	for end := time.Now().Add(10 * time.Second); ; {
		f, err := tune.Lease(m.StateDir, verb)
		if !errors.Is(err, tune.ErrLeased) || time.Now().After(end) {
			return f, leased(m, err)
		}
		if x := tune.Holder(m.StateDir); x != nil && !x.Restoring {
			if _, gone := os.Stat(fmt.Sprintf("/proc/%d", x.PID)); gone == nil {
				return nil, leased(m, err)
			}
		}
		if host.Sleep(ctx, 20*time.Millisecond) != nil {
			return nil, leased(m, err)
		}
	}
}

// leased adds the holder of the lease and advice to an error.
func leased(m *tune.Machine, err error) error {
	if x := tune.Holder(m.StateDir); errors.Is(err, tune.ErrLeased) && x != nil {
		return Busy(x)
	}
	return err
}

// Busy returns the error for a measurement while an experiment switches values, or while its
// watchdog still restores them.
func Busy(x *tune.Leaseholder) error {
	who := fmt.Sprintf("process %d", x.PID)
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", x.PID)); err == nil && len(line) > 0 && !x.Restoring {
		who += ": " + strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
	}
	switch {
	case x.PID == 0:
		return ui.Hinted(ui.Busy, fmt.Errorf("%w; two at once would disturb each other", x.Err()), "wait until it ends; see fettle status")
	case x.Restoring:
		return ui.Hinted(ui.Busy, fmt.Errorf("%w: its watchdog is still undoing the change (%s)", x.Err(), who), "wait a moment; fettle status shows when it is done")
	}
	return ui.Hinted(ui.Busy, fmt.Errorf("%w (%s); two at once would disturb each other", x.Err(), who), fmt.Sprintf("wait until it ends, or interrupt it (which restores the machine): kill -INT %d", x.PID))
}
