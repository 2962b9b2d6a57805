package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// held holds changes that a benchmark needs while it measures. Each is a transaction on trial. A
// watchdog undoes them if this process is killed, and no experiment begins before they are undone.
type held struct {
	tunings  []*prove.Tuning
	watchdog *watchdog
	lease    *os.File
	tell     func(string) // of the engine
}

// open undoes what earlier experiments left, and keeps others from beginning while this process
// executes a verb. The caller must call release, also after an error.
func (h *held) open(ctx context.Context, m *tune.Machine, verb string) (err error) {
	if how := tune.LeftBehind(m.StateDir); how != "" {
		return ui.Hinted(ui.Refused, errors.New("an experiment and its watchdog were killed before the change was undone"),
			how+"; then rm "+filepath.Join(m.StateDir, "experiment"))
	}
	if h.lease, err = tune.Lease(m.StateDir, verb); err != nil {
		return leased(m, err)
	}
	h.tell = m.Tell
	m.Wait = patience // a busy journal would look like a kernel error
	return undoExperiments(ctx, m, 0)
}

// guard starts the watchdog.
func (h *held) guard(w tune.Watchdog, deadline *journal.Try) (err error) {
	h.watchdog, err = guard(w, deadline, "", "/", h.lease)
	return err
}

// release undoes the changes, latest first, even after ctx has ended. failed describes what could
// not be done if it fails. The error is a prove.ErrTakenBack if another program undid a change first.
func (h *held) release(ctx context.Context, failed string) error {
	ctx = context.WithoutCancel(ctx)
	var errs, taken []error
	for _, t := range slices.Backward(h.tunings) {
		if err := t.Undo(ctx); errors.Is(err, prove.ErrTakenBack) {
			taken = append(taken, err)
		} else {
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if err == nil && h.watchdog != nil {
		h.watchdog.dismiss()
	}
	if h.lease != nil {
		if err == nil {
			_ = tune.End(h.lease)
		}
		_ = h.lease.Close()
	}
	*h = held{}
	if err != nil {
		return ui.Hinted(ui.Incomplete, fmt.Errorf("%s: %w", failed, err), "try again with fettle undo")
	}
	return errors.Join(taken...)
}

// end calls release after a measurement. The result of the measurement is kept if another program
// undid a change first, so that is a message, not an error.
func (h *held) end(ctx context.Context, failed string) error {
	tell := h.tell
	err := h.release(ctx, failed)
	if !errors.Is(err, prove.ErrTakenBack) {
		return err
	}
	if tell != nil {
		tell(err.Error() + " before the end; the result may include measurements without it")
	}
	return nil
}
