package admission

import (
	"fmt"
	"os"
	"testing"
)

// TestMain keeps all temporary directories of the package in memory where possible: each
// state that a kubelet writes waits for the disk.
func TestMain(m *testing.M) {
	if os.Getenv(endlessVariable) != "" { // in the parent's directory: this process is killed
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("/dev/shm", "admission")
	if err != nil {
		dir, err = os.MkdirTemp("", "admission")
	}
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 && *record {
		if err := thisRun.write(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
