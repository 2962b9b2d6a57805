package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
)

// Place is a directory that is measured.
type Place struct {
	Directory string       `json:"directory"`
	Storage   fact.Storage `json:"storage"`
	FreeBytes int64        `json:"free_bytes"`
	SizeBytes int64        `json:"file_size_bytes"`
	// NoDirect says why nothing could be measured past the page cache; empty where
	// it could.
	NoDirect string `json:"no_direct_io,omitempty"`
	Role     Role   `json:"role,omitempty"`

	files     host.Files
	device    uint64   // st_dev
	data, log *os.File // of the log cells: those write into one that has nothing yet
}

// LookAt looks at a directory; nothing is written.
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

// Shares says whether two places share their space: they are on one file system, or on
// parts of one that have numbers of their own (btrfs).
func (p *Place) Shares(q *Place) bool {
	return p.device == q.device || p.Storage.Device != "" && p.Storage.Device == q.Storage.Device
}

// Why the files of a place cannot be made.
var (
	ErrNoRoom     = errors.New("there is no room")
	ErrUnwritable = errors.New("nothing can be written here")
)

// unmade says which of the two it is, if one; path is in the error already.
func unmade(err error) error {
	for _, why := range []struct {
		is  []error
		say error
	}{
		{[]error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG}, ErrNoRoom},
		{[]error{unix.EROFS, unix.EACCES, unix.EPERM}, ErrUnwritable},
	} {
		if slices.ContainsFunc(why.is, func(e error) bool { return errors.Is(err, e) }) {
			return fmt.Errorf("%w: %w", why.say, err)
		}
	}
	return err
}

// prefix begins the name of a file that a file system gives no chance to make without
// one. It is gone at once.
const prefix = ".fettle-bench-"

// Open makes the place's files, which have no names: they are gone with the last
// process that has them open, whatever ends that.
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

// nameless opens a new file without a name.
func nameless(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), dir), nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		return unnamed(dir)
	}
	return nil, &os.PathError{Op: "make a file in", Path: dir, Err: err}
}

// unnamed makes a file and takes its name away. To be killed in between leaves an
// empty file, which sweep removes.
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

// sweep removes what unnamed may have left: empty files of ours. Another that is at
// this point loses its name a moment earlier.
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

// room takes the blocks of a file, so that a disk without them is found out now.
func (p *Place) room(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = f.Truncate(size)
	}
	if err != nil {
		return fmt.Errorf("%s: no room for a file of %d MiB: %w", p.Directory, size>>20, err)
	}
	return nil
}

// direct looks whether direct I/O is possible.
func (p *Place) direct() error {
	fd, err := unix.Open(path(p.data), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EINVAL) {
		p.NoDirect = "the file system (" + p.Storage.Type + ") refuses O_DIRECT"
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open again", Path: p.Directory, Err: err}
	}
	return unix.Close(fd)
}

// renew makes the log's file one that nothing was written to.
func (p *Place) renew() error {
	if err := p.log.Truncate(0); err != nil {
		return err
	}
	return p.room(p.log, logSize)
}

// path is where another process opens a file of this one.
func path(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// Close gives the files up.
func (p *Place) Close() (err error) {
	for _, f := range []**os.File{&p.data, &p.log} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}

// resident is how much of the data is in the page cache, as a ratio of size.
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
