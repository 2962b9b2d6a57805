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
	below    map[string][]archivedInfo // entries of each directory
	commands map[string]Result         // by argument vector in JSON form
	programs map[string]string         // results of LookPath; "" means that the program is missing
	links    []Link                    // network devices
	linked   bool                      // whether links is complete
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
	// data is a file's content. read reports whether it was read.
	data string
	read bool
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
		below:    make(map[string][]archivedInfo, entries/8),
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
	at, ok := a.withoutLinks(p)
	if e := a.entries[at]; !ok || e != nil && e.mode&fs.ModeSymlink != 0 {
		var err error
		if at, err = a.resolve(p, followLast, a.lstat); err != nil {
			return "", nil, err
		}
	}
	e, err := a.lstat(at)
	if err != nil {
		return "", nil, pathError(err, p)
	}
	return at, e, nil
}

// withoutLinks returns a path with the links of its directory resolved. ok is false if the directory
// has no entry, or if the path is not clean.
func (a archivedFiles) withoutLinks(p string) (at string, ok bool) {
	if len(p) < 2 || p[0] != '/' || path.Clean(p) != p {
		return "", false
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
		return "", false
	}
	return strings.TrimSuffix(to.(string), "/") + "/" + name, true
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
	case !e.read:
		return nil, &fs.PathError{Op: "read", Path: p, Err: ErrNotRecorded}
	}
	return []byte(e.data), nil
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
	list := a.below[at]
	found := make([]fs.DirEntry, 0, len(list))
	for i := range list {
		if !list[i].absent {
			found = append(found, &list[i])
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
	if old := a.entries[p]; old != nil {
		*old = *e
		return
	}
	dir, name := parentOf(p)
	a.below[dir] = append(a.below[dir], archivedInfo{name, e})
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

// archivedInfo is an entry as fs.FileInfo and as fs.DirEntry.
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

func (i archivedInfo) Type() fs.FileMode          { return i.mode.Type() }
func (i archivedInfo) Info() (fs.FileInfo, error) { return i, nil }

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
