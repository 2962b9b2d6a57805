package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"fettle.dev/fettle/internal/testkit/root"
)

// Tests builds the tests of a package ("." for the caller's) as one program that needs no
// libraries of the machine that it is Put on, and returns its path.
func Tests(t testing.TB, pkg string) string {
	t.Helper()
	return TestsFor(t, runtime.GOARCH, pkg)
}

// TestsFor builds tests like Tests, for a machine of the architecture arch ("arm64").
func TestsFor(t testing.TB, arch, pkg string) string {
	t.Helper()
	root.Real(t, "boots a virtual machine")
	program := filepath.Join(t.TempDir(), "tests")
	build := exec.Command("go", "test", "-c", "-o", program, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
