// Package host accesses a machine: its files, commands, clock, network devices and tasks. All
// other packages read and change a machine through a Host. So the same code works on this
// machine, a copied tree (a sosreport, a fixture), a recorded archive, and a machine with its
// root mounted.
package host

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

// ErrReadOnly is returned for a write to a copied machine.
var ErrReadOnly = errors.New("a copied machine is read-only")

// Host is one machine.
type Host struct {
	// Name is the machine's name in messages: "this machine", or the directory or
	// archive that represents it.
	Name string
	// Live reports whether values can be written: the machine is running, not a copy.
	Live bool
	// Incomplete describes the missing part of a truncated archive or report, or is empty.
	Incomplete string
	Files      Files
	Exec       Exec
	Clock      Clock
	Net        Net
	Sched      Sched
	Querier    Querier
	// SpaceReader returns the sizes of file systems. If it is nil, Files provides them.
	SpaceReader SpaceReader
	// remembered holds what Remember has read, by key; nil if nothing is remembered.
	remembered *sync.Map
}

// Files is the machine's file tree. Paths are absolute paths on the machine: for a copy in
// /tmp/sos the path is still /proc/sys/vm/swappiness.
type Files interface {
	// ReadFile reads a whole file, at most MaxFileSize bytes.
	ReadFile(path string) ([]byte, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	Stat(path string) (fs.FileInfo, error)
	Lstat(path string) (fs.FileInfo, error)
	Readlink(path string) (string, error)
	// Resolve follows all symbolic links within the machine's tree and returns the canonical
	// path.
	Resolve(path string) (string, error)

	// Store writes data to an existing file with exactly one write(2), which kernel attributes
	// require. It does not create files.
	Store(path string, data []byte) error
	// Replace writes a whole file atomically: it writes a temporary file in the same directory
	// and renames it, with fsync of the file and the directory. It does not create directories.
	Replace(path string, data []byte, attr Attr) error
	// Remove deletes a file or an empty directory and syncs its parent.
	Remove(path string) error
	// Mkdir creates one directory and syncs its parent.
	Mkdir(path string, mode fs.FileMode) error
	// Hold opens path, writes data with one write(2), and keeps the file open until Close. For
	// example, a request in /dev/cpu_dma_latency lasts until its file is closed.
	Hold(path string, data []byte) (Handle, error)
}

// Handle is an open file whose effect lasts until Close.
type Handle interface {
	// Store writes a new value through the open file.
	Store(data []byte) error
	Close() error
}

// Attr contains the mode and owner of a file.
type Attr struct {
	Mode     fs.FileMode // permission bits, and setuid, setgid, sticky
	UID, GID int
}

// MaxFileSize is the limit of one read, in bytes. Copied trees are untrusted.
const MaxFileSize = 16 << 20

// ErrTooLarge is returned by ReadFile for files above MaxFileSize.
var ErrTooLarge = fmt.Errorf("file larger than %d MiB", MaxFileSize>>20)

// Clock returns the machine's time.
type Clock interface {
	Now() time.Time
	// SinceBoot returns CLOCK_BOOTTIME, which includes suspend and cannot be set. A copy
	// returns ErrNotRecorded.
	SinceBoot() (time.Duration, error)
}

// BootID returns the id of the current boot (/proc/sys/kernel/random/boot_id).
func (h *Host) BootID() (string, error) {
	b, err := h.Files.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return trimLine(b), nil
}

func trimLine(b []byte) string {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return string(b)
}
