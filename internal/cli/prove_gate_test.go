package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestProveGates: of 200 gates that compare a command with itself, at most 16 fail, on this machine
// with whatever else it does.
func TestProveGates(t *testing.T) {
	testkitroot.Nightly(t, "compares a command with itself 200 times")
	work := filepath.Join(t.TempDir(), "work")
	if err := os.WriteFile(work, []byte("#!/bin/sh\ni=0; while [ $i -lt 20000 ]; do i=$((i+1)); done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i := range 200 {
		c := fettleCommand(t, "--state-dir", filepath.Join(t.TempDir(), "state"), "prove", "--force", "--a", work, "--b", work, "--expect", "no-slower", "--seed", fmt.Sprint(i), "--blocks", "30")
		out, _ := c.CombinedOutput()
		switch code := c.ProcessState.ExitCode(); code {
		case 0:
		case 3:
			failed++
		default:
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	t.Logf("%d of 200 failed", failed)
	if failed > 16 {
		t.Errorf("%d of 200 gates fail", failed)
	}
}
