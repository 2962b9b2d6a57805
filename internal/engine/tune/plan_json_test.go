package tune_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// TestSavedPlans tests that an invalid edited plan is refused with the path of the wrong value,
// before anything is changed.
func TestSavedPlans(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("vm.swappiness", "60", "vm.laptop_mode", "0"))
	e := newEngine(t, h)
	s, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.PlanChanges(context.Background(), []setting.Change{set("vm.swappiness", "10"), set("vm.laptop_mode", "0")}, s)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const stale = "stale" // wants ErrStale
	for _, tt := range []struct{ from, to, want, class string }{
		{`"before":"60"`, `"before":null`, "steps[0]: the machine has changed since the plan was made: sysctl:vm.swappiness was nothing and is now 60", stale},
		{`"before":"60"`, `"before":"61"`, "sysctl:vm.swappiness was 61 and is now 60", stale},
		{`"before":"60",`, ``, "steps[0].before: missing", ""},
		{`"before":"60"`, `"before":{"txt":"60"}`, "steps[0].before: want the field text or base64", ""},
		{`"before":"60"`, `"before":60`, "steps[0].before", ""},
		{`"want":"10",`, ``, "steps[0].want: missing", ""},
		{`"machine":"` + h.Name + `"`, `"machine":"other"`, `made on machine "other"`, stale},
		{`"machine":"` + h.Name + `",`, ``, "machine: missing", ""},
		{`"steps":`, `"stages":`, "steps: missing", ""},
		{`"steps":[`, `"steps":null,"more":[`, "steps is null; want a list", ""},
		{`"generation":`, `"generations":`, "generation: missing", ""},
		{`"lifetime":"runtime"`, `"lifetime":"eternity"`, `steps[0].lifetime: "eternity": want one of`, ""},
		{`"lifetime":"runtime"`, `"lifetime":"reboot"`, `steps[0]: lifetime: sysctl:vm.swappiness has the lifetime "runtime", not "reboot"`, ""},
		{`"stage":1`, `"stage":-5`, "steps[0].stage: -5: want 1 to", ""},
		{`"stage":1`, `"stage":"first"`, "steps[0].stage: found a string; want int", ""},
		{`"action":"write"`, `"action":"overwrite"`, `steps[0].action: "overwrite"`, ""},
		{`"action":"write"`, `"action":"same"`, "steps[0]: action: same, but sysctl:vm.swappiness is 60, not 10", ""},
		{`"action":"write"`, `"op":"^","action":"write"`, `steps[0].op: "^"`, ""},
		{`"action":"write"`, `"varies":["1"],"action":"write"`, "steps[0].varies", ""},
		{`"verdict":"drifted"`, `"verdict":"fine"`, `steps[0].verdict: "fine"`, ""},
		{"sysctl:vm.laptop_mode", "sysctl:vm.swappiness", "steps[1].setting: sysctl:vm.swappiness is already set by steps[0]", ""},
		{"fettle/plan/v1", "fettle/plan/v2", `schema: "fettle/plan/v2": want "fettle/plan/v1"`, ""},
		{"}", "}} {", "", ""},
	} {
		text := strings.Replace(string(whole), tt.from, tt.to, 1)
		if text == string(whole) {
			t.Fatalf("%s is not in the plan %s", tt.from, whole)
		}
		edited, err := tune.ReadPlan([]byte(text))
		if err == nil {
			_, err = e.Apply(context.Background(), e.ApplySaved(edited), tune.ApplyOptions{Kind: journal.Apply})
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, tune.ErrStale) != (tt.class == stale) {
			t.Errorf("%s: %v, want %q", tt.to, err, tt.want)
		}
	}
	wantValue(t, e, "vm.swappiness", "60")
	if s, err := e.State(); err != nil || len(s.Txs) > 0 {
		t.Errorf("%d transactions were recorded: %v", len(s.Txs), err)
	}
	read, err := tune.ReadPlan(whole)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Apply(context.Background(), e.ApplySaved(read), tune.ApplyOptions{Kind: journal.Apply}); err != nil {
		t.Errorf("as it was: %v", err)
	}
	wantValue(t, e, "vm.swappiness", "10")
}
