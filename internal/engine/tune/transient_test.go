package tune_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// passing makes places that end by themselves of sysctls: their files go.
type passing struct {
	setting.Kind
	managed setting.Setting // the kernel lets nobody change it
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

// A place that has ended since is closed: the undo is complete, and nothing is
// called somebody else's change.
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

// What ends between the plan and the write, and what only the write shows to be
// impossible, is unsupported and no failure.
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

// A switch says nothing of what has ended.
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
