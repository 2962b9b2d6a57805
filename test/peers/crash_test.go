package peers

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testroot"
)

// The negative control of the crash matrix: TuneD, killed while a profile is on
// and started again, does not give the values back; fettle on the same machine
// does. If this ever fails for TuneD, the matrix says less than we think.
func TestTunedLosesWhatItHadBefore(t *testing.T) {
	machine := testroot.NewMachine(t)
	before, err := testroot.ReadTree(machine.Dir)
	if err != nil {
		t.Fatal(err)
	}
	bus := testroot.NewBus(t, testroot.Options{Machine: machine, Stubs: testroot.TunerStubs()})
	tuned := bus.StartTuned("network-latency")
	tuned.Signal("KILL")
	tuned = bus.StartTuned("balanced")
	if out, code := bus.Root.Run("tuned-adm", "off"); code != 0 {
		t.Fatalf("tuned-adm off: exit %d: %s", code, out)
	}
	tuned.Signal("TERM")
	if left := kernelValues(t, machine, before); len(left) < 5 {
		t.Errorf("TuneD left only %d values changed: %v", len(left), left)
	} else {
		t.Logf("TuneD left %d values changed", len(left))
	}

	machine = testroot.NewMachine(t)
	if before, err = testroot.ReadTree(machine.Dir); err != nil {
		t.Fatal(err)
	}
	program := testroot.Program(t, "./cmd/fettle")
	root := testroot.New(t, testroot.Options{
		Machine: machine, Stubs: testroot.TunerStubs(),
		Binds: []testroot.Bind{{Source: program, Target: "/usr/bin/fettle", ReadOnly: true}},
	})
	if out, code := root.Run("fettle", "tune", "network-latency"); code != 0 && code != 7 {
		t.Fatalf("fettle tune: exit %d: %s", code, out)
	}
	if changed := kernelValues(t, machine, before); len(changed) < 5 {
		t.Fatalf("fettle changed only %d values: %v", len(changed), changed)
	}
	root.Must("fettle", "undo")
	if left := kernelValues(t, machine, before); len(left) > 0 {
		t.Errorf("fettle left %v", left)
	}
}

// kernelValues are the differences below /proc and /sys.
func kernelValues(t *testing.T, m *testroot.Machine, before testroot.Tree) []string {
	t.Helper()
	after, err := testroot.ReadTree(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range before.Diff(after) {
		// A plain file shows what was written last; that the kernel ends a line
		// and puts brackets around a choice is its own doing.
		same := setting.ActiveWord(strings.TrimSpace(d.Before)) == setting.ActiveWord(strings.TrimSpace(d.After))
		if !same && (strings.HasPrefix(d.Path, "/proc/") || strings.HasPrefix(d.Path, "/sys/")) {
			out = append(out, d.String())
		}
	}
	return out
}
