package tune_test

import (
	"context"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// TestPlanOnTop: a profile on top of the selection releases nothing of it, is not overridden by a
// file, and its undo leaves the selection in force. Single changes come first.
func TestPlanOnTop(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.a", "0", "a.b", "0", "a.c", "0"))
	e := newEngine(t, h)
	apply(t, e, journal.Tune, set("a.a", "1"), set("a.b", "1"))
	e.Overridden = func(s setting.Setting) (tune.Override, bool) {
		return tune.Override{Setting: s, Value: setting.Text("9"), File: "/etc/sysctl.d/a.conf", Line: 1}, s == sysctl("a.b")
	}
	p := &profile.Profile{Names: []string{"top"}, Units: []profile.Unit{{
		Name: "changes", Type: "changes", Enabled: true, Devices: "*", Options: []profile.Option{{Name: "sysctl:a.b", Value: "2"}},
	}}}
	a, err := e.Apply(t.Context(), func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return e.PlanOnTop(ctx, []setting.Change{set("a.c", "2")}, p, s)
	}, tune.ApplyOptions{Kind: journal.Apply})
	if err != nil || len(a.Plan.Steps) != 2 || a.Plan.Steps[0].Setting != sysctl("a.c") || a.Plan.Profiles != nil {
		t.Fatalf("%+v, %v", a, err)
	}
	for name, want := range map[string]string{"a.a": "1", "a.b": "2", "a.c": "2"} {
		wantValue(t, e, name, want)
	}
	undo(t, e, a.Tx)
	for name, want := range map[string]string{"a.a": "1", "a.b": "1", "a.c": "0"} {
		wantValue(t, e, name, want)
	}
}
