package balance

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

// TestSwitchOff: the kernel's balancing is off during a pass, has its value afterwards, and a pass
// that was killed leaves it to the next one.
func TestSwitchOff(t *testing.T) {
	h := machine.Mounted(t, map[string]string{"/proc/sys/kernel/numa_balancing": "2\n"})
	e := &tune.Engine{Host: h, Kinds: setting.Kernel(h), StateDir: filepath.Join(t.TempDir(), "state"), Main: profile.DefaultMain(), User: "test", Reason: "test"}
	want := func(when, value string) {
		t.Helper()
		if now, err := e.Kinds.Read(t.Context(), balancing); err != nil || strings.TrimSpace(now.Text) != value {
			t.Errorf("%s: %v, want %s (%v)", when, now, value, err)
		}
	}
	if _, err := switchOff(t.Context(), e); err != nil { // killed afterwards
		t.Fatal(err)
	}
	want("killed", "0")
	restore, err := switchOff(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	want("again", "0")
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	want("restored", "2")
	if restore, err = switchOff(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Undo(t.Context()); err != nil { // fettle undo during the pass
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	want("undone", "2")
	if _, err := e.Undo(t.Context()); !errors.Is(err, tune.ErrNothing) {
		t.Errorf("left in the journal: %v", err)
	}

	// A kept value stays, and that is said.
	var said []string
	e.Tell = func(text string) { said = append(said, text) }
	e.Keep = tune.Keep{{Pattern: "sysctl:kernel.numa_balancing", Reason: "ours"}}
	if restore, err = switchOff(t.Context(), e); err != nil || restore() != nil {
		t.Fatal(err)
	}
	want("kept", "2")
	if len(said) != 1 || !strings.Contains(said[0], "kernel.numa_balancing stays on") {
		t.Errorf("said %q", said)
	}
}
