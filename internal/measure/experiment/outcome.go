package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// finish moves the finished record into the store. A resumable record stays outside it.
func (p *Experiment) finish() error {
	var work []string
	for _, word := range p.body.Work {
		work = append(work, evidence.EscapeInvalidUTF8(word))
	}
	p.body.Work = work
	body, err := json.Marshal(p.body)
	if err != nil {
		return err
	}
	r := p.record.Run
	r.Body, r.Verdict = body, p.body.Text
	if p.resumable() {
		// The record is kept, so that --resume can continue.
		return errors.Join(p.record.Append(stop{p.body.Ending, p.body.Error}), p.record.Close())
	}
	r.Ended = p.Host.Clock.Now().UTC()
	if err := Store(p.Machine).Finish(p.record); err != nil {
		r.ID, r.Ended = "", time.Time{}
		return fmt.Errorf("cannot save the record: %w; the measurements are in %s", err, p.record.Path)
	}
	return nil
}

// resumable reports whether the experiment can continue from its record: it was interrupted, or
// failed after its first measurement.
func (p *Experiment) resumable() bool {
	return p.body.Ending == prove.EndedInterrupted || p.body.Ending == prove.EndedFailed && len(p.body.Blocks) > 0
}

// codeOf returns the exit code of an error that ended a measurement early.
func codeOf(err error) int {
	coded := (*ui.Error)(nil)
	switch {
	case errors.Is(err, journal.ErrBusy), errors.Is(err, tune.ErrLeased):
		return ui.Busy
	case errors.As(err, new(*prove.Unswitched)):
		return ui.RolledBack
	case errors.As(err, &coded):
		return coded.Code
	}
	return ui.Failed
}

// verdict turns the ending of the experiment into an error with its exit code.
func (p *Experiment) verdict(ending prove.Ending, err error, want func(*prove.Evidence) bool) error {
	switch {
	case errors.As(err, new(*prove.Stuck)):
		return p.stuck(err)
	case ending == "":
		return err
	case ending == prove.EndedInterrupted:
		return ui.Hinted(ui.Interrupted, errors.Join(p.interrupted("measurements saved"), err), "to continue, run: fettle prove --resume "+p.record.Name())
	case ending == prove.EndedGuard:
		return ui.Exit(ui.GateNotMet, err)
	case err != nil && p.resumable():
		return ui.Hinted(codeOf(err), err, "measurements saved: fettle prove --resume "+p.record.Name()+" continues")
	case err != nil:
		return err
	case want != nil && !want(p.body):
		return ui.Exit(ui.GateNotMet, fmt.Errorf("--expect %s not met; the verdict is: %s", p.o.Expect, p.body.Text))
	}
	return nil
}

// keep applies the change permanently.
func (p *Experiment) keep(ctx context.Context) error {
	o := p.tuning.Options
	o.Try = nil
	res, err := p.Apply(ctx, p.tuning.Planner, o)
	if res == nil {
		return err
	}
	if err = res.Err(err); err == nil {
		p.Screen.Say("change kept as transaction %d; fettle undo reverts it", res.Tx)
	}
	return err
}

// unrehearsed returns the error for a change that cannot be made or undone. Nothing was measured,
// and no record exists.
func (p *Experiment) unrehearsed(ctx context.Context, err error) error {
	if errors.As(err, new(*prove.Stuck)) {
		return p.stuck(err)
	}
	p.dismiss()
	switch {
	case ctx.Err() != nil:
		return ui.Exit(ui.Interrupted, p.interrupted("nothing measured"))
	case errors.Is(err, journal.ErrBusy), errors.Is(err, tune.ErrLeased):
		return err
	}
	return ui.Exit(ui.RolledBack, fmt.Errorf("%w; the change is undone, and nothing was measured", err))
}

// interrupted returns the error for an interruption.
func (p *Experiment) interrupted(measured string) error {
	if p.o.Comparison() {
		return errors.New("interrupted; " + measured)
	}
	return errors.New("interrupted; machine restored, " + measured)
}

// stuck returns the error for a change that could not be undone.
func (p *Experiment) stuck(err error) error {
	if p.o.UndoCmd != "" {
		return ui.Hinted(ui.Incomplete, err, "the watchdog keeps trying to undo the change for ten minutes; to undo it by hand: "+p.o.UndoCmd)
	}
	return ui.Hinted(ui.Incomplete, err, "the watchdog keeps trying to undo the change for ten minutes; to undo it now: fettle undo")
}
