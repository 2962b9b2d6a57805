package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// archive is one machine in text form: the answers that Record read from it. It returns these
// answers, and ErrNotRecorded for any other question. It is read-only. archive_text.go
// describes the format.
type archive struct {
	time     time.Time // time of the recording; zero if unknown
	entries  map[string]*entry
	names    map[string][]string // base names of the entries of each directory
	commands map[string]Result   // by argument vector in JSON form
	programs map[string]string   // results of LookPath; "" means that the program is missing
	links    []Link              // network devices
	linked   bool                // whether links is complete
	params   map[netKey]netAnswer
	asks     map[string][]byte // recorded answers of programs over a connection, by question
	// incomplete is the value of Host.Incomplete.
	incomplete string
	// resolved are directories without links by their paths with links, which are asked for often:
	// most files of a device are reached through /sys/class or /sys/block.
	resolved sync.Map
}

// entry is one path of an archive.
type entry struct {
	mode fs.FileMode // type and permission bits
	// absent reports whether the machine lacks the path.
	absent bool
	// data is a file's content, or nil if it was not read.
	data []byte
	// target is the target of a symbolic link, as readlink(2) returns it.
	target string
	// listed reports whether the archive has an entry for every name in the directory.
	listed bool
	// errno is the error of reading the file or listing the directory; 0 without an error.
	errno syscall.Errno
}

// newArchive returns an empty archive with room for entries.
func newArchive(entries int) *archive {
	a := &archive{
		entries:  make(map[string]*entry, entries+1),
		names:    make(map[string][]string, entries/8),
		commands: map[string]Result{},
		programs: map[string]string{},
		params:   map[netKey]netAnswer{},
		asks:     map[string][]byte{},
	}
	a.entries["/"] = &entry{mode: fs.ModeDir | 0o755}
	return a
}

// lstat looks up one path without following links.
func (a *archive) lstat(p string) (*entry, error) {
	if e := a.entries[p]; e != nil {
		if e.absent {
			return nil, &fs.PathError{Op: "lstat", Path: p, Err: syscall.ENOENT}
		}
		if e.mode.Type() == fs.ModeIrregular { // lstat itself failed
			return nil, &fs.PathError{Op: "lstat", Path: p, Err: e.errno}
		}
		return e, nil
	}
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		e := a.entries[dir]
		switch {
		case e == nil && dir != "/":
			continue
		case e != nil && (e.listed || e.absent):
			return nil, &fs.PathError{Op: "lstat", Path: p, Err: syscall.ENOENT}
		case e != nil && e.mode.IsRegular():
			return nil, &fs.PathError{Op: "lstat", Path: p, Err: syscall.ENOTDIR}
		}
		return nil, &fs.PathError{Op: "lstat", Path: p, Err: ErrNotRecorded}
	}
}

// archivedFiles implements Files for an archive.
type archivedFiles struct{ *archive }

func (a archivedFiles) walk(p string, followLast bool) (string, *entry, error) {
	// Nothing is below a link (checkParents), so an entry's own path has none.
	if e := a.entries[p]; e != nil && !e.absent && (e.mode.IsDir() || e.mode.IsRegular()) {
		return p, e, nil
	}
	if at, e := a.below(p); e != nil {
		return at, e, nil
	}
	at, err := a.resolve(p, followLast, a.lstat)
	if err != nil {
		return "", nil, err
	}
	e, err := a.lstat(at)
	return at, e, pathError(err, p)
}

// below looks for a file or directory by the directory without links that has it. e is nil if that
// does not decide: for a link, a missing entry, or a path that is not clean.
func (a archivedFiles) below(p string) (at string, e *entry) {
	if len(p) < 2 || p[0] != '/' || path.Clean(p) != p {
		return "", nil
	}
	dir, name := parentOf(p)
	to, known := a.resolved.Load(dir)
	if !known {
		found, err := a.resolve(dir, true, a.lstat)
		if err != nil {
			found = ""
		}
		to, _ = a.resolved.LoadOrStore(dir, found)
	}
	if to == "" {
		return "", nil
	}
	at = strings.TrimSuffix(to.(string), "/") + "/" + name
	if e = a.entries[at]; e == nil || e.absent || !e.mode.IsDir() && !e.mode.IsRegular() {
		return "", nil
	}
	return at, e
}

// resolve follows the links of a path. lookup returns the entry of a path without links.
func (a archivedFiles) resolve(p string, followLast bool, lookup func(string) (*entry, error)) (string, error) {
	at, err := WalkLinks(p, followLast,
		func(q string) (fs.FileMode, error) {
			e, err := lookup(q)
			if err != nil {
				return 0, err
			}
			return e.mode, nil
		},
		func(q string) (string, error) { return a.entries[q].target, nil })
	return at, pathError(err, p)
}

// pathError replaces the path of an error with the requested path.
func pathError(err error, p string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: pe.Op, Path: p, Err: pe.Err}
	}
	return err
}

func (a archivedFiles) ReadFile(p string) ([]byte, error) {
	_, e, err := a.walk(p, true)
	switch {
	case err != nil:
		return nil, err
	case e.mode.IsDir():
		return nil, &fs.PathError{Op: "read", Path: p, Err: syscall.EISDIR}
	case e.errno != 0:
		return nil, &fs.PathError{Op: "read", Path: p, Err: e.errno}
	case e.data == nil:
		return nil, &fs.PathError{Op: "read", Path: p, Err: ErrNotRecorded}
	}
	return append([]byte(nil), e.data...), nil
}

func (a archivedFiles) ReadDir(p string) ([]fs.DirEntry, error) {
	at, e, err := a.walk(p, true)
	switch {
	case err != nil:
		return nil, err
	case !e.mode.IsDir():
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: syscall.ENOTDIR}
	case e.errno != 0:
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: e.errno}
	case !e.listed:
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: ErrNotRecorded}
	}
	var found []fs.DirEntry
	for _, name := range a.names[at] {
		if c := a.entries[strings.TrimSuffix(at, "/")+"/"+name]; !c.absent {
			found = append(found, fs.FileInfoToDirEntry(archivedInfo{name, c}))
		}
	}
	slices.SortFunc(found, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return found, nil
}

// parentOf splits a clean absolute path.
func parentOf(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	return p[:max(i, 1)], p[i+1:]
}

// put adds or replaces an entry. p is clean.
func (a *archive) put(p string, e *entry) {
	if a.entries[p] == nil {
		dir, name := parentOf(p)
		a.names[dir] = append(a.names[dir], name)
	}
	a.entries[p] = e
}

func (a archivedFiles) Stat(p string) (fs.FileInfo, error) {
	at, e, err := a.walk(p, true)
	if err != nil {
		return nil, err
	}
	return archivedInfo{path.Base(at), e}, nil
}

func (a archivedFiles) Lstat(p string) (fs.FileInfo, error) {
	at, e, err := a.walk(p, false)
	if err != nil {
		return nil, err
	}
	return archivedInfo{path.Base(at), e}, nil
}

func (a archivedFiles) Readlink(p string) (string, error) {
	_, e, err := a.walk(p, false)
	if err != nil {
		return "", err
	}
	if e.mode&fs.ModeSymlink == 0 {
		return "", &fs.PathError{Op: "readlink", Path: p, Err: syscall.EINVAL}
	}
	return e.target, nil
}

func (a archivedFiles) Resolve(p string) (string, error) {
	at, _, err := a.walk(p, true)
	return at, err
}

func (archivedFiles) Store(p string, _ []byte) error           { return readOnly("write", p) }
func (archivedFiles) Replace(p string, _ []byte, _ Attr) error { return readOnly("replace", p) }
func (archivedFiles) Remove(p string) error                    { return readOnly("remove", p) }
func (archivedFiles) Mkdir(p string, _ fs.FileMode) error      { return readOnly("mkdir", p) }
func (archivedFiles) Hold(p string, _ []byte) (Handle, error)  { return nil, readOnly("open", p) }

type archivedInfo struct {
	name string
	*entry
}

func (i archivedInfo) Name() string       { return i.name }
func (i archivedInfo) Size() int64        { return int64(len(i.data)) }
func (i archivedInfo) Mode() fs.FileMode  { return i.mode }
func (i archivedInfo) ModTime() time.Time { return time.Time{} }
func (i archivedInfo) IsDir() bool        { return i.mode.IsDir() }
func (i archivedInfo) Sys() any           { return nil }

// archivedClock is the clock of an archive. Now returns the time of the recording.
type archivedClock struct{ a *archive }

func (c archivedClock) Now() time.Time { return c.a.time }

func (c archivedClock) SinceBoot() (time.Duration, error) {
	b, err := archivedFiles{c.a}.ReadFile("/proc/uptime")
	if err != nil {
		return 0, NotRecorded("uptime")
	}
	var s float64
	if _, err := fmt.Sscan(string(b), &s); err != nil || s < 0 || s > 1e10 {
		return 0, fmt.Errorf("/proc/uptime: cannot read %q", trimLine(b))
	}
	return time.Duration(s * float64(time.Second)), nil
}
