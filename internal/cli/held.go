package cli

import (
	"context"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// heldWithin is how long tune waits for a running daemon to take over what an open
// descriptor has to hold. The daemon sees the new selection at once; on a busy
// machine it needs a moment.
const heldWithin = 2 * time.Second

// awaitDaemon looks whether the daemon, if one runs, has taken over the values that
// only it can hold, and says of each what is so by then. It returns at once where
// nothing is to be held.
func (m *machine) awaitDaemon(ctx context.Context, res *tune.Applied, within time.Duration) {
	var waiting []*tune.Step
	for i := range res.Plan.Steps {
		if st := &res.Plan.Steps[i]; st.Lifetime == setting.Held && st.Verdict == plugin.NeedsDaemon {
			waiting = append(waiting, st)
		}
	}
	if len(waiting) == 0 || !tune.Followed(m.engine.StateDir) {
		return
	}
	for end := time.Now().Add(within); ; {
		left := waiting[:0]
		for _, st := range waiting {
			if v, err := m.kinds.Read(ctx, st.Setting); err == nil && m.kinds.Equal(st.Setting, v, st.Want) {
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
		st.Why = "fettle's daemon runs and takes it over, but did not hold it yet: fettle verify tells when it does"
	}
}
