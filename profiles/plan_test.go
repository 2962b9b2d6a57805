package profiles_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestPlugInsTakeOurProfiles plans each profile on the invented machine: no
// plug-in complains of an option or of a value.
func TestPlugInsTakeOurProfiles(t *testing.T) {
	m := root.NewMachine(t)
	unrecorded := map[string]bool{}
	machine.WriteFile(t, m.Dir, "/proc/cpuinfo", isolating["/proc/cpuinfo"])
	for _, name := range []string{"cpu-partitioning", "realtime"} {
		// It isolates tasks and queues that a copy does not have.
		unrecorded[name] = true
		file := "/etc/tuned/" + name + "-variables.conf"
		machine.WriteFile(t, m.Dir, file, isolating[file])
	}
	h := host.Mounted(m.Dir)
	e := &tune.Engine{Host: h, Kinds: table.Kinds(h), Plugins: table.All, StateDir: t.TempDir(), Main: profile.DefaultMain(), Holds: true}
	expected := []string{
		"does nothing: this machine has no ",        // the machine has no device of that kind
		"matches no unassigned device",              // nor a disk that turns
		"is known only when the profile is applied", // virt_check runs a program
	}
	for _, absent := range []string{"net", "scheduler"} { // plug-ins that are still to come
		if _, ok := plugin.Find(table.All, absent); !ok {
			expected = append(expected, `unknown plug-in "`+absent+`"`)
		}
	}
	for _, name := range want {
		plan, err := e.PlanProfile(context.Background(), load(t, name), &journal.State{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, p := range plan.Problems {
			if !slices.ContainsFunc(expected, func(s string) bool { return strings.Contains(p.Text, s) }) {
				t.Errorf("%s: %s", name, p)
			}
		}
		for _, s := range plan.Steps {
			if unrecorded[name] && s.Verdict == plugin.Unknown && slices.Contains([]string{"task", "net"}, s.Setting.Kind) {
				continue
			}
			if s.Setting.Kind == plugin.OptionKind && s.Setting.Name == "main/include" && s.Verdict == plugin.Deferred && strings.Contains(s.Why, "virt_check") {
				continue // a copy of a machine has no virt-what to run
			}
			if !slices.Contains([]plugin.Verdict{plugin.OK, plugin.Drifted, plugin.Unsupported}, s.Verdict) {
				t.Errorf("%s: %s is %s: %s", name, s.Setting, s.Verdict, s.Why)
			}
		}
		if len(plan.Steps) == 0 && name != "default" {
			t.Errorf("%s plans nothing", name)
		}
	}
}
