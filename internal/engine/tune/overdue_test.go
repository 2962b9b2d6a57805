package tune_test

import (
	"context"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
)

// later is a machine's clock that the test sets.
type later struct{ up time.Duration }

func (c *later) Now() time.Time                    { return time.Unix(0, 0).Add(c.up) }
func (c *later) SinceBoot() (time.Duration, error) { return c.up, nil }

// A trial whose time is over while its watchdog is dead stands until somebody
// acts: status says that it is overdue, and the next transaction takes it back.
func TestOverdueTrial(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "0", "a.two", "0"))
	clock := &later{up: time.Hour}
	h.Clock = clock
	e := newEngine(t, h)
	try := &journal.Try{Until: clock.Now().Add(time.Minute), SinceBoot: clock.up + time.Minute}
	if _, err := e.Apply(context.Background(), planOf(e, journal.Tune, nil), tune.ApplyOptions{Kind: journal.Tune, Selection: selectionFor(journal.Tune), Try: try}); err != nil {
		t.Fatal(err)
	}
	overdue := func(want bool) {
		t.Helper()
		s, err := e.State()
		if err != nil {
			t.Fatal(err)
		}
		st, err := e.Status(context.Background(), s, nil, nil)
		if err != nil || len(st.Trials) != 1 || st.Trials[0].Overdue != want {
			t.Fatalf("trials %+v (%v), want one, overdue %v", st.Trials, err, want)
		}
	}
	overdue(false)
	clock.up += time.Minute
	overdue(true)
	if ids, err := e.Recover(context.Background()); err != nil || len(ids) != 1 {
		t.Errorf("recovered %v (%v), want the trial", ids, err)
	}
}
