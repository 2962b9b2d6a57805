package cli

import (
	"context"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
)

// numad is in the way of a plan only where that writes what numad holds.
func TestNumadInTheWay(t *testing.T) {
	h := testkitmachine.Mounted(t, map[string]string{
		"proc/1/comm":                          "systemd\n",
		"usr/lib/systemd/system/numad.service": "[Service]\n",
		"etc/systemd/system/multi-user.target.wants/numad.service": "-> /usr/lib/systemd/system/numad.service",
	})
	m := &tune.Machine{Engine: &tune.Engine{Host: h, Kinds: setting.Kernel(h), StateDir: t.TempDir()}}
	plan := func(names ...string) tune.Planner {
		return func(context.Context, *journal.State) (*tune.Plan, error) {
			p := &tune.Plan{}
			for _, name := range names {
				p.Steps = append(p.Steps, tune.Step{Setting: setting.Setting{Kind: "sysctl", Name: name}, Action: tune.Write})
			}
			return p, nil
		}
	}
	if _, err := m.OneTuner(t.Context(), false, "", m.WritesOf(t.Context(), plan("vm.swappiness"))); err != nil {
		t.Errorf("a plan that leaves alone what numad holds: %v", err)
	}
	if _, err := m.OneTuner(t.Context(), false, "", m.WritesOf(t.Context(), plan("vm.swappiness", "kernel.numa_balancing"))); ui.Code(err) != ui.Refused {
		t.Errorf("a plan with kernel.numa_balancing: %v", err)
	}
	for name, refused := range map[string]bool{"vm.swappiness": false, "kernel.numa_balancing": true} {
		p, _ := plan(name)(t.Context(), nil)
		if err := contested(t.Context(), m, p); (ui.Code(err) == ui.Refused) != refused {
			t.Errorf("fix of %s: %v", name, err)
		}
	}
}
