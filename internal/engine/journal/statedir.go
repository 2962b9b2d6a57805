package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// ErrRefused is returned for a state directory that is not fettle's, or that another user could
// have prepared.
var ErrRefused = &ui.Sentinel{
	Text: "refused", Exits: ui.Refused,
	Remedy: &ui.Remedy{To: "to keep the state elsewhere", OwnState: true},
}

// own reports whether a file belongs to this user. readable also accepts root, who could change
// anything anyway.
func own(uid uint32) bool      { return int(uid) == os.Geteuid() }
func readable(uid uint32) bool { return uid == 0 || own(uid) }

// checkDir returns the directory's file information, or an error if another user could have
// prepared it.
func checkDir(dir string, trusted func(uid uint32) bool) (fs.FileInfo, error) {
	st, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("state directory %s is a symbolic link: %w; name its target with --state-dir", dir, ErrRefused)
	case !st.IsDir():
		return nil, fmt.Errorf("state directory %s is not a directory: %w", dir, ErrRefused)
	case !ok || !trusted(sys.Uid):
		return nil, fmt.Errorf("state directory %s belongs to user %d, not to you (%d): %w", dir, sys.Uid, os.Geteuid(), ErrRefused)
	case st.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("state directory %s is writable by other users (mode %s): %w; if you trust its content: chmod 0700 %[1]s", dir, host.Octal(st.Mode()), ErrRefused)
	}
	return st, nil
}

// Prepare creates the state directory, or checks that an existing one is fettle's or empty. It
// returns ErrRefused for a directory with other content and does not change it.
func Prepare(dir string) error {
	st, err := usable(dir)
	switch {
	case err != nil:
		return err
	case st == nil:
		return create(dir)
	case st.Mode().Perm()&0o077 != 0: // it has a journal
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// Usable returns the error with which Prepare would refuse a directory. It changes nothing.
func Usable(dir string) error {
	_, err := usable(dir)
	return err
}

// usable returns the information of a directory that Prepare accepts, or nil if it does not exist.
func usable(dir string) (fs.FileInfo, error) {
	st, err := checkDir(dir, own)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notKernels(dir)
	}
	if err != nil || hasJournal(dir) {
		return st, err
	}
	if err := notKernels(dir); err != nil {
		return nil, err
	}
	if err := onlyOurs(dir); err != nil {
		return nil, err
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("state directory %s is readable by other users (mode %s) and has no journal yet: %w; chmod 0700 %[1]s, or name a new directory", dir, host.Octal(st.Mode()), ErrRefused)
	}
	return st, nil
}

func create(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := checkDir(dir, own); err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(dir))
}

// hasJournal reports whether a directory contains a journal of fettle.
func hasJournal(dir string) bool {
	f, err := openOwn(filepath.Join(dir, "journal"), unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, 10)
	n, _ := f.Read(begin)
	_, err = strconv.ParseUint(string(begin[:8]), 16, 32)
	return n == len(begin) && err == nil && string(begin[8:]) == " {" // as encode writes it
}

// ourNames matches the names of the files in fettle's state directory, and lost+found of an empty
// file system.
var ourNames = text.LazyRegexp(`^(?:journal(?:\..*)?|lock|checkout|accepted|daemon|experiment|numa-balance|runs|scenarios|\.?writers(?:\.new)?|lost\+found)$`)

// onlyOurs returns an error for a directory with files that are not fettle's.
func onlyOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !ourNames().MatchString(e.Name()) {
			return fmt.Errorf("%s contains %s but no journal, so it is not a state directory of fettle: %w; name an empty or new directory with --state-dir", dir, e.Name(), ErrRefused)
		}
	}
	return nil
}

// kernelTrees are the directories with kernel objects and devices.
var kernelTrees = []string{"/proc", "/sys", "/dev"}

// kernelSystems are file systems whose directories are kernel objects (linux/magic.h).
var kernelSystems = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC,
	unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC,
	unix.DEVPTS_SUPER_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.HUGETLBFS_MAGIC, unix.BINFMTFS_MAGIC,
	unix.RDTGROUP_SUPER_MAGIC, 0x62656570, // configfs
}

// notKernels returns an error for a directory of the kernel, also if reached through links.
func notKernels(dir string) error {
	at, err := filepath.EvalSymlinks(dir)
	for up := dir; err != nil && up != filepath.Dir(up); {
		up = filepath.Dir(up) // the longest existing part of the path
		at, err = filepath.EvalSymlinks(up)
	}
	if err != nil {
		return err
	}
	var s unix.Statfs_t
	if err := unix.Statfs(at, &s); err != nil {
		return &fs.PathError{Op: "statfs", Path: at, Err: err}
	}
	in := func(tree string) bool { return at == tree || strings.HasPrefix(at, tree+"/") }
	if slices.ContainsFunc(kernelTrees, in) && !in("/dev/shm") || // /dev/shm is for files of all users
		slices.Contains(kernelSystems, int64(s.Type)) { //nolint:unconvert // int32 on some machines
		return fmt.Errorf("state directory %s is on a kernel file system (%s), which stores no files: %w; name another one with --state-dir", dir, at, ErrRefused)
	}
	return nil
}
