package admission

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// TestMain keeps all temporary directories of the package below one, which goes last: a
// manager of the kubelet, which cannot be stopped, may write its state once more, and makes
// the directory for it again, when the test that had it has removed it. It is in memory
// where possible: each state that a kubelet writes waits for the disk.
func TestMain(m *testing.M) {
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
	for range 100 { // something may be written while it is removed
		if err = os.RemoveAll(dir); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
