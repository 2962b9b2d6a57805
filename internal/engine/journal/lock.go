package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// takes is the number of attempts to lock while the holder is unknown: it may have ended, and then
// the lock is free.
const takes = 100

// take locks the file and writes this process's id into it. ErrBusy names the process that holds
// the lock.
func take(lock *os.File) error {
	for n := 1; ; n++ {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			// For LastHolder; also for holder if /proc/locks does not show the process.
			_ = lock.Truncate(0)
			_, _ = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", lock.Name(), err)
		}
		if who, ok := holder(lock); ok || n == takes {
			return fmt.Errorf("%w (%s)", ErrBusy, who)
		}
	}
}

// holder describes the process that holds the lock. It reports whether that process was found and
// still runs.
func holder(lock *os.File) (string, bool) {
	pid := lockedBy(lock)
	if pid == 0 {
		pid = written(lock)
	}
	if pid == 0 {
		return "lock " + lock.Name(), false
	}
	cmd, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if text := strings.TrimSpace(strings.ReplaceAll(string(cmd), "\x00", " ")); text != "" {
		return fmt.Sprintf("process %d: %s", pid, text), true
	}
	return fmt.Sprintf("process %d", pid), err == nil // a process that is ending has no command line
}

// lockedBy returns the id of the process that holds the lock according to the kernel. It returns 0
// for none, or for a process in another PID namespace.
func lockedBy(lock *os.File) int {
	st, err := lock.Stat()
	if err != nil {
		return 0
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	locks, err := os.ReadFile("/proc/locks")
	if !ok || err != nil {
		return 0
	}
	// 1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF (proc_locks(5))
	device, inode := fmt.Sprintf("%02x:%02x", unix.Major(sys.Dev), unix.Minor(sys.Dev)), fmt.Sprintf(":%d", sys.Ino)
	for line := range strings.Lines(string(locks)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], inode) {
			continue
		}
		// The device is the file system's. On overlayfs and btrfs the device of its files differs.
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 && (f[5] == device+inode || opened(pid, st)) {
			return pid
		}
	}
	return 0
}

// opened reports whether a process has a file open.
func opened(pid int, file os.FileInfo) bool {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(names, func(name string) bool {
		st, err := os.Stat(name)
		return err == nil && os.SameFile(st, file)
	})
}

// written returns the process id in the lock file, or 0.
func written(lock *os.File) int {
	buf := make([]byte, 32)
	n, _ := lock.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// LastHolder returns the id of the process that holds or last held the lock, or 0.
func LastHolder(dir string) int {
	lock, err := openRead(filepath.Join(dir, "lock"))
	if err != nil {
		return 0
	}
	defer lock.Close()
	return written(lock)
}

// Holder describes the process that holds the lock. It returns "" for none, or for a process in
// another PID namespace. It does not take the lock, which would block others.
func Holder(dir string) string {
	lock, err := openRead(filepath.Join(dir, "lock"))
	if err != nil {
		return ""
	}
	defer lock.Close()
	if lockedBy(lock) == 0 {
		return ""
	}
	who, _ := holder(lock)
	return who
}
