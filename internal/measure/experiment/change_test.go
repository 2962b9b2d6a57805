package experiment

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUndoByHand tests the printed command that undoes a change: in a shell it does the same as
// fettle, in the right directory, or nothing without that directory.
func TestUndoByHand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a place; true")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	shell := func(line string) (string, error) {
		c := exec.Command("sh", "-c", line)
		c.Dir = elsewhere
		out, err := c.CombinedOutput()
		return string(out), err
	}
	for _, command := range []string{"pwd; pwd", "pwd # here\npwd", "if true; then\n  pwd; pwd\nfi"} {
		line := undoByHand(dir, command)
		if out, err := shell(line); err != nil || out != dir+"\n"+dir+"\n" || strings.Contains(line, "\n") {
			t.Errorf("%q: %q, %v", line, out, err)
		}
		gone := undoByHand(filepath.Join(dir, "gone"), command)
		if out, err := shell(gone); err == nil || strings.Contains(out, elsewhere) {
			t.Errorf("%q: %q, %v", gone, out, err)
		}
		// Whatever stands around it.
		if out, err := shell("false && " + line + " || echo not"); err != nil || out != "not\n" {
			t.Errorf("%q: %q, %v", line, out, err)
		}
	}
}
