package root

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Killer kills a program of a Root with SIGKILL when it opens one of its files for writing:
// settings of the simulated machine, and files below /etc, /run and /var/lib. The kernel makes
// the program wait at each open until this process has answered (fanotify(7), FAN_OPEN_PERM),
// so the point is exact in every program, whatever its language.
type Killer struct {
	t     testing.TB
	group *os.File
	// base is the Root's root directory, as the path inside has it in this process.
	base   string
	pidNS  string
	init   int
	ended  chan struct{}
	closed sync.Once

	mu    sync.Mutex
	at    int
	seen  []string
	place string
}

// emptied marks the second point at a file, at which it is open and empty.
const emptied = ", emptied"

// KillAtWrite kills a program at the n-th point, together with the programs inside that wait
// for it, and nothing after that. With n = 0 it only counts. A point is reached when a file is
// about to be opened for writing. If the open empties a file of the program, that is a second
// point, at which the file is empty. It needs a simulated machine, because the kernel has no
// such events for its own /proc.
func (r *Root) KillAtWrite(n int) *Killer {
	r.t.Helper()
	// O_NONBLOCK in the event's flags: another program may open a FIFO.
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_REPORT_TID,
		unix.O_RDONLY|unix.O_LARGEFILE|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err != nil {
		Missing(r.t, "this kernel does not let a test answer for opens (fanotify with permission events): %v", err)
	}
	k := &Killer{t: r.t, group: os.NewFile(uintptr(fd), "fanotify"), at: n, init: r.pid, ended: make(chan struct{})}
	inside := fmt.Sprintf("/proc/%d/root", r.pid)
	if k.base, err = seenAs(inside); err == nil {
		k.pidNS, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", r.pid))
	}
	for _, mount := range []string{"/", "/run", "/sys", "/proc/sys", "/proc/irq"} {
		if err == nil {
			err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_MOUNT, unix.FAN_OPEN_PERM, unix.AT_FDCWD, inside+mount)
		}
	}
	if err != nil {
		k.group.Close()
		r.t.Fatalf("testroot: cannot watch opens: %v", err)
	}
	go k.serve()
	r.t.Cleanup(k.Close)
	return k
}

// Seen returns the points that were reached so far, in order.
func (k *Killer) Seen() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.seen...)
}

// Killed returns the point at which the program was killed, or "" if it was not.
func (k *Killer) Killed() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.place
}

// Close ends the watch. Programs continue undisturbed.
func (k *Killer) Close() {
	k.closed.Do(func() { k.group.Close(); <-k.ended })
}

func (k *Killer) serve() {
	defer close(k.ended)
	buf := make([]byte, 16<<10)
	for {
		n, err := k.group.Read(buf)
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				k.t.Errorf("testroot: watching opens: %v", err)
			}
			return
		}
		// Layout of struct fanotify_event_metadata: event_len u32, vers u8, reserved u8,
		// metadata_len u16, mask u64, fd s32, pid s32.
		for event := buf[:n]; len(event) >= 24; event = event[binary.NativeEndian.Uint32(event):] {
			fd := int32(binary.NativeEndian.Uint32(event[16:]))
			if fd < 0 {
				continue // the queue has overflowed: permission events never do
			}
			answer := k.decide(int(fd), int(int32(binary.NativeEndian.Uint32(event[20:]))))
			var response [8]byte
			binary.NativeEndian.PutUint32(response[:], uint32(fd))
			binary.NativeEndian.PutUint32(response[4:], answer)
			if _, err := k.group.Write(response[:]); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, os.ErrClosed) {
				k.t.Errorf("testroot: answering for an open: %v", err)
			}
			unix.Close(int(fd))
		}
	}
}

// decide returns the response to an open in which thread tid waits.
func (k *Killer) decide(fd, tid int) uint32 {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		k.t.Errorf("testroot: %v", err)
		return unix.FAN_ALLOW
	}
	path = strings.TrimPrefix(path, strings.TrimSuffix(k.base, "/"))
	if !counted(path) {
		return unix.FAN_ALLOW
	}
	if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", tid)); err != nil || ns != k.pidNS {
		return unix.FAN_ALLOW // opened by the test itself
	}
	if k.Killed() != "" {
		return unix.FAN_ALLOW // another thread of it may wait here
	}
	flags, err := openFlags(tid)
	if err != nil {
		k.t.Errorf("testroot: who opens %s: %v", path, err)
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		return unix.FAN_ALLOW
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// A program's own file that is opened with O_TRUNC is empty until it is written again.
	empties := flags&unix.O_TRUNC != 0 && !kernels(path) && sizeOf(fd) > 0
	if !k.reached(path) && (!empties || !k.reached(path+emptied)) {
		return unix.FAN_ALLOW
	}
	// Kill parents first, so that they cannot notice that a child has ended.
	victims := k.family(tid)
	for i := len(victims) - 1; i >= 0; i-- {
		if err := syscall.Kill(victims[i], syscall.SIGKILL); err != nil {
			k.t.Errorf("testroot: kill %d: %v", victims[i], err)
		}
	}
	if strings.HasSuffix(k.place, emptied) {
		if err := os.Truncate(fmt.Sprintf("/proc/%d/root%s", k.init, path), 0); err != nil {
			k.t.Errorf("testroot: %v", err)
		}
	}
	return unix.FAN_DENY
}

// reached records a point and reports whether the program is killed there.
func (k *Killer) reached(point string) bool {
	k.seen = append(k.seen, point)
	if len(k.seen) == k.at {
		k.place = point
	}
	return k.place != ""
}

// counted reports whether opening a file is a point. Logs do not count, because they do not
// affect a tuner.
func counted(path string) bool {
	return kernels(path) || strings.HasPrefix(path, "/etc/") || strings.HasPrefix(path, "/run/") || strings.HasPrefix(path, "/var/lib/")
}

// family returns the process of a thread and its ancestors within the Root.
func (k *Killer) family(tid int) []int {
	pid, parent := status(tid, "Tgid"), status(tid, "PPid")
	var list []int
	for pid > 1 && pid != k.init {
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || ns != k.pidNS {
			break
		}
		list = append(list, pid)
		pid, parent = parent, status(parent, "PPid")
	}
	return list
}

// status returns a number in /proc/PID/status (proc_pid_status(5)), or 0 if none exists.
func status(pid int, field string) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(v))
			return n
		}
	}
	return 0
}

// kernels reports whether a file is a kernel setting, which opening with O_TRUNC does not
// change.
func kernels(path string) bool {
	return strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/sys/")
}

func sizeOf(fd int) int64 {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0
	}
	return st.Size
}

// openFlags reads the flags of an open from the system call in which a thread waits
// (proc_pid_syscall(5)): number, then arguments. If the thread has ended meanwhile, because its
// process has, nothing is opened.
func openFlags(tid int) (uint64, error) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Microsecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			return unix.O_RDONLY, nil
		}
		if err != nil {
			return 0, err
		}
		f := strings.Fields(string(text))
		if len(f) > 0 && f[0] == "running" && time.Now().Before(end) {
			continue // it is about to wait
		}
		if len(f) > 0 && f[0] == "-1" {
			return unix.O_RDONLY, nil
		}
		if len(f) < 4 {
			return 0, fmt.Errorf("its system call is %q", text)
		}
		number, err := strconv.Atoi(f[0])
		if err != nil {
			return 0, err
		}
		switch number {
		case unix.SYS_OPENAT:
			return strconv.ParseUint(f[3], 0, 64)
		case unix.SYS_EXECVE, unix.SYS_EXECVEAT:
			return unix.O_RDONLY, nil
		}
		return 0, fmt.Errorf("it opens by system call %d, whose flags this test cannot read", number)
	}
}

// seenAs returns the path that this process sees for a directory of another mount namespace:
// its path there, not below this process's root.
func seenAs(dir string) (string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return os.Readlink(filepath.Join("/proc/self/fd", strconv.Itoa(int(f.Fd()))))
}
