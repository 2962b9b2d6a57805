package host

import (
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestCountWork tests the counter by page faults, which every machine counts: those of a command and
// its child count, and those of this process do not.
func TestCountWork(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count := func(script string) float64 {
		c, err := countWork("page faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			root.Missing(t, "a performance counter: this user may not count (kernel.perf_event_paranoid)")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		ballast := make([]byte, 64<<20)
		for i := 0; i < len(ballast); i += 4096 {
			ballast[i] = 1
		}
		runtime.KeepAlive(ballast)
		n, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const dd = "dd if=/dev/zero of=/dev/null bs=40M count=1 2>/dev/null"
	small, large := count(":"), count("sh -c '"+dd+"; :'; :")
	// 40 MiB are 10,240 pages, or less with transparent huge pages; this process touches 16,384.
	if small > 2000 || large < small+20 || large > small+14000 {
		t.Errorf("page faults: %v of a shell, %v of a shell whose grandchild touches 40 MiB", small, large)
	}
}

// TestCountInstructions tests that twice the work takes twice the instructions, or that the machine
// is reported to lack the counter.
func TestCountInstructions(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count := func(loops string) float64 {
		c, err := CountInstructions()
		if err != nil {
			if !strings.HasPrefix(err.Error(), "cannot count instructions: ") || !strings.HasSuffix(err.Error(), "measure cpu-time") {
				t.Fatal(err)
			}
			t.Log(err)
			return 0
		}
		defer c.Close()
		if out, err := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt "+loops+" ]; do i=$((i+1)); done").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		n, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	start := count("0")
	if start == 0 {
		return // not counted
	}
	if ratio := (count("40000") - start) / (count("20000") - start); ratio < 1.95 || ratio > 2.05 {
		t.Errorf("twice the work takes %.2f times the instructions", ratio)
	}
}
