package activity

import (
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// futex returns a line of /proc/PID/task/TID/syscall of an x86-64 machine for this processor.
func futex(line string) string {
	return strings.Replace(line, "202", strconv.Itoa(unix.SYS_FUTEX), 1)
}

// The lines were recorded with Linux 6.1 and glibc 2.36.
var (
	waitsForMutex     = futex("202 0x7f035bf68030 0x80 0x2 0x0 0x0 0x0 0x7f035bea16b8 0x7f035c21d12b\n")
	waitsForSemaphore = futex("202 0x7f0354000b70 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc0823c540 0x7f035c21cf16\n")
)

func TestMutexWait(t *testing.T) {
	for _, c := range []struct{ text, address string }{
		{waitsForMutex, "0x7f035bf68030"},
		{futex("202 0x7f03 0x0 0x2 0x0 0x0 0x0 0x7f03 0x7f04\n"), "0x7f03"},  // between processes
		{futex("202 0x7f03 0x86 0x0 0x0 0x0 0x0 0x7f03 0x7f04\n"), "0x7f03"}, // priority inheritance
		{waitsForSemaphore, ""},
		{futex("202 0x7f03 0x80 0x2 0x7f05 0x0 0x0 0x7f03 0x7f04\n"), ""}, // with a timeout
		{futex("202 0x7f03 0x80 0x0 0x0 0x0 0x0 0x7f03 0x7f04\n"), ""},    // an idle thread of Go
		{futex("202 0x7f03 0x81 0x2 0x0 0x0 0x0 0x7f03 0x7f04\n"), ""},    // FUTEX_WAKE
		{"230 0x0 0x0 0x7f035a6926b0 0x0 0x0 0x0 0x7f035a692670 0x7f035c266545\n", ""},
		{"running\n", ""},
		{"-1 0x7ffc 0x7f03\n", ""},
		{futex("202 0x7f03 x 0x2 0x0\n"), ""},
		{"", ""},
	} {
		if got := parseMutexWait(c.text); got != c.address {
			t.Errorf("%q: %q, want %q", c.text, got, c.address)
		}
	}
}

// Only threads that wait for the same mutex at both readings count.
func TestLockWaiting(t *testing.T) {
	for _, c := range []struct {
		was, now map[string]int
		want     float64
	}{
		{nil, map[string]int{"0x1": 9}, 0},
		{map[string]int{"0x1": 9}, map[string]int{"0x2": 9}, 0},
		{map[string]int{"0x1": 3, "0x2": 9}, map[string]int{"0x1": 7, "0x2": 5}, 5},
	} {
		if got := lockWaiting(&process{locks: c.was}, &process{locks: c.now}); got != c.want {
			t.Errorf("%v, %v: %v", c.was, c.now, got)
		}
	}
}

// Without any thread that waits the value is 0, and unknown if it could not be read.
func TestNoLocks(t *testing.T) {
	p := &processes{all: map[int]*process{1: {}}, own: newSnapshot(machine.Mounted(t, nil))}
	p.addLocks(nil)
	if v := (span{nil, p.own, 0}).values(taskMeasures); len(v) != 1 || v[0].Name != "lock_waiting_threads" || deref(v[0].Value) != 0 || v[0].Value == nil {
		t.Errorf("%+v", v)
	}
	p = &processes{all: map[int]*process{1: {locksUnknown: "only root can read it"}}, own: newSnapshot(machine.Mounted(t, nil))}
	p.addLocks(nil)
	if v := (span{nil, p.own, 0}).values(taskMeasures); len(v) != 1 || v[0].Value != nil || v[0].Unknown == "" {
		t.Errorf("%+v", v)
	}
}

// refusing is a machine on which system calls cannot be read.
type refusing struct {
	host.Files
	err error
}

func (r refusing) ReadFile(p string) ([]byte, error) {
	if strings.HasSuffix(p, "/syscall") {
		return nil, &fs.PathError{Op: "read", Path: p, Err: r.err}
	}
	return r.Files.ReadFile(p)
}

// A thread that ends while it is read does not make the value unknown, missing rights do.
func TestUnreadableLocks(t *testing.T) {
	for err, unknown := range map[error]bool{unix.ESRCH: false, unix.EPERM: true} {
		h := machine.Mounted(t, before)
		h.Files = refusing{h.Files, err}
		p, _ := readProcess(h, 10)
		if (p.locksUnknown != "") != unknown || len(p.locks) > 0 {
			t.Errorf("%v: %q, %v", err, p.locksUnknown, p.locks)
		}
	}
}

func listening(text string, c counters) error {
	return parseListeners(text, c, map[string]float64{})
}
