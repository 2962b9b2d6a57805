package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Copy returns a machine that was copied into a directory, such as a sosreport or a fixture.
// It never writes and never runs programs. It follows links only inside dir.
func Copy(dir string) (*Host, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%s: not a directory", dir)
	}
	sos, debug := newSosreport(rootedFiles{dir}), newForemanDebug(rootedFiles{dir})
	files := copiedFiles{rootedFiles: sos.files, sos: sos, debug: debug, whole: !sos.is() && !debug.is() && wholeRoot(sos.files)}
	h := &Host{Name: dir, Incomplete: sos.incomplete(), Files: files, Exec: noExec{}, Clock: noClock{}, Net: noNet{}, Sched: noSched{}, Querier: noQuerier{}}
	if sos.is() {
		h.Exec, h.Clock, h.Querier = sosExec{sos}, sosClock{sos}, sosQuerier{h}
		return sos.overlayArchive(h), nil
	}
	if debug.is() {
		h.Clock = debugClock{noClock{}, debug}
	}
	return h, nil
}

// Mounted returns a live machine with its root mounted at dir: a node, or a writable test
// machine. It does not run programs.
func Mounted(dir string) *Host {
	return &Host{Name: dir, Live: true, Files: rootedFiles{dir}, Exec: noExec{}, Clock: liveClock{}, Net: noNet{}, Sched: noSched{}, Querier: noQuerier{}}
}

// IsCopiedTree reports whether the machine is a copied directory tree. A missing file may then
// exist on the machine.
func (h *Host) IsCopiedTree() bool {
	_, ok := h.Files.(copiedFiles)
	return ok
}

type noClock struct{}

func (noClock) Now() time.Time                    { return time.Now() }
func (noClock) SinceBoot() (time.Duration, error) { return 0, NotRecorded("uptime") }

// rootedFiles is the file tree of a machine whose "/" is the directory root.
type rootedFiles struct{ root string }

// WalkLinks resolves the links in a path of a tree, using lstat and readlink. "/" is the root
// of the tree, so no link leads outside. WalkLinks calls lstat for each step, including links.
// An error of lstat ends the walk.
func WalkLinks(p string, followLast bool, lstat func(string) (fs.FileMode, error), readlink func(string) (string, error)) (string, error) {
	pending := strings.Split(path.Clean("/"+p), "/")[1:]
	at := "/"
	for links := 0; len(pending) > 0; {
		name := pending[0]
		pending = pending[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := strings.TrimSuffix(at, "/") + "/" + name // at is clean
		mode, err := lstat(next)
		if err != nil {
			if len(pending) == 0 && NotFound(err) {
				return next, err
			}
			return "", err
		}
		if mode&fs.ModeSymlink == 0 || (len(pending) == 0 && !followLast) {
			at = next
			continue
		}
		if links++; links > 40 {
			return "", &fs.PathError{Op: "resolve", Path: p, Err: syscall.ELOOP}
		}
		to, err := readlink(next)
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(to, "/") {
			at = "/"
		}
		pending = append(strings.Split(to, "/"), pending...)
	}
	return at, nil
}

func (r rootedFiles) outer(p string) string { return filepath.Join(r.root, p) }

// inner sets the path of an error to the path on the machine.
func (r rootedFiles) inner(err error, p string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: pe.Op, Path: p, Err: pe.Err}
	}
	return err
}

func (r rootedFiles) walk(p string, followLast bool) (string, error) {
	at, err := WalkLinks(p, followLast,
		func(q string) (fs.FileMode, error) {
			st, err := os.Lstat(r.outer(q))
			if err != nil {
				return 0, err
			}
			return st.Mode(), nil
		},
		func(q string) (string, error) { return os.Readlink(r.outer(q)) })
	return at, r.inner(err, p)
}

func (r rootedFiles) ReadFile(p string) ([]byte, error) {
	at, err := r.walk(p, true)
	if err != nil {
		return nil, err
	}
	if st, err := os.Lstat(r.outer(at)); err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: p, Err: errors.New("not a regular file")}
	}
	b, err := readCapped(r.outer(at))
	return b, r.inner(err, p)
}

func (r rootedFiles) ReadDir(p string) ([]fs.DirEntry, error) {
	at, err := r.walk(p, true)
	if err != nil {
		return nil, err
	}
	d, err := os.ReadDir(r.outer(at))
	return d, r.inner(err, p)
}

func (r rootedFiles) stat(p string, follow bool) (fs.FileInfo, error) {
	at, err := r.walk(p, follow)
	if err != nil {
		return nil, err
	}
	if at == "/" {
		// The root itself may be a link, such as /proc/PID/root.
		st, err := os.Stat(r.root)
		return st, r.inner(err, p)
	}
	st, err := os.Lstat(r.outer(at))
	return st, r.inner(err, p)
}

func (r rootedFiles) Stat(p string) (fs.FileInfo, error)  { return r.stat(p, true) }
func (r rootedFiles) Lstat(p string) (fs.FileInfo, error) { return r.stat(p, false) }

func (r rootedFiles) Readlink(p string) (string, error) {
	at, err := r.walk(p, false)
	if err != nil {
		return "", err
	}
	to, err := os.Readlink(r.outer(at))
	return to, r.inner(err, p)
}

func (r rootedFiles) Resolve(p string) (string, error) {
	at, err := r.walk(p, true)
	if err != nil {
		return "", err
	}
	return at, nil
}

func (r rootedFiles) Store(p string, data []byte) error {
	at, err := r.walk(p, true)
	if err != nil {
		return err
	}
	return r.inner(storeAt(r.outer(at), data), p)
}

func (r rootedFiles) Replace(p string, data []byte, attr Attr) error {
	at, err := r.walk(p, true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || at == "" {
		return err
	}
	return r.inner(replaceAt(r.outer(at), data, attr), p)
}

func (r rootedFiles) Remove(p string) error {
	at, err := r.walk(p, false)
	if err != nil {
		return err
	}
	return r.inner(liveFiles{}.Remove(r.outer(at)), p)
}

func (r rootedFiles) Mkdir(p string, mode fs.FileMode) error {
	at, err := r.walk(p, false)
	if err == nil {
		return &fs.PathError{Op: "mkdir", Path: p, Err: fs.ErrExist}
	}
	if at == "" {
		return err
	}
	return r.inner(liveFiles{}.Mkdir(r.outer(at), mode), p)
}

func (r rootedFiles) Hold(p string, data []byte) (Handle, error) {
	at, err := r.walk(p, true)
	if err != nil {
		return nil, err
	}
	h, err := holdAt(r.outer(at), data)
	return h, r.inner(err, p)
}

// copiedFiles is a read-only rootedFiles. A missing file is not recorded (ErrNotRecorded). It
// certainly does not exist on the machine if a sosreport shows that, or if the tree is a whole
// root file system.
type copiedFiles struct {
	rootedFiles
	sos   *sosreport
	debug *foremanDebug
	whole bool
}

// wholeRoot reports whether a tree is a root file system, such as a mounted disk or an
// unpacked image. It looks for a shell: copies of configuration files lack one.
func wholeRoot(files rootedFiles) bool {
	for _, shell := range []string{"/bin/sh", "/usr/bin/sh"} {
		if st, err := files.Stat(shell); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return true
		}
	}
	return false
}

// absent reports whether the tree is a whole root file system without the file. It returns
// false below an empty directory: another file system may be mounted there at run time.
func (c copiedFiles) absent(p string) bool {
	if !c.whole {
		return false
	}
	for _, other := range []string{"/proc/", "/sys/", "/dev/", "/run/", "/tmp/"} {
		if strings.HasPrefix(p+"/", other) {
			return false
		}
	}
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if entries, err := c.rootedFiles.ReadDir(dir); err == nil {
			return len(entries) > 0
		}
		if dir == "/" {
			return false
		}
	}
}

// notCopied converts fs.ErrNotExist to ErrNotRecorded, unless the machine certainly lacks the
// file.
func (c copiedFiles) notCopied(err error, p string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && errors.Is(pe.Err, syscall.ENOENT) && !c.sos.absent(path.Clean("/"+p)) && !c.absent(path.Clean("/"+p)) {
		return &fs.PathError{Op: pe.Op, Path: pe.Path, Err: ErrNotRecorded}
	}
	return err
}

func (c copiedFiles) ReadFile(p string) ([]byte, error) {
	b, err := c.rootedFiles.ReadFile(p)
	if errors.Is(err, fs.ErrNotExist) {
		if b, ok := c.sos.file(path.Clean("/" + p)); ok {
			return b, nil
		}
		if b, ok := c.debug.file(path.Clean("/" + p)); ok {
			return b, nil
		}
	}
	return b, c.notCopied(err, p)
}

// ReadDir returns ErrNotRecorded for an empty directory below /proc or /sys: copying often
// leaves directories empty.
func (c copiedFiles) ReadDir(p string) ([]fs.DirEntry, error) {
	d, err := c.rootedFiles.ReadDir(p)
	p = path.Clean("/" + p)
	if err == nil && p == "/proc" {
		d = c.sos.listProcesses(d)
	}
	if lower, ok := c.sos.lower(p); ok && len(d) == 0 {
		return lower, nil
	}
	if err == nil && len(d) == 0 && isKernelPath(p) && !c.sos.absent(p+"/any") {
		err = &fs.PathError{Op: "readdir", Path: p, Err: ErrNotRecorded}
	}
	return d, c.notCopied(err, p)
}

// isKernelPath reports whether a path is in /proc or /sys. Only the kernel creates directories
// there.
func isKernelPath(p string) bool {
	p = path.Clean("/" + p)
	return p == "/sys" || p == "/proc" || strings.HasPrefix(p, "/sys/") || strings.HasPrefix(p, "/proc/")
}

func (c copiedFiles) Stat(p string) (fs.FileInfo, error) {
	st, err := c.rootedFiles.Stat(p)
	return st, c.notCopied(err, p)
}

func (c copiedFiles) Lstat(p string) (fs.FileInfo, error) {
	st, err := c.rootedFiles.Lstat(p)
	return st, c.notCopied(err, p)
}

func (c copiedFiles) Readlink(p string) (string, error) {
	to, err := c.rootedFiles.Readlink(p)
	return to, c.notCopied(err, p)
}

func (c copiedFiles) Resolve(p string) (string, error) {
	at, err := c.rootedFiles.Resolve(p)
	return at, c.notCopied(err, p)
}

func (copiedFiles) Store(p string, _ []byte) error           { return readOnly("write", p) }
func (copiedFiles) Replace(p string, _ []byte, _ Attr) error { return readOnly("replace", p) }
func (copiedFiles) Remove(p string) error                    { return readOnly("remove", p) }
func (copiedFiles) Mkdir(p string, _ fs.FileMode) error      { return readOnly("mkdir", p) }
func (copiedFiles) Hold(p string, _ []byte) (Handle, error)  { return nil, readOnly("open", p) }

func readOnly(op, p string) error { return &fs.PathError{Op: op, Path: p, Err: ErrReadOnly} }
