package tune_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/kernel"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// countedFiles counts the reads of each file, and calls written after each write.
type countedFiles struct {
	host.Files
	reads   map[string]int
	written func(p string)
}

func (c *countedFiles) ReadFile(p string) ([]byte, error) {
	c.reads[p]++
	return c.Files.ReadFile(p)
}

func (c *countedFiles) Store(p string, data []byte) error {
	err := c.Files.Store(p, data)
	if c.written != nil {
		c.written(p)
	}
	return err
}

// TestReadsOfOneWrite tests that an uncoupled setting is read when it is planned, under the lock,
// and after the write.
func TestReadsOfOneWrite(t *testing.T) {
	for _, kind := range []journal.TxKind{journal.Apply, journal.Tune} {
		h, _ := fakeMachine(t, sysctls("vm.swappiness", "60", "vm.max_map_count", "65530"))
		files := &countedFiles{Files: h.Files, reads: map[string]int{}}
		h.Files = files
		e := newEngine(t, h)
		planner := planOf(e, kind, []setting.Change{set("vm.swappiness", "10")})
		if kind == journal.Tune { // by the plug-in that profiles have
			planner = func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
				e.Plugins = []plugin.Plugin{kernel.Sysctl}
				u := profile.Unit{Name: "sysctl", Type: "sysctl", Enabled: true, Options: []profile.Option{{Name: "vm.swappiness", Value: "10"}}}
				return e.PlanProfile(ctx, &profile.Profile{Names: []string{"test"}, Units: []profile.Unit{u}}, s)
			}
		}
		if _, err := e.Apply(t.Context(), planner, tune.ApplyOptions{Kind: kind, Selection: selectionFor(kind)}); err != nil {
			t.Fatal(err)
		}
		if n := files.reads["/proc/sys/vm/swappiness"]; n != 2 {
			t.Errorf("%s: %d reads, want 2", kind, n)
		}
		wantValue(t, e, "vm.swappiness", "10")
		if _, err := e.Undo(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantValue(t, e, "vm.swappiness", "60")
	}
}

// TestBeforeImageOfAnEarlierPlan tests that a value read before the lock was taken is not the
// before-image: the setting is read again.
func TestBeforeImageOfAnEarlierPlan(t *testing.T) {
	h, dir := fakeMachine(t, sysctls("vm.swappiness", "60"))
	e := newEngine(t, h)
	early, err := e.PlanChanges(t.Context(), []setting.Change{set("vm.swappiness", "10")}, &journal.State{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "proc/sys/vm/swappiness"), []byte("30\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	planner := func(context.Context, *journal.State) (*tune.Plan, error) { return early, nil }
	if _, err := e.Apply(t.Context(), planner, tune.ApplyOptions{Kind: journal.Apply}); err != nil {
		t.Fatal(err)
	}
	wantValue(t, e, "vm.swappiness", "10")
	if _, err := e.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantValue(t, e, "vm.swappiness", "30")
}

// TestSameValueIsChangedByAWriteBefore tests a value that was right when it was planned, and that
// an earlier write of the transaction has changed: it is written again.
func TestSameValueIsChangedByAWriteBefore(t *testing.T) {
	h, dir := fakeMachine(t, sysctls("vm.swappiness", "60", "vm.max_map_count", "65530"))
	h.Files = &countedFiles{Files: h.Files, reads: map[string]int{}, written: func(p string) {
		if p == "/proc/sys/vm/swappiness" {
			if err := os.WriteFile(filepath.Join(dir, "proc/sys/vm/max_map_count"), []byte("1\n"), 0o644); err != nil {
				t.Error(err)
			}
		}
	}}
	e := newEngine(t, h)
	apply(t, e, journal.Apply, set("vm.swappiness", "10"), set("vm.max_map_count", "65530"))
	wantValue(t, e, "vm.max_map_count", "65530")
}
