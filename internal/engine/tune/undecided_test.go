package tune_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// TestUndecidedSection tests that an unreadable fact affects only its own section. The values of
// that section are listed as unknown and not written, values that it set before stay, and the rest
// of the profile is applied. With --atomic nothing is applied.
func TestUndecidedSection(t *testing.T) {
	h, dir := fakeMachine(t, sysctls("a.one", "0", "a.two", "0", "a.three", "0"))
	cpuinfo := filepath.Join(dir, "proc/cpuinfo")
	writeFile(t, cpuinfo, "model name\t: X\n")
	e := newEngine(t, h)
	e.Plugins = []plugin.Plugin{changesPlugin}
	unit := func(name, regex string, settings ...string) profile.Unit {
		u := profile.Unit{Name: name, Type: "changes", Enabled: true, Devices: "*", CPUInfoRegex: regex}
		for _, s := range settings {
			u.Options = append(u.Options, profile.Option{Name: s, Value: "1"})
		}
		return u
	}
	planner := func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		return e.PlanProfile(ctx, &profile.Profile{Names: []string{"test"}, Units: []profile.Unit{unit("some", "X", "a.one"), unit("all", "", "a.two", "a.three")}}, s)
	}
	o := tune.ApplyOptions{Kind: journal.Tune, Selection: selectionFor(journal.Tune)}
	if _, err := e.Apply(context.Background(), planner, o); err != nil {
		t.Fatal(err)
	}
	wantValue(t, e, "a.one", "1")
	writeFile(t, filepath.Join(dir, "proc/sys/a/two"), "5\n")

	// Not readable: a directory, because the test may run as root.
	if err := os.Remove(cpuinfo); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(cpuinfo, 0o755); err != nil {
		t.Fatal(err)
	}
	o.Atomic = true
	if _, err := e.Apply(context.Background(), planner, o); err == nil || !strings.Contains(err.Error(), "unknown whether [some] applies") || !strings.Contains(err.Error(), "nothing changed") {
		t.Errorf("with --atomic: %v, want a refusal", err)
	}
	wantValue(t, e, "a.two", "5")
	o.Atomic = false
	a, err := e.Apply(context.Background(), planner, o)
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, e, "a.one", "1")
	wantValue(t, e, "a.two", "1")
	named := 0
	for _, s := range a.Plan.Steps {
		if s.Setting == sysctl("a.one") {
			named++
			if s.Verdict != plugin.Unknown || s.Action != tune.None || !strings.Contains(s.Why, "cpuinfo") {
				t.Errorf("a.one: %s, %s: %s", s.Action, s.Verdict, s.Why)
			}
		} else if s.Verdict != plugin.OK {
			t.Errorf("%s: %s: %s", s.Setting, s.Verdict, s.Why)
		}
	}
	if named != 1 || len(a.Plan.Problems) != 1 {
		t.Errorf("named %d times, problems %v", named, a.Plan.Problems)
	}
	undo(t, e)
	wantValue(t, e, "a.one", "0")
}

// TestDetermined tests that one readable setting shows that there is a machine, even if its value
// is known only when applied.
func TestDetermined(t *testing.T) {
	place := setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}
	for _, c := range []struct {
		verdict plugin.Verdict
		before  setting.Value
		want    bool
	}{
		{"", setting.Text("60"), true},
		{plugin.Deferred, setting.Text("60"), true},
		{plugin.Deferred, setting.Unknown, false},
		{plugin.Unknown, setting.Unknown, false},
	} {
		p := tune.Plan{Steps: []tune.Step{{Setting: place, Before: c.before, Verdict: c.verdict}}}
		if got := p.Determined(); got != c.want {
			t.Errorf("%s, before %v: %v", c.verdict, c.before, got)
		}
	}
}
