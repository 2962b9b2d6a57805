// Package host is the only door to a machine: its files, commands, clock,
// network devices, scheduler and services. Every other package asks a Host, so
// the same code reads this machine, a copied tree (a sosreport, a fixture) or a
// machine seen through a mount.
package host

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// ErrReadOnly says that a write was tried on a copied tree.
var ErrReadOnly = errors.New("a copied machine is read only")

// Host is one machine.
type Host struct {
	// Name is how messages call the machine: "this machine", or the directory
	// or archive that stands in for it.
	Name string
	// Live is true when the kernel that answers is the one that is tuned, so
	// that values can be written and programs run.
	Live bool
	// Incomplete says, for a person, what is missing of an archive that was cut
	// off; it is empty where nothing is known to be missing.
	Incomplete string
	Files      Files
	Exec       Exec
	Clock      Clock
	Net        Net
	Sched      Sched
	Querier    Querier
	// SpaceReader are nil where the files themselves say what they are on.
	SpaceReader SpaceReader
}

// Files is the machine's file tree. Paths are absolute and are the machine's
// own: a copy in /tmp/sos is still asked for /proc/sys/vm/swappiness.
type Files interface {
	// ReadFile reads a whole file, at most MaxFileSize bytes.
	ReadFile(path string) ([]byte, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	Stat(path string) (fs.FileInfo, error)
	Lstat(path string) (fs.FileInfo, error)
	Readlink(path string) (string, error)
	// Resolve follows every symbolic link, inside this machine's tree, and
	// returns the one path that names the place.
	Resolve(path string) (string, error)

	// Store writes data into an existing file with exactly one write(2), as
	// kernel attributes need it. It creates nothing.
	Store(path string, data []byte) error
	// Replace puts a whole file in place atomically: temporary file beside it,
	// fsync, rename, fsync of the directory. Parent directories are not made.
	Replace(path string, data []byte, attr Attr) error
	// Remove deletes a file or an empty directory and syncs its parent.
	Remove(path string) error
	// Mkdir makes one directory and syncs its parent.
	Mkdir(path string, mode fs.FileMode) error
	// Hold opens path, writes data with one write(2) and keeps the descriptor
	// open until Close: /dev/cpu_dma_latency holds its request only so long.
	Hold(path string, data []byte) (Handle, error)
}

// Handle is a descriptor kept open for its effect.
type Handle interface {
	// Store writes a new value through the open descriptor.
	Store(data []byte) error
	Close() error
}

// Attr is what a file has beside its content.
type Attr struct {
	Mode     fs.FileMode // permission bits, and setuid, setgid, sticky
	UID, GID int
}

// MaxFileSize caps one read, in bytes: a copied tree is hostile input.
const MaxFileSize = 16 << 20

// ErrTooLarge is returned by ReadFile beyond MaxFileSize.
var ErrTooLarge = fmt.Errorf("file larger than %d MiB", MaxFileSize>>20)

// Clock tells the machine's time.
type Clock interface {
	Now() time.Time
	// SinceBoot is CLOCK_BOOTTIME: it goes on during suspend and no one can
	// set it. A copy returns ErrNotRecorded.
	SinceBoot() (time.Duration, error)
}

// BootID names this boot of the kernel (/proc/sys/kernel/random/boot_id).
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
