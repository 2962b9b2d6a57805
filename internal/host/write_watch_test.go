package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/testkit/root"
)

// watchOn watches files of a machine of plain files, which fanotify(7) treats
// like kernel files.
func watchOn(t *testing.T, dir string, paths ...string) *WriteWatch {
	t.Helper()
	w, err := Mounted(dir).WatchWrites()
	if err != nil {
		root.Missing(t, "this test needs fanotify and CAP_SYS_ADMIN: %v", err)
	}
	t.Cleanup(func() { w.Close() })
	for p, err := range w.Watch(paths) {
		t.Fatalf("%s: %v", p, err)
	}
	return w
}

// next reads writes until done returns true, for at most a minute.
func next(t *testing.T, w *WriteWatch, done func(FileWrite) bool) {
	t.Helper()
	timer := time.AfterFunc(time.Minute, func() { w.Close() })
	defer timer.Stop()
	for {
		list, err := w.Next()
		if err != nil {
			t.Fatalf("nothing was seen in a minute: %v", err)
		}
		if slices.ContainsFunc(list, done) {
			return
		}
	}
}

func TestWatchWrites(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "value"), filepath.Join(dir, "other")
	for _, f := range []string{file, other} {
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := watchOn(t, dir, "/value")
	if failed := w.Watch([]string{"/value", "/missing", "/"}); len(failed) != 2 || failed["/missing"] == nil || failed["/"] == nil {
		t.Errorf("failed: %v", failed)
	}
	// Writes to other files do not count.
	if err := exec.Command("sh", "-c", "echo 1 >"+other).Run(); err != nil {
		t.Fatal(err)
	}
	// A writer that is still running is identified completely.
	long := exec.Command("sh", "-c", "echo 1 >"+file+"; read end; true --password=hunter2hunter2")
	stdin, err := long.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := long.Start(); err != nil {
		t.Fatal(err)
	}
	next(t, w, func(e FileWrite) bool {
		if e.Path != "/value" || e.By.PID != long.Process.Pid {
			t.Fatalf("seen: %+v", e)
		}
		by := e.By
		if by.Comm != "sh" || by.Parent != os.Getpid() || by.ParentComm == "" || by.UID != os.Geteuid() {
			t.Errorf("writer: %+v", by)
		}
		if !strings.HasPrefix(by.Command, "sh -c echo 1 >") || strings.Contains(by.Command, "hunter2") {
			t.Errorf("command line: %q", by.Command)
		}
		return true
	})
	stdin.Close()
	if err := long.Wait(); err != nil {
		t.Fatal(err)
	}
	// A recreated file of the same name is watched again.
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	if failed := w.Watch([]string{"/value"}); len(failed) > 0 {
		t.Fatal(failed)
	}
	if err := exec.Command("sh", "-c", "echo 2 >"+file).Run(); err != nil {
		t.Fatal(err)
	}
	next(t, w, func(e FileWrite) bool { return e.Path == "/value" })
	// A file that is no longer watched is not reported.
	if failed := w.Watch(nil); len(failed) > 0 || len(w.watched)+len(w.paths) > 0 {
		t.Errorf("after the end: %v, %d watched", failed, len(w.watched))
	}
}

// TestWritersThatEndAtOnce lets two hundred programs write and end before the
// first read: each has a process id, and a name if the kernel recorded it.
func TestWritersThatEndAtOnce(t *testing.T) {
	// The kernel records hundreds of processes per CPU. Others that start
	// meanwhile may displace these, but not every time.
	const burst, attempts = 200, 10
	for range attempts {
		named, limited := burstOfWriters(t, burst)
		t.Logf("%d of %d were named; %v", named, burst, limited)
		if named > 0 || limited != nil {
			return
		}
	}
	t.Error("none was named, though the kernel kept the names")
}

func burstOfWriters(t *testing.T, burst int) (named int, limited error) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "value"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w := watchOn(t, dir, "/value")
	defer w.Close()
	script := exec.Command("sh", "-c", "i=0; while [ $i -lt "+strconv.Itoa(burst)+" ]; do dd if=/dev/zero of=value bs=1 count=1 conv=notrunc 2>/dev/null; i=$((i+1)); done")
	script.Dir = dir
	if err := script.Run(); err != nil {
		t.Fatal(err)
	}
	pids := map[int]bool{}
	next(t, w, func(e FileWrite) bool {
		if e.Path == "" {
			t.Fatal("events were lost")
		}
		pids[e.By.PID] = true
		// Reported names and parents are correct.
		if e.By.Comm != "" && e.By.Comm != "dd" || e.By.Parent != 0 && e.By.Parent != script.Process.Pid {
			t.Errorf("writer %+v, want dd of %d", e.By, script.Process.Pid)
		}
		if e.By.Comm != "" {
			named++
		}
		return len(pids) == burst
	})
	return named, w.Limited
}

// TestRefusedWriteIsNone: a shell opens a kernel variable, which truncates it,
// and the kernel rejects the value; only the next writer is reported. The watch
// survives a drop of the kernel's caches.
func TestRefusedWriteIsNone(t *testing.T) {
	root.Disposable(t)
	const variable = "/proc/sys/vm/swappiness"
	now, err := os.ReadFile(variable)
	if err != nil {
		t.Fatal(err)
	}
	w := watchOn(t, "/", variable)
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("sh", "-c", "echo nonsense >"+variable).Run(); err == nil {
		t.Error("the kernel takes nonsense")
	}
	taken := exec.Command("sh", "-c", "echo "+strings.TrimSpace(string(now))+" >"+variable)
	if err := taken.Run(); err != nil {
		t.Fatal(err)
	}
	next(t, w, func(e FileWrite) bool {
		if e.Path != variable || e.By.PID != taken.Process.Pid {
			t.Errorf("seen: %+v, want the writer %d", e, taken.Process.Pid)
		}
		return true
	})
}

func TestNotWatched(t *testing.T) {
	h, err := Copy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.WatchWrites(); err == nil {
		t.Error("a copy is watched")
	}
}

// event encodes an event as the kernel does.
func event(mask uint64, fd, pid int32, pidfd ...int32) []byte {
	b := make([]byte, 24, 32)
	b[4] = unix.FANOTIFY_METADATA_VERSION
	native.PutUint16(b[6:], 24)
	native.PutUint64(b[8:], mask)
	native.PutUint32(b[16:], uint32(fd))
	native.PutUint32(b[20:], uint32(pid))
	for _, p := range pidfd {
		info := make([]byte, 8)
		info[0] = unix.FAN_EVENT_INFO_TYPE_PIDFD
		native.PutUint16(info[2:], 8)
		native.PutUint32(info[4:], uint32(p))
		b = append(b, info...)
	}
	native.PutUint32(b, uint32(len(b)))
	return b
}

func TestParseWrites(t *testing.T) {
	b := slices.Concat(event(unix.FAN_MODIFY, 7, 42, 8), event(unix.FAN_MODIFY, 9, 43, unix.FAN_NOPIDFD), event(unix.FAN_MODIFY, 5, 44), event(unix.FAN_Q_OVERFLOW, unix.FAN_NOFD, 0))
	got, err := parseWrites(b)
	want := []writeEvent{{fd: 7, pid: 42, pidfd: 8}, {fd: 9, pid: 43, pidfd: -1, gone: true}, {fd: 5, pid: 44, pidfd: -1}, {fd: -1, pidfd: -1, lost: true}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := parseWrites(b[:len(b)-1]); err == nil || len(got) != 3 {
		t.Errorf("cut off: %+v, %v", got, err)
	}
}

func FuzzParseWrites(f *testing.F) {
	f.Add(event(unix.FAN_MODIFY, 7, 42, 8))
	f.Add(slices.Concat(event(unix.FAN_MODIFY, 7, 42), event(unix.FAN_Q_OVERFLOW, -1, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseWrites(b)
		if err == nil && len(b) > 0 && len(got) == 0 || len(got) > len(b)/24 {
			t.Errorf("%d events in %d bytes, %v", len(got), len(b), err)
		}
	})
}

// comm and fork encode records of the ring.
func comm(pid, tid uint32, name string, at uint64) []byte {
	b := make([]byte, 16, 64)
	native.PutUint32(b, unix.PERF_RECORD_COMM)
	native.PutUint32(b[8:], pid)
	native.PutUint32(b[12:], tid)
	b = append(b, name...)
	b = append(b, make([]byte, 8-len(name)%8)...)
	b = native.AppendUint64(b, at)
	native.PutUint16(b[6:], uint16(len(b)))
	return b
}

func fork(pid, parent, tid uint32, at uint64) []byte {
	b := make([]byte, 24, 48)
	native.PutUint32(b, unix.PERF_RECORD_FORK)
	native.PutUint32(b[8:], pid)
	native.PutUint32(b[12:], parent)
	native.PutUint32(b[16:], tid)
	b = native.AppendUint64(b, at)
	b = native.AppendUint64(b, at)
	native.PutUint16(b[6:], uint16(len(b)))
	return b
}

func TestTasksSeen(t *testing.T) {
	const none = 1 << 22 // above every process id
	s := recordedTasks{tasks: map[int]recordedTask{}}
	s.add(slices.Concat(
		comm(none+1, none+1, "sysctl", 30), comm(none+1, none+9, "thread", 35), fork(none+1, none+2, none+1, 20), // newest first
		comm(none+2, none+2, "deploy.sh", 10), fork(none+3, none+2, none+3, 40), comm(none+3, none+3, "older", 5),
	), true)
	s.add(slices.Concat(comm(none+1, none+1, "sh", 25), fork(none+1, none+7, none+1, 2), []byte("garbage that is no record")), true)
	for pid, want := range map[int]string{none + 1: "sysctl", none + 2: "deploy.sh", none + 3: "deploy.sh", none + 4: ""} {
		if got := s.name(pid); got != want {
			t.Errorf("%d: %q, want %q", pid, got, want)
		}
	}
	if got := s.tasks[none+1].parent; got != none+2 {
		t.Errorf("parent %d", got)
	}
	// If a ring has lost records older than 50, a later name may be lost too.
	s.add(comm(none+5, none+5, "x", 50), false)
	for pid, want := range map[int]string{none + 1: "sysctl", none + 3: ""} {
		if got := s.name(pid); got != want {
			t.Errorf("with a loss: %d: %q, want %q", pid, got, want)
		}
	}
}

func FuzzTasksSeen(f *testing.F) {
	f.Add(comm(1, 1, "systemd", 3))
	f.Add(slices.Concat(fork(7, 6, 7, 9), comm(7, 7, "x", 10)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := recordedTasks{tasks: map[int]recordedTask{}}
		s.add(b, len(b)%2 == 0)
		if len(s.tasks) > len(b)/24 {
			t.Errorf("%d tasks in %d bytes", len(s.tasks), len(b))
		}
		for pid := range s.tasks {
			s.name(pid)
		}
	})
}
