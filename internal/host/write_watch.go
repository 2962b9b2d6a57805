package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// WriteWatch tells of writes to single files as they happen, and who wrote
// (fanotify(7)). It sees what goes through this machine's own mounts: a write
// through another mount of proc, as a container with a process namespace of its
// own has one, is another file to the kernel. What the kernel changes by itself
// is no write.
type WriteWatch struct {
	file  *os.File
	root  string        // of a machine that is mounted somewhere
	tasks *taskRecorder // empty where the kernel does not record
	// Limited says why writers that end at once may stay without a name; nil
	// where the kernel keeps it for a while.
	Limited error

	mu      sync.Mutex
	watched map[string]*watched // by path
	paths   map[fileID]string
}

// FileWrite is one write, or several of one process that came at once. A write
// that the kernel refused is none, and neither is the truncation when a shell
// opens the file (fsnotify_change has no path, so fanotify leaves it out).
type FileWrite struct {
	Path string // as it was given; empty where events were lost
	Time time.Time
	By   Writer
}

// Writer is the process that wrote, as far as it could be told.
type Writer struct {
	PID int // 0: outside of this process's namespace
	// Comm is the program's own name, at most 15 bytes; empty where the process
	// had ended before anybody could ask, and the kernel kept nothing.
	Comm string
	// Command is the command line with spaces, redacted; empty where only the
	// name is known.
	Command string
	UID     int // of the process; -1 where it is not known
	Parent  int // its parent; 0 where it is not known
	// ParentComm is the parent's own name; empty where it is not known.
	ParentComm string
}

type fileID struct{ dev, ino uint64 }

type watched struct {
	id fileID
	// pin keeps the name of a kernel variable alive: a new one would be another
	// file (fs/proc/proc_sysctl.c, proc_sys_lookup). sysfs finds its file again
	// by number (fs/kernfs/inode.c), and the mark keeps that. -1: none.
	pin int
}

// WatchWrites begins with no file. A copied machine returns ErrNotRecorded. The
// kernel wants CAP_SYS_ADMIN.
func (h *Host) WatchWrites() (*WriteWatch, error) {
	w := &WriteWatch{watched: map[string]*watched{}, paths: map[fileID]string{}}
	switch f := h.Files.(type) {
	case liveFiles:
	case rootedFiles:
		w.root = f.root
	default:
		return nil, NotRecorded("writes")
	}
	const flags = unix.FAN_CLASS_NOTIF | unix.FAN_CLOEXEC | unix.FAN_NONBLOCK | unix.FAN_UNLIMITED_MARKS
	const eventFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_LARGEFILE
	fd, err := unix.FanotifyInit(flags|unix.FAN_REPORT_PIDFD, eventFlags)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.15
		fd, err = unix.FanotifyInit(flags, eventFlags)
	}
	if err != nil {
		return nil, fmt.Errorf("fanotify_init: %w", err)
	}
	w.file = os.NewFile(uintptr(fd), "fanotify") // polled by the runtime
	w.tasks, w.Limited = recordTasks()
	return w, nil
}

// Watch makes these files the ones that are watched, and no others. The answer
// says for which it failed, and why. Files of the same name that have come anew
// are found by calling it again.
func (w *WriteWatch) Watch(paths []string) map[string]error {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := map[string]error{}
	keep := map[string]bool{}
	for _, p := range paths {
		if keep[p] {
			continue
		}
		if err := w.add(p); err != nil {
			failed[p] = err
			continue
		}
		keep[p] = true
	}
	for p, at := range w.watched {
		if !keep[p] {
			w.drop(p, at)
		}
	}
	w.tasks.follow()
	return failed
}

func (w *WriteWatch) add(p string) error {
	outer := filepath.Join("/", w.root, p)
	fd, err := open(outer, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			unix.Close(fd)
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: p, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &fs.PathError{Op: "watch", Path: p, Err: errors.New("not a file")}
	}
	id := fileID{uint64(st.Dev), st.Ino}
	old, ok := w.watched[p]
	if ok && old.id == id {
		return nil
	}
	// By the descriptor: what is marked is what was looked at.
	if err := unix.FanotifyMark(w.fd(), unix.FAN_MARK_ADD, unix.FAN_MODIFY, unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd)); err != nil {
		return &fs.PathError{Op: "fanotify_mark", Path: p, Err: err}
	}
	if ok {
		w.drop(p, old) // the mark went with the file
	}
	at := &watched{id: id, pin: -1}
	if strings.HasPrefix(p, "/proc/") {
		at.pin, keep = fd, true
	}
	w.watched[p] = at
	if _, taken := w.paths[id]; !taken {
		w.paths[id] = p
	}
	return nil
}

// drop ends the watch of one file.
func (w *WriteWatch) drop(p string, at *watched) {
	target := filepath.Join("/", w.root, p)
	if at.pin >= 0 {
		target = "/proc/self/fd/" + strconv.Itoa(at.pin)
	}
	var st unix.Stat_t
	if err := unix.Stat(target, &st); err == nil && (fileID{uint64(st.Dev), st.Ino}) == at.id && w.paths[at.id] == p {
		_ = unix.FanotifyMark(w.fd(), unix.FAN_MARK_REMOVE, unix.FAN_MODIFY, unix.AT_FDCWD, target)
	}
	if at.pin >= 0 {
		unix.Close(at.pin)
	}
	delete(w.watched, p)
	if w.paths[at.id] == p {
		delete(w.paths, at.id)
	}
}

// fd is the descriptor; -1 after Close. os.File.Fd would make it block.
func (w *WriteWatch) fd() (fd int) {
	fd = -1
	if raw, err := w.file.SyscallConn(); err == nil {
		_ = raw.Control(func(n uintptr) { fd = int(n) })
	}
	return fd
}

// maxFailures is how many reads may fail one after the other: a file that has
// gone costs one.
const maxFailures = 1000

// Next waits for writes to the watched files, this process's own included. It
// fails once Close was called.
func (w *WriteWatch) Next() ([]FileWrite, error) {
	buf := make([]byte, 8192) // some 250 events
	for failures := 0; ; {
		n, err := w.file.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return nil, err
		}
		if err != nil {
			// The file of an event could not be opened: its device has gone,
			// or nobody may read it. That event is lost.
			if failures++; failures > maxFailures {
				return nil, err
			}
			continue
		}
		if found := w.events(buf[:n]); len(found) > 0 {
			return found, nil
		}
	}
}

// events turns what was read into writes, in order.
func (w *WriteWatch) events(buf []byte) []FileWrite {
	list, err := parseWrites(buf)
	known := sync.OnceValue(w.tasks.recorded)
	var out []FileWrite
	last := map[writeKey]int{}
	for _, e := range list {
		var path string
		if e.fd >= 0 {
			path = w.pathOf(e.fd)
			unix.Close(e.fd)
		}
		key := writeKey{path, e.pid}
		i, again := last[key]
		switch {
		case e.lost:
			out = append(out, FileWrite{Time: time.Now()})
		case path == "":
		case again:
			out[i].Time = time.Now()
		default:
			last[key] = len(out)
			out = append(out, FileWrite{Path: path, Time: time.Now(), By: writerOf(e, known)})
		}
		if e.pidfd >= 0 {
			unix.Close(e.pidfd)
		}
	}
	if err != nil {
		out = append(out, FileWrite{Time: time.Now()})
	}
	return out
}

type writeKey struct {
	path string
	pid  int
}

func (w *WriteWatch) pathOf(fd int) string {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paths[fileID{uint64(st.Dev), st.Ino}]
}

// Close ends the watch.
func (w *WriteWatch) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, at := range w.watched {
		w.drop(p, at)
	}
	w.tasks.close()
	return w.file.Close()
}
