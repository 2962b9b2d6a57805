package tune

import (
	"context"
	"fmt"
	"maps"

	"fettle.dev/fettle/internal/setting"
)

// target is a value that a place is to have.
type target struct {
	setting setting.Setting
	want    setting.Value
}

// restore gives the targets back: first every place, then the other tuners,
// oldest last. A tuner that starts sets places of its own at once, which it
// owns from then on, so nothing is looked at again.
func (e *Engine) restore(ctx context.Context, targets []target) (left []Leftover, vanished map[setting.Setting]bool) {
	var places, tuners []target
	for _, t := range targets {
		kind, err := e.Kinds.For(t.setting)
		if _, ok := kind.(setting.Tuner); ok && err == nil {
			tuners = append(tuners, t)
		} else {
			places = append(places, t)
		}
	}
	left, vanished = e.restorePlaces(ctx, places)
	if len(tuners) > 0 {
		more, gone := e.restorePlaces(ctx, tuners)
		left = append(left, more...)
		maps.Copy(vanished, gone)
	}
	return left, vanished
}

// restorePlaces writes the targets in order until every place reads as wanted. One
// pass is not always enough: dirty_bytes cannot be written as 0, it becomes 0
// when dirty_ratio is written; a scheduler's attributes exist only once it is
// back. What is equal already is not written. Places of the running kernel that
// are not there at the end (an unplugged disk) are returned as gone: they have
// nothing to give back.
func (e *Engine) restorePlaces(ctx context.Context, targets []target) (left []Leftover, vanished map[setting.Setting]bool) {
	vanished = map[setting.Setting]bool{}
	errs := make([]error, len(targets))
	for pass := range 3 {
		wrote := false
		for i, t := range targets {
			kind, err := e.Kinds.For(t.setting)
			if err != nil {
				errs[i] = err
				continue
			}
			if now, err := kind.Read(ctx, t.setting); err == nil && (e.same(t.setting, t.want, now) || setting.Ended(kind, now)) {
				errs[i] = nil
				continue
			}
			e.at("undo:" + t.setting.String() + ":before")
			write := kind.Write
			if r, ok := kind.(setting.Restorer); ok && pass > 0 {
				write = r.Restore
			}
			errs[i] = e.heard(t.setting, write(ctx, t.setting, t.want))
			e.at("undo:" + t.setting.String() + ":after")
			wrote = true
		}
		if !wrote {
			break
		}
	}
	for i, t := range targets {
		kind, err := e.Kinds.For(t.setting)
		var now setting.Value
		if err == nil {
			now, err = kind.Read(ctx, t.setting)
		}
		switch {
		case err == nil && (e.same(t.setting, t.want, now) || setting.Ended(kind, now)):
		case err == nil && gone(kind, now, t.want):
			vanished[t.setting] = true
		case errs[i] != nil:
			left = append(left, Leftover{Setting: t.setting, Want: t.want, Err: errs[i]})
		case err != nil:
			left = append(left, Leftover{Setting: t.setting, Want: t.want, Err: err})
		default:
			left = append(left, Leftover{Setting: t.setting, Want: t.want, Err: fmt.Errorf("the kernel keeps %s", show(now)), keeps: &now})
		}
	}
	return left, vanished
}

// gone is true for a place of the running kernel that is not there, although it
// held a value once.
func gone(k setting.Kind, now, want setting.Value) bool {
	return now.Absent && !want.Absent && !k.Lifetime().SurvivesBoot()
}
