package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Err returns the error of a transaction, with its exit code. err is the error of Apply. The
// result is nil if all values are in force.
func (a *Applied) Err(err error) error {
	all := a.Failed() + a.InForce()
	switch {
	case errors.Is(err, context.Canceled):
		return a.interrupted(err)
	case err != nil && a.Result == journal.ResultRolledBack:
		return ui.Exit(ui.RolledBack, err)
	case err != nil:
		return err
	case a.Result == journal.ResultRolledBack && a.InForce() == 0:
		return ui.Exit(ui.RolledBack, errors.New("no value could be set; transaction rolled back"))
	case a.Result == journal.ResultRolledBack:
		return ui.Exit(ui.RolledBack, errors.New("a value was rejected or does not work; all values rolled back"))
	case a.Result == journal.ResultPartial && a.Changed() > 0:
		return ui.Hinted(ui.Partial, fmt.Errorf("%d of %d values are not as requested: the kernel rejected some and changed %d", a.Failed(), all, a.Changed()), "the other values are in force; undo them with fettle undo, or use --atomic to roll back on any failure")
	case a.Result == journal.ResultPartial && a.Failed() == 0:
		return ui.Hinted(ui.Partial, fmt.Errorf("%d of %d values are written but have no effect", a.Failing(), a.InForce()), "undo all values with fettle undo, or use --atomic to roll back on any failure")
	case a.Result == journal.ResultPartial:
		return ui.Hinted(ui.Partial, fmt.Errorf("%d of %d values were rejected", a.Failed(), all), a.others())
	case a.Result == ResultNothing && a.Failed() > 0:
		return ui.Exit(ui.Failed, errors.New("no value could be set; nothing changed and no transaction was recorded"))
	case a.Result == ResultNothing:
		err := errors.New("nothing changed and no transaction was recorded")
		for _, s := range a.Plan.Steps {
			if s.Verdict == plugin.Refused || s.Verdict == plugin.Kept {
				return ui.Hinted(ui.Refused, err, text.CommandLine([]string{"fettle", "why", s.Setting.String()})+" shows the reason")
			}
		}
		return ui.Exit(ui.Failed, err)
	}
	return nil
}

// others says what became of the values that were not rejected.
func (a *Applied) others() string {
	if a.Plan.count(func(s *Step) bool { return s.Action == Write && s.Verdict != plugin.Rejected }) == 0 {
		return "no value was written; fettle undo ends the transaction"
	}
	return "the other values are in force; undo them with fettle undo, or use --atomic to roll back on any failure"
}

// interrupted returns the error of a transaction that Ctrl-C ended.
func (a *Applied) interrupted(err error) error {
	var rest []error
	if all, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // the join itself, not what is in it
		rest = slices.DeleteFunc(slices.Clone(all.Unwrap()), func(err error) bool { return errors.Is(err, context.Canceled) })
	}
	if len(rest) > 0 {
		return errors.Join(append([]error{errors.New("interrupted; some written values could not be restored. Try again with fettle undo")}, rest...)...)
	}
	return ui.Exit(ui.Interrupted, fmt.Errorf("interrupted; all values of transaction %d restored", a.Tx))
}

// AddMissing adds to a transaction's error the requested settings that this machine lacks.
func (m *Machine) AddMissing(ctx context.Context, a *Applied, err error) error {
	var missing []error
	for _, s := range a.Plan.Steps {
		if s.Verdict != plugin.Unsupported || s.Action != None {
			continue
		}
		why := fmt.Errorf("%s: %s", s.Setting, s.Why)
		if s.Before.Absent {
			if none := m.Missing(ctx, s.Setting); none != nil {
				why = errors.New(none.Error())
			}
		}
		missing = append(missing, why)
	}
	if len(missing) == 0 {
		return err
	}
	code := ui.Code(err)
	if err == nil {
		code = ui.Partial
	}
	return ui.Exit(code, errors.Join(append(missing, err)...))
}
