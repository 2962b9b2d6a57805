package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	"fettle.dev/fettle/internal/host"
)

// ErrUntrusted is returned for a file that root would use but other users can change.
var ErrUntrusted = errors.New("not trusted")

// Trusted returns nil if only root can change the file at a path. The file, every directory on the
// path and those of its links' targets must belong to root, and must not be writable by group or
// others. The error names the first exception.
func Trusted(h *host.Host, p string) error {
	if !path.IsAbs(p) {
		return fmt.Errorf("%s: %w: not an absolute path", p, ErrUntrusted)
	}
	if err := rootOnly(h, "/"); err != nil {
		return err
	}
	_, err := host.WalkLinks(p, true, func(step string) (fs.FileMode, error) {
		st, err := h.Files.Lstat(step)
		if err != nil {
			return 0, err
		}
		if st.Mode()&fs.ModeSymlink == 0 {
			err = rootOnly(h, step)
		}
		return st.Mode(), err
	}, h.Files.Readlink)
	return err
}

func rootOnly(h *host.Host, p string) error {
	st, err := h.Files.Lstat(p)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return host.NotRecorded(p + ": owner")
	case sys.Uid != 0:
		return fmt.Errorf("%s: %w: owned by uid %d, not by root", p, ErrUntrusted, sys.Uid)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: %w: writable by users other than root (mode %s)", p, ErrUntrusted, host.Octal(st.Mode()))
	}
	return nil
}

// guarded reports whether a file must be Trusted in this load: programs may run, and the file is
// on the machine. A snapshot was checked when it was accepted; a pending file is the caller's.
func (l *Loader) guarded(p string) bool {
	return l.executes() && l.Snapshot == nil && l.Pending[p] == nil && !IsBuiltin(p)
}

func (l *Loader) executes() bool { return l.Execute && l.Host != nil && l.Host.Live }

// mayExecute returns nil if functions may run programs now, else the error for
// expander.mayExecute.
func (s *loading) mayExecute() error {
	if !s.executes() {
		return errDeferred
	}
	if s.distrust != nil {
		return fmt.Errorf("refused to run a program: %w", s.distrust)
	}
	return nil
}
