package tune_test

import (
	"context"
	"fmt"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestContradictingLines tests two lines for one variable, or for a switch and a variable that it
// changes. fettle sets what the kernel has after both lines are written in order, and warns only
// about the line without effect. Undo is exact.
func TestContradictingLines(t *testing.T) {
	root.Disposable(t)
	pair := func(a, b string, av, bv []string) (cases [][2]setting.Change) {
		for _, x := range av {
			for _, y := range bv {
				cases = append(cases, [2]setting.Change{set(a, x), set(b, y)}, [2]setting.Change{set(b, y), set(a, x)})
			}
		}
		return cases
	}
	bits := []string{"0", "1"}
	for _, c := range [][][2]setting.Change{
		pair("net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding", bits, bits),
		pair("kernel.watchdog", "kernel.soft_watchdog", bits, bits),
		pair("net.mptcp.pm_type", "net.mptcp.path_manager", bits, []string{"kernel", "userspace"}),
		pair("net.ipv4.neigh.lo.base_reachable_time", "net.ipv4.neigh.lo.base_reachable_time_ms", []string{"30", "31"}, []string{"30000", "31500"}),
		pair("net.ipv4.neigh.lo.retrans_time", "net.ipv4.neigh.lo.retrans_time_ms", []string{"100", "90"}, []string{"1000", "1100"}),
	} {
		first, second := c[0][0].Setting, c[0][1].Setting
		t.Run(first.Name, func(t *testing.T) {
			for _, s := range []setting.Setting{first, second} {
				if v := liveRead(t, s); v == setting.Absent.String() {
					root.Missing(t, "%s: this kernel does not have it", s.Name)
				}
			}
			for _, lines := range c {
				contradicting(t, lines)
			}
		})
	}
}

func contradicting(t *testing.T, lines [2]setting.Change) {
	t.Helper()
	a, b := lines[0].Setting, lines[1].Setting
	both := func() string { return liveRead(t, a) + " " + liveRead(t, b) }
	before := both()
	had := [2]string{liveRead(t, a), liveRead(t, b)}
	for _, l := range lines {
		liveWrite(t, l.Setting, l.Want.Text)
	}
	byHand := both()
	met := map[setting.Setting]bool{}
	for _, l := range lines {
		met[l.Setting] = liveRead(t, l.Setting) == l.Want.Text
	}
	liveWrite(t, a, had[0])
	liveWrite(t, b, had[1])
	liveWrite(t, a, had[0]) // a switch is set after what it switches
	if both() != before {
		t.Fatalf("the test cannot restore %s", before)
	}
	name := fmt.Sprintf("%s=%s then %s=%s", a.Name, lines[0].Want, b.Name, lines[1].Want)
	e := newEngine(t, host.Live())
	done := apply(t, e, journal.Apply, lines[0], lines[1])
	if got := both(); got != byHand {
		t.Errorf("%s: fettle leaves %q, the writes one after the other %q", name, got, byHand)
	}
	losers := 0
	for _, st := range done.Plan.Steps {
		want := plugin.OK
		if !met[st.Setting] {
			want = plugin.Overridden
			losers++
		}
		if st.Verdict != want {
			t.Errorf("%s: %s is %s (%s), want %s", name, st.Setting, st.Verdict, st.Why, want)
		}
	}
	if len(done.Plan.Problems) != losers {
		t.Errorf("%s: %d lines have no effect, problems %v", name, losers, done.Plan.Problems)
	}
	if done.Tx > 0 {
		undo(t, e)
	}
	if got := both(); got != before {
		t.Errorf("%s: undo leaves %q, it was %q", name, got, before)
	}
}

// TestContradictsAdministrator tests that a line in an administrator's file for another name of the
// variable, or for the switch, overrides a profile's line, as one for the same name does.
func TestContradictsAdministrator(t *testing.T) {
	for _, c := range []struct {
		name         string
		file, line   [2]string
		now          string // of the line's setting
		overridden   bool
		alsoRecorded []string
	}{
		{"the other name", [2]string{"net.ipv4.conf.all.forwarding", "0"}, [2]string{"net.ipv4.ip_forward", "1"}, "0", true, nil},
		{"the other name, agreed", [2]string{"net.ipv4.conf.all.forwarding", "1"}, [2]string{"net.ipv4.ip_forward", "1"}, "0", false, nil},
		{"the switch is off", [2]string{"kernel.watchdog", "0"}, [2]string{"kernel.soft_watchdog", "1"}, "0", true, nil},
		{"the switch is on", [2]string{"kernel.watchdog", "1"}, [2]string{"kernel.soft_watchdog", "0"}, "1", true, []string{"kernel.nmi_watchdog", "0"}},
		{"the switch is on, another detector runs", [2]string{"kernel.watchdog", "1"}, [2]string{"kernel.soft_watchdog", "0"}, "1", false, []string{"kernel.nmi_watchdog", "1"}},
		{"a detector is on", [2]string{"kernel.soft_watchdog", "1"}, [2]string{"kernel.watchdog", "0"}, "1", true, nil},
		{"in another unit", [2]string{"net.ipv4.neigh.eth0.base_reachable_time_ms", "20000"}, [2]string{"net.ipv4.neigh.eth0.base_reachable_time", "30"}, "25", true, nil},
		{"in another unit, agreed", [2]string{"net.ipv4.neigh.eth0.base_reachable_time_ms", "30000"}, [2]string{"net.ipv4.neigh.eth0.base_reachable_time", "30"}, "25", false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, dir := fakeMachine(t, sysctls(append([]string{c.line[0], c.now, c.file[0], c.file[1]}, c.alsoRecorded...)...))
			e := newEngine(t, h)
			machine.WriteFile(t, dir, "/etc/sysctl.d/50-ours.conf", c.file[0]+" = "+c.file[1]+"\n")
			claims, problems := override.Read(context.Background(), h, e.Kinds, override.Sysctl)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			e.Overridden = func(s setting.Setting) (tune.Override, bool) {
				c, ok := claims.Administrator(s)
				return tune.Override{Setting: c.Setting, Value: c.Value, File: c.File, Line: c.Line}, ok
			}
			p, err := planOf(e, journal.Tune, []setting.Change{set(c.line[0], c.line[1])})(context.Background(), &journal.State{})
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Steps) != 1 || (p.Steps[0].Verdict == plugin.Overridden) != c.overridden {
				t.Errorf("steps %+v, want overridden %v", p.Steps, c.overridden)
			}
			if c.overridden && (p.Steps[0].Override == nil || p.Steps[0].Override.Setting.Name != c.file[0] || p.Steps[0].Action != tune.None) {
				t.Errorf("not the line of the file: %+v", p.Steps[0])
			}
		})
	}
}
