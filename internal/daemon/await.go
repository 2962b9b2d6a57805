package daemon

import (
	"context"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// HeldWithin is the time that tune waits for a running daemon to hold values that need an open
// descriptor. The daemon notices a new selection at once, but a busy machine needs time.
const HeldWithin = 2 * time.Second

// AwaitHeld waits until a running daemon holds those values of a transaction that need an open
// descriptor, and updates their verdicts. It returns at once if there are none.
func AwaitHeld(ctx context.Context, e *tune.Engine, res *tune.Applied, within time.Duration) {
	var waiting []*tune.Step
	for i := range res.Plan.Steps {
		if st := &res.Plan.Steps[i]; st.Lifetime == setting.Held && st.Verdict == plugin.NeedsDaemon {
			waiting = append(waiting, st)
		}
	}
	if len(waiting) == 0 || !tune.Followed(e.StateDir) {
		return
	}
	for end := time.Now().Add(within); ; {
		left := waiting[:0]
		for _, st := range waiting {
			if v, err := e.Kinds.Read(ctx, st.Setting); err == nil && e.Kinds.Equal(st.Setting, v, st.Want) {
				st.Verdict, st.Why = plugin.OK, "held by fettle's daemon"
				continue
			}
			left = append(left, st)
		}
		waiting = left
		if len(waiting) == 0 || ctx.Err() != nil || !time.Now().Before(end) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	for _, st := range waiting {
		st.Why = "not yet held by fettle's daemon; check with fettle verify"
	}
}
