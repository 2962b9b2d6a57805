package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/host/hosttest"
)

// A program that starts itself anew (as HAProxy's master does whenever it is told,
// and once more when its worker runs) has no arguments for a moment: it is seen with
// them all the same.
func TestFindStartsItself(t *testing.T) {
	const name = "fettle-anew"
	dir := t.TempDir()
	script := filepath.Join(dir, name)
	hosttest.WriteFile(t, dir, name, "#!/bin/sh\nexec \"$0\" \"$@\"\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(script, "-f", "/etc/web")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	h := host.Live()
	for n := range 200 {
		p, err := Numbered(h, c.Process.Pid)
		if last := len(p.Argv) - 1; err != nil || last < 2 || p.Argv[last] != "/etc/web" {
			t.Fatalf("reading %d: %q, %v", n, p.Argv, err)
		}
	}
}
