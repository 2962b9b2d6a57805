package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/testkit/root"
)

// TestPMUEvents reads a PMU with the layout of the kernel's cstate_core (arch/x86/events/intel/cstate.c).
func TestPMUEvents(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"type": "21\n", "cpumask": "0,2-3\n", "events/c6-residency": "event=0x02\n", "events/c7-residency": "event=0x03\n", "events/x.scale": "2.3e-10\n"} {
		p := filepath.Join(dir, pmuDir, "cstate_core", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h := Mounted(dir)
	events, cpus, err := h.PMUEvents("cstate_core")
	if err != nil || cpus.String() != "0,2-3" || len(events) != 2 || events[1] != (PMUEvent{"c7-residency", 21, 3}) {
		t.Errorf("%v on %v, %v", events, cpus, err)
	}
	if _, _, err := h.PMUEvents("cstate_pkg"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a PMU that the machine lacks: %v", err)
	}
	if _, err := h.OpenPMU(events[0], 0); !Unknown(err) {
		t.Errorf("counting on a mounted machine: %v", err)
	}
}

// TestOpenPMU counts the CPU clock, which every kernel has, and the TSC where perf offers it.
func TestOpenPMU(t *testing.T) {
	h := Live()
	events, _, err := h.PMUEvents("msr")
	if err != nil {
		events = nil
	}
	events = append(events, PMUEvent{"tsc", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK})
	for _, e := range events {
		if e.Name != "tsc" {
			continue
		}
		c, err := h.OpenPMU(e, 0)
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			root.Missing(t, "a performance counter: this user may not count (kernel.perf_event_paranoid)")
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		first, err1 := c.Count()
		second, err2 := c.Count()
		if err1 != nil || err2 != nil || second <= first {
			t.Errorf("%v: %d, then %d, %v %v", e, first, second, err1, err2)
		}
	}
}
