package tune_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// passing turns sysctls into settings that end by themselves: their files are removed.
type passing struct {
	setting.Kind
	managed setting.Setting // the kernel does not let it change
}

func (passing) Transient() {}

func (k passing) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	if s == k.managed {
		return fmt.Errorf("managed: %w", setting.ErrUnsupported)
	}
	if now, err := k.Read(ctx, s); err == nil && now.Absent {
		return os.ErrProcessDone
	}
	return k.Kind.Write(ctx, s, v)
}

func passingEngine(t *testing.T) (e *tune.Engine, end func(name string)) {
	h, dir := fakeMachine(t, sysctls("task.one", "0-3", "task.two", "0-3", "task.three", "0-3"))
	e = newEngine(t, h)
	e.Kinds["sysctl"] = passing{e.Kinds["sysctl"], sysctl("task.three")}
	return e, func(name string) {
		t.Helper()
		if err := os.Remove(filepath.Join(dir, "/proc/sys/task", name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUndoWhatHasEnded tests a setting that has ended: its entry is closed, the undo is complete,
// and no other program is blamed.
func TestUndoWhatHasEnded(t *testing.T) {
	e, end := passingEngine(t)
	apply(t, e, journal.Apply, set("task.one", "0-1"), set("task.two", "0-1"))
	end("two")
	u := undo(t, e)
	wantValue(t, e, "task.one", "0-3")
	states := map[string]journal.EntryState{}
	for _, v := range u.Values {
		states[v.Setting.Name] = v.State
	}
	if u.Result != journal.ResultDone || states["task.one"] != journal.Restored || states["task.two"] != journal.Closed {
		t.Errorf("%s %v", u.Result, states)
	}
	if _, err := e.Undo(context.Background()); err != tune.ErrNothing {
		t.Errorf("the entry still stands: %v", err)
	}
}

// TestApplyWhatHasEnded tests settings that end between plan and write, or that only the write
// shows to be impossible: they are unsupported, which is not an error.
func TestApplyWhatHasEnded(t *testing.T) {
	e, end := passingEngine(t)
	changes := []setting.Change{set("task.one", "0-1"), set("task.two", "0-1"), set("task.three", "0-1")}
	state, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := e.PlanChanges(context.Background(), changes, state)
	if err != nil {
		t.Fatal(err)
	}
	end("two")
	a, err := e.Apply(context.Background(), e.ApplySaved(plan), tune.ApplyOptions{Kind: journal.Apply})
	if err != nil {
		t.Fatal(err)
	}
	var got []plugin.Verdict
	for _, s := range a.Plan.Steps {
		got = append(got, s.Verdict)
	}
	if fmt.Sprint(got) != "[ok unsupported unsupported]" || a.Result != journal.ResultDone {
		t.Errorf("%v, %s", got, a.Result)
	}
	undo(t, e)
	wantValue(t, e, "task.one", "0-3")
	wantValue(t, e, "task.three", "0-3")
}

// TestReleaseWhatHasEnded tests that a switch reports nothing about settings that have ended.
func TestReleaseWhatHasEnded(t *testing.T) {
	e, end := passingEngine(t)
	apply(t, e, journal.Tune, set("task.one", "0-1"), set("task.two", "0-1"))
	end("two")
	a := apply(t, e, journal.Tune, set("task.three", "0-3"))
	if len(a.Plan.Problems) > 0 {
		t.Errorf("%v", a.Plan.Problems)
	}
	wantValue(t, e, "task.one", "0-3")
	undo(t, e)
}

// otherTuner simulates another tuner: it sets the swappiness to 30 when it starts, and restores 60
// when it stops.
type otherTuner struct {
	setting.Kind // of sysctls
	active       string
}

func (*otherTuner) Tuner() {}

func (*otherTuner) Resolve(s setting.Setting) (setting.Setting, error) { return s, nil }
func (k *otherTuner) Read(context.Context, setting.Setting) (setting.Value, error) {
	return setting.Text(k.active), nil
}

func (k *otherTuner) Write(ctx context.Context, _ setting.Setting, v setting.Value) error {
	k.active = v.Text
	sets, ok := map[string]string{"active": "30", "inactive": "60"}[v.Text]
	if !ok {
		return fmt.Errorf("state of a tuner: %q", v.Text)
	}
	return k.Kind.Write(ctx, sysctl("vm.swappiness"), setting.Text(sets))
}

func (*otherTuner) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (*otherTuner) Coupled(setting.Setting) []setting.Setting { return nil }
func (*otherTuner) Lifetime() setting.Lifetime                { return setting.File }

// TestUndoGivesBackToTuner tests that a restored tuner has the values that it sets at its start,
// not those from before fettle's transactions.
func TestUndoGivesBackToTuner(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("vm.swappiness", "30", "vm.dirty_ratio", "20"))
	e := newEngine(t, h)
	other := &otherTuner{Kind: e.Kinds["sysctl"], active: "active"}
	e.Kinds["tuner"] = other
	apply(t, e, journal.Apply, setting.Change{Setting: setting.Setting{Kind: "tuner", Name: "other"}, Want: setting.Text("inactive")})
	wantValue(t, e, "vm.swappiness", "60")
	apply(t, e, journal.Apply, set("vm.swappiness", "10"), set("vm.dirty_ratio", "40"))
	if u := undo(t, e); u.Result != journal.ResultDone {
		t.Error(u.Result)
	}
	if other.active != "active" {
		t.Errorf("the other tuner is %s", other.active)
	}
	wantValue(t, e, "vm.swappiness", "30")
	wantValue(t, e, "vm.dirty_ratio", "20")
}

// later is a machine clock that the test sets.
type later struct{ up time.Duration }

func (c *later) Now() time.Time                    { return time.Unix(0, 0).Add(c.up) }
func (c *later) SinceBoot() (time.Duration, error) { return c.up, nil }

// TestOverdueTrial tests a trial whose time is over and whose watchdog was killed: it stays until a
// command acts. status reports it as overdue, and the next transaction undoes it.
func TestOverdueTrial(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "0", "a.two", "0"))
	clock := &later{up: time.Hour}
	h.Clock = clock
	e := newEngine(t, h)
	try := &journal.Try{Until: clock.Now().Add(time.Minute), SinceBoot: clock.up + time.Minute}
	if _, err := e.Apply(context.Background(), planOf(e, journal.Tune, nil), tune.ApplyOptions{Kind: journal.Tune, Selection: selectionFor(journal.Tune), Try: try}); err != nil {
		t.Fatal(err)
	}
	overdue := func(want bool, remaining float64) {
		t.Helper()
		s, err := e.State()
		if err != nil {
			t.Fatal(err)
		}
		st, err := e.Status(context.Background(), s, nil, nil)
		if err != nil || len(st.Trials) != 1 || st.Trials[0].Overdue != want || st.Trials[0].Remaining != remaining {
			t.Fatalf("trials %+v (%v), want one, overdue %v, %v s remaining", st.Trials, err, want, remaining)
		}
	}
	overdue(false, 60)
	clock.up += 45 * time.Second
	overdue(false, 15)
	clock.up += 15 * time.Second
	overdue(true, 0)
	var reported []int
	e.Recovered = func(_ context.Context, _ *journal.State, ids []int) { reported = ids }
	if ids, err := e.Recover(context.Background()); err != nil || len(ids) != 1 || !slices.Equal(reported, ids) {
		t.Errorf("recovered %v, reported %v (%v), want the trial", ids, reported, err)
	}
}

// TestOneDaemonAtATime tests that a second daemon for the same state directory is refused, and that
// the error names the first one.
func TestOneDaemonAtATime(t *testing.T) {
	dir := stateDir(t)
	first, err := tune.Alive(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tune.Alive(dir)
	if !errors.Is(err, tune.ErrAlive) || !strings.Contains(err.Error(), fmt.Sprintf("process %d ", os.Getpid())) {
		t.Errorf("a second daemon: %v", err)
	}
	first.Close()
	again, err := tune.Alive(dir)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	again.Close()
}
