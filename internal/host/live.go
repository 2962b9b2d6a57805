package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Live returns the machine on which this process runs.
func Live() *Host {
	return &Host{Name: "this machine", Live: true, Files: liveFiles{}, Exec: liveExec{}, Clock: liveClock{}, Net: liveNet{}, Sched: liveSched{}, Querier: liveQuerier{}}
}

type liveClock struct{}

func (liveClock) Now() time.Time { return time.Now() }

func (liveClock) SinceBoot() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("clock_gettime(CLOCK_BOOTTIME): %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

type liveFiles struct{}

func (liveFiles) ReadDir(p string) ([]fs.DirEntry, error) { return os.ReadDir(p) }
func (liveFiles) Stat(p string) (fs.FileInfo, error)      { return os.Stat(p) }
func (liveFiles) Lstat(p string) (fs.FileInfo, error)     { return os.Lstat(p) }
func (liveFiles) Readlink(p string) (string, error)       { return os.Readlink(p) }
func (liveFiles) ReadFile(p string) ([]byte, error)       { return readCapped(p) }

// Resolve lets the kernel resolve the path in three calls. filepath.EvalSymlinks needs one call
// per element, and paths in /sys are deep.
func (liveFiles) Resolve(p string) (string, error) {
	fd, err := open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || !strings.HasPrefix(real, "/") || strings.HasSuffix(real, " (deleted)") {
		return filepath.EvalSymlinks(p) // /proc is missing, or the file was deleted
	}
	return real, nil
}

// readCapped reads a file without relying on st_size, which is 0 or 4096 for kernel files. One
// read(2) usually suffices. Sysctls need a single read: a second read at an offset may return
// another value.
func readCapped(p string) ([]byte, error) {
	fd, err := open(p, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	scratch := scratchBuffers.Get().(*[4096]byte)
	defer scratchBuffers.Put(scratch)
	buf := scratch[:]
	n := 0
	for {
		m, err := unix.Read(fd, buf[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: p, Err: err}
		case m == 0 && n < len(scratch):
			return bytes.Clone(buf[:n]), nil
		case m == 0:
			return buf[:n], nil
		}
		n += m
		if n > MaxFileSize {
			return nil, &fs.PathError{Op: "read", Path: p, Err: ErrTooLarge}
		}
		if n == len(buf) {
			larger, err := growBuffer(fd, buf)
			if err != nil {
				return nil, &fs.PathError{Op: "read", Path: p, Err: err}
			}
			buf = larger
		}
	}
}

// growBuffer enlarges a full buffer to the file's size, or doubles it if the size is unknown.
// It returns ErrTooLarge if the file's size is above MaxFileSize.
func growBuffer(fd int, buf []byte) ([]byte, error) {
	size := int64(2 * len(buf))
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size >= int64(len(buf)) {
		if st.Size > MaxFileSize {
			return nil, ErrTooLarge
		}
		size = st.Size + 1 // one more byte detects the end
	}
	larger := make([]byte, min(size, MaxFileSize+1))
	copy(larger, buf)
	return larger, nil
}

// scratchBuffers avoids allocating a page for each small kernel file. The allocations took an
// eighth of the time of verify, mostly in page faults.
var scratchBuffers = sync.Pool{New: func() any { return new([4096]byte) }}

func open(p string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Open(p, flags, mode)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: p, Err: err}
		}
		return fd, nil
	}
}

func (liveFiles) Store(p string, data []byte) error { return storeAt(p, data) }

// storeAt opens a file like a shell redirection and writes data once. Kernel attributes ignore
// the truncation. In a plain file it removes the rest of a longer value.
func storeAt(p string, data []byte) error {
	fd, err := open(p, unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = writeOnce(fd, p, data)
	if cerr := unix.Close(fd); err == nil && cerr != nil {
		err = &fs.PathError{Op: "close", Path: p, Err: cerr}
	}
	return err
}

func writeOnce(fd int, p string, data []byte) error {
	for {
		n, err := unix.Write(fd, data)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return &fs.PathError{Op: "write", Path: p, Err: err}
		case n < len(data):
			return &fs.PathError{Op: "write", Path: p, Err: io.ErrShortWrite}
		}
		return nil
	}
}

func (liveFiles) Replace(p string, data []byte, attr Attr) error { return replaceAt(p, data, attr) }

// replaceAt replaces the target of a symbolic link, not the link (/etc/sysctl.d/99-sysctl.conf
// is a link on Debian).
func replaceAt(p string, data []byte, attr Attr) error {
	if real, rerr := filepath.EvalSymlinks(p); rerr == nil {
		p = real
	}
	err := replaceNew(p, data, attr)
	if (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && overwriteAt(p, data, attr) {
		return nil
	}
	return err
}

func replaceNew(p string, data []byte, attr Attr) error {
	f, err := NewFile(p)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.commit(attr)
}

// StagedFile is a new file of this machine that has no name yet. Commit gives it one.
type StagedFile struct {
	*os.File
	path string
	done bool
}

// NewFile begins a file that will be created at a path or replace the file there.
func NewFile(p string) (*StagedFile, error) {
	f, err := os.CreateTemp(filepath.Dir(p), "."+filepath.Base(p)+".fettle-*")
	if err != nil {
		return nil, err
	}
	return &StagedFile{File: f, path: p}, nil
}

// Commit creates or replaces the file atomically. It is durable when Commit returns. After an
// error the old file remains.
func (f *StagedFile) Commit(mode fs.FileMode) error {
	return f.commit(Attr{Mode: mode, UID: -1, GID: -1})
}

func (f *StagedFile) commit(attr Attr) error {
	err := errors.Join(giveTo(f.File, attr), f.Chmod(attr.Mode))
	err = errors.Join(err, copyAttributes(f.path, f.File), f.Sync())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		return err
	}
	f.done = true
	return syncDir(filepath.Dir(f.path))
}

// Discard removes the new file unless it was committed.
func (f *StagedFile) Discard() {
	if !f.done {
		_ = f.Close()
		os.Remove(f.Name())
	}
}

// giveTo sets the owner of a file. If that is not permitted, the caller remains the owner,
// provided it owns the directory: it could replace the file anyway.
func giveTo(f *os.File, attr Attr) error {
	err := f.Chown(attr.UID, attr.GID)
	if caller := os.Geteuid(); errors.Is(err, unix.EPERM) && caller != 0 {
		var dir unix.Stat_t
		if unix.Stat(filepath.Dir(f.Name()), &dir) == nil && int(dir.Uid) == caller {
			return nil
		}
	}
	return err
}

// overwriteAt overwrites a file in place if the disk has no room for a second file. An undo
// usually makes a file shorter. After a crash the file may be mixed; the journal then records
// the write as begun. It returns false on any failure.
func overwriteAt(p string, data []byte, attr Attr) bool {
	f, err := os.OpenFile(p, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() < int64(len(data)) {
		return false
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return false
	}
	return errors.Join(f.Truncate(int64(len(data))), giveTo(f, attr), f.Chmod(attr.Mode), f.Sync()) == nil
}

// notCopied are extended attributes that belong to a file's content: signatures and hashes of the
// integrity subsystem, and capabilities, which the kernel removes at each write.
var notCopied = []string{"security.ima", "security.evm", "security.capability"}

// mustKeep are extended attributes without which a file is not replaced.
var mustKeep = []string{"security.selinux", "system.posix_acl_access"}

// copyAttributes copies the extended attributes of the replaced file: its SELinux label, its POSIX
// ACL and those of users. A file that does not exist has none, so its new file gets the label of
// the directory. It returns an error if the label or the ACL cannot be kept; a caller other than
// root keeps what it may set. Others may belong to a file system (NFS) and are kept if possible.
func copyAttributes(from string, to *os.File) error {
	list, err := sized(func(buf []byte) (int, error) { return unix.Llistxattr(from, buf) })
	if err != nil {
		return nil //nolint:nilerr // no file, or no extended attributes
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if name == "" || slices.Contains(notCopied, name) {
			continue
		}
		value, err := sized(func(buf []byte) (int, error) { return unix.Lgetxattr(from, name, buf) })
		if err == nil {
			err = unix.Fsetxattr(int(to.Fd()), name, value, 0)
		}
		switch {
		case err == nil, errors.Is(err, unix.ENODATA), errors.Is(err, unix.ENOTSUP), !slices.Contains(mustKeep, name):
		case os.Geteuid() != 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)):
		default:
			return fmt.Errorf("%s: cannot keep its attribute %s: %w", from, name, err)
		}
	}
	return nil
}

// sized calls a function that fills a buffer, with the size that it asks for.
func sized(fill func([]byte) (int, error)) ([]byte, error) {
	for {
		size, err := fill(nil)
		if err != nil || size == 0 {
			return nil, err
		}
		buf := make([]byte, size)
		n, err := fill(buf)
		if errors.Is(err, unix.ERANGE) {
			continue // it has grown
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}

// syncDir calls SyncDir and ignores file systems that do not support it.
func syncDir(dir string) error {
	if err := SyncDir(dir); !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// SyncDir makes the names in a directory of this machine durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteFile creates or replaces a file of this machine atomically. The file is durable when
// WriteFile returns.
func WriteFile(p string, data []byte, mode fs.FileMode) error {
	return replaceNew(p, data, Attr{Mode: mode, UID: -1, GID: -1})
}

func (liveFiles) Remove(p string) error {
	if err := os.Remove(p); err != nil {
		return err
	}
	return syncDir(filepath.Dir(p))
}

func (liveFiles) Mkdir(p string, mode fs.FileMode) error {
	if err := os.Mkdir(p, mode); err != nil {
		return err
	}
	return syncDir(filepath.Dir(p))
}

func (liveFiles) Hold(p string, data []byte) (Handle, error) { return holdAt(p, data) }

type heldFile struct {
	fd   int
	path string
}

func holdAt(p string, data []byte) (Handle, error) {
	fd, err := open(p, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	h := &heldFile{fd, p}
	if err := h.Store(data); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return h, nil
}

func (h *heldFile) Store(data []byte) error { return writeOnce(h.fd, h.path, data) }
func (h *heldFile) Close() error            { return unix.Close(h.fd) }

// AttrOf returns the mode and owner of a file, for a Replace that preserves them.
func AttrOf(fi fs.FileInfo) Attr {
	a := Attr{Mode: fi.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		a.UID, a.GID = int(st.Uid), int(st.Gid)
	}
	return a
}

// MissingDirs returns the missing directories among dir and its parents, outermost first.
func MissingDirs(dir string) []string {
	var none []string
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		none = append(none, dir)
	}
	slices.Reverse(none)
	return none
}
