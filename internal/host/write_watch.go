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

// WriteWatch reports writes to selected files as they happen, with the writer (fanotify(7)).
// It covers this machine's own mounts. A container with its own process namespace has another
// mount of proc, which the kernel treats as different files. Changes by the kernel itself are
// not writes.
type WriteWatch struct {
	file  *os.File
	root  string        // mount point of a mounted machine
	tasks *taskRecorder // empty if the kernel does not record names
	// Limited is why short-lived writers may have no name, or nil if the kernel records names.
	Limited error

	mu      sync.Mutex
	watched map[string]*watched // by path
	paths   map[fileID]string
}

// FileWrite is one write, or several writes of one process in quick succession. It excludes
// rejected writes. It also excludes the truncation when a shell opens the file
// (fsnotify_change has no path, so fanotify omits it).
type FileWrite struct {
	Path string // as passed to Watch; empty if events were lost
	Time time.Time
	By   Writer
}

// Writer is the process that wrote. Unknown fields are empty.
type Writer struct {
	PID int // 0 if outside of this process's namespace
	// Comm is the program's name, at most 15 bytes. It is empty if the process ended early and
	// the kernel recorded no name.
	Comm string
	// Command is the redacted command line, separated by spaces. It is empty if only the name
	// is known.
	Command string
	UID     int // of the process; -1 if unknown
	Parent  int // parent process; 0 if unknown
	// ParentComm is the parent's name, or "" if unknown.
	ParentComm string
}

type fileID struct{ dev, ino uint64 }

type watched struct {
	id fileID
	// pin is a descriptor that keeps the inode of a kernel variable: a new inode would be
	// another file (fs/proc/proc_sysctl.c, proc_sys_lookup). In sysfs the mark keeps the inode
	// (fs/kernfs/inode.c), and pin is -1.
	pin int
}

// WatchWrites starts a watch without files. It needs CAP_SYS_ADMIN. For a copied machine it
// returns ErrNotRecorded.
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

// Watch replaces the set of watched files. It returns the files that failed, with the reasons.
// Call it again to follow recreated files.
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
	// Mark by descriptor, so that the marked file is the inspected one.
	if err := unix.FanotifyMark(w.fd(), unix.FAN_MARK_ADD, unix.FAN_MODIFY, unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd)); err != nil {
		return &fs.PathError{Op: "fanotify_mark", Path: p, Err: err}
	}
	if ok {
		w.drop(p, old) // the mark vanished with the old file
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

// drop stops watching one file.
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

// fd returns the descriptor, or -1 after Close. os.File.Fd would make the descriptor blocking.
func (w *WriteWatch) fd() (fd int) {
	fd = -1
	if raw, err := w.file.SyscallConn(); err == nil {
		_ = raw.Control(func(n uintptr) { fd = int(n) })
	}
	return fd
}

// maxFailures is the maximum number of consecutive failed reads. A removed file causes one.
const maxFailures = 1000

// Next waits for writes to the watched files. It also returns writes of this process. After
// Close it returns an error.
func (w *WriteWatch) Next() ([]FileWrite, error) {
	buf := make([]byte, 8192) // about 250 events
	for failures := 0; ; {
		n, err := w.file.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return nil, err
		}
		if err != nil {
			// An event's file could not be opened: its device is gone, or access is denied.
			// The event is lost.
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

// events converts fanotify events to writes, in order.
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
