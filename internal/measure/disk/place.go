package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
)

// Place is a directory to measure, with its test files.
type Place struct {
	Directory string       `json:"directory"`
	Storage   fact.Storage `json:"storage"`
	FreeBytes int64        `json:"free_bytes"`
	SizeBytes int64        `json:"file_size_bytes"`
	// NoDirect is the reason why direct I/O is impossible; "" if it is possible.
	NoDirect string `json:"no_direct_io,omitempty"`
	Role     Role   `json:"role,omitempty"`

	files     host.Files
	device    uint64   // st_dev
	data, log *os.File // log cells write into a file without data
}

// LookAt inspects a directory without writing.
func LookAt(h *host.Host, dir string) (*Place, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	st, err := h.Files.Stat(dir)
	switch {
	case err != nil:
		return nil, err
	case !st.IsDir():
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if fs.Flags&unix.ST_RDONLY != 0 {
		return nil, &os.PathError{Op: "measure", Path: dir, Err: unix.EROFS}
	}
	dev := uint64(0)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		dev = uint64(sys.Dev)
	}
	return &Place{Directory: dir, Storage: fact.StorageOf(h, dir), FreeBytes: int64(fs.Bavail) * fs.Frsize, device: dev, files: h.Files}, nil
}

// Shares reports whether two places share free space: they are on one file system, or on parts of
// one (btrfs) that have separate device numbers.
func (p *Place) Shares(q *Place) bool {
	return p.device == q.device || p.Storage.Device != "" && p.Storage.Device == q.Storage.Device
}

// Reasons why the files of a place cannot be created.
var (
	errNoRoom     = errors.New("not enough space")
	errUnwritable = errors.New("not writable")
)

// unmade wraps an error with errNoRoom or errUnwritable. err contains the path already.
func unmade(err error) error {
	for _, why := range []struct {
		is  []error
		say error
	}{
		{[]error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG}, errNoRoom},
		{[]error{unix.EROFS, unix.EACCES, unix.EPERM}, errUnwritable},
	} {
		if slices.ContainsFunc(why.is, func(e error) bool { return errors.Is(err, e) }) {
			return fmt.Errorf("%w: %w", why.say, err)
		}
	}
	return err
}

// prefix is the prefix of file names on file systems that cannot create unnamed files. The name is
// removed at once.
const prefix = ".fettle-bench-"

// Open creates the place's files without names. They vanish with the last process that has them
// open, even if that is killed.
func (p *Place) Open() error {
	sweep(p.files, p.Directory)
	var err error
	if p.data, err = nameless(p.Directory); err != nil {
		return unmade(err)
	}
	if p.log, err = nameless(p.Directory); err == nil {
		err = p.room(p.data, p.SizeBytes)
	}
	if err == nil {
		err = p.direct()
	}
	if err != nil {
		return errors.Join(unmade(err), p.Close())
	}
	return nil
}

// Open creates the files of all places, or of none.
func Open(places []*Place) error {
	for _, p := range places {
		if err := p.Open(); err != nil {
			for _, q := range places {
				err = errors.Join(err, q.Close())
			}
			return err
		}
	}
	return nil
}

// nameless creates a file without a name.
func nameless(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), dir), nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		return unnamed(dir)
	}
	return nil, &os.PathError{Op: "cannot create a file in", Path: dir, Err: err}
}

// unnamed creates a file and removes its name. If the process is killed in between, an empty file
// remains, which sweep removes.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, prefix+"*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes fettle's own empty files, which unnamed may have left. If another fettle is
// creating one, the file's name only vanishes slightly earlier.
func sweep(files host.Files, dir string) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() {
			continue
		}
		var st unix.Stat_t
		at := filepath.Join(dir, e.Name())
		if unix.Lstat(at, &st) == nil && st.Size == 0 && int(st.Uid) == os.Geteuid() {
			_ = os.Remove(at)
		}
	}
}

// room allocates the blocks of a file: a full disk then fails early.
func (p *Place) room(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = f.Truncate(size)
	}
	if err != nil {
		return text.Errorf("%s: cannot allocate a file of %d MiB: %w", p.Directory, size>>20, err)
	}
	return nil
}

// direct tests whether direct I/O is possible, and sets NoDirect.
func (p *Place) direct() error {
	fd, err := unix.Open(procPath(p.data), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EINVAL) {
		p.NoDirect = "the file system (" + p.Storage.Type + ") refuses O_DIRECT"
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "cannot reopen", Path: p.Directory, Err: err}
	}
	return unix.Close(fd)
}

// renew replaces the log file's blocks by blocks without data.
func (p *Place) renew() error {
	if err := p.log.Truncate(0); err != nil {
		return err
	}
	return p.room(p.log, logSize)
}

// procPath returns the path by which another process can open a file.
func procPath(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// Close closes the files, which deletes them.
func (p *Place) Close() (err error) {
	for _, f := range []**os.File{&p.data, &p.log} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}

// resident returns the share of the data that is in the page cache.
func (p *Place) resident() (*float64, error) {
	area, err := unix.Mmap(int(p.data.Fd()), 0, int(p.SizeBytes), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(area) }()
	pages, err := mincore(area)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, b := range pages {
		n += int(b & 1)
	}
	ratio := float64(n) / float64(len(pages))
	return &ratio, nil
}

// mincore reports for each page of a mapped area whether it is in memory (mincore(2)).
func mincore(area []byte) ([]byte, error) {
	page := os.Getpagesize()
	out := make([]byte, (len(area)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&area[0])), uintptr(len(area)), uintptr(unsafe.Pointer(&out[0]))); errno != 0 {
		return nil, os.NewSyscallError("mincore", errno)
	}
	return out, nil
}
