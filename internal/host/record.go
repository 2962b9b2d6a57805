package host

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// MaxRecorded is the maximum size of a recorded file, in bytes. Larger files are returned in
// full and recorded as unread.
const MaxRecorded = 8 << 20

// Record returns a host that answers as h does and records every answer: files, missing files,
// directories, links, modes, errors, commands, network devices. It reads each path once and
// redacts the contents (see Redact), so the archive gives the same answers. The recording host
// is read-only.
func Record(h *Host) (*Host, *Recording) {
	a := newArchive(0)
	a.time = h.Clock.Now()
	r := &answerRecorder{inner: h.Files, tooLarge: map[string]bool{}, archivedFiles: archivedFiles{a}}
	rec := &Recording{r}
	return &Host{
		Name: h.Name, Live: false, Files: r,
		Exec:    recordingExec{r, h.Exec},
		Clock:   h.Clock,
		Net:     recordingNet{r, h.Net},
		Sched:   noSched{},
		Querier: recordingQuerier{r, h.Querier},

		SpaceReader: recordingSpace{r, h},
	}, rec
}

// Recording holds all answers of a recording host so far.
type Recording struct{ r *answerRecorder }

// WriteTo writes the archive as text.
func (rec *Recording) WriteTo(w io.Writer) (int64, error) {
	rec.r.mu.Lock()
	defer rec.r.mu.Unlock()
	c := countingWriter{w: w}
	err := rec.r.archive.writeTo(&c)
	return c.n, err
}

// TooLarge lists the files that were read but not recorded, sorted.
func (rec *Recording) TooLarge() []string {
	rec.r.mu.Lock()
	defer rec.r.mu.Unlock()
	return slices.Sorted(maps.Keys(rec.r.tooLarge))
}

// Size returns the number of bytes read from files so far.
func (rec *Recording) Size() int {
	rec.r.mu.Lock()
	defer rec.r.mu.Unlock()
	return rec.r.size
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// answerRecorder adds answers to an archive and returns them from there, so that both are equal.
type answerRecorder struct {
	mu    sync.Mutex
	inner Files
	size  int // bytes of all contents
	// tooLarge is the set of files that are not recorded.
	tooLarge map[string]bool
	archivedFiles
}

// learn ensures that the archive has an entry for p. It does not follow a link.
func (r *answerRecorder) learn(p string) (*entry, error) {
	e, err := r.lstat(p)
	if err == nil || !Unknown(err) {
		return e, err
	}
	st, err := r.inner.Lstat(p)
	switch {
	case Unknown(err):
		return nil, err // unknown to the copy, and therefore to the archive
	case errors.Is(err, fs.ErrNotExist):
		r.put(p, &entry{absent: true})
	case err != nil:
		r.put(p, &entry{mode: fs.ModeIrregular, errno: errnoOf(err)})
	default:
		r.put(p, r.entryOf(p, st.Mode()))
	}
	return r.lstat(p)
}

func (r *answerRecorder) entryOf(p string, mode fs.FileMode) *entry {
	e := &entry{mode: mode.Type() | fileMode(permBits(mode))}
	if mode&fs.ModeSymlink != 0 {
		to, err := r.inner.Readlink(p)
		if err != nil {
			return &entry{mode: fs.ModeIrregular, errno: errnoOf(err)}
		}
		e.target = to
	}
	return e
}

func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != 0 {
		return errno
	}
	return syscall.EIO
}

// learnWalk records p and all links in its path. It returns the resolved path.
func (r *answerRecorder) learnWalk(p string, followLast bool) (string, error) {
	return r.resolve(p, followLast, r.learn)
}

func (r *answerRecorder) ReadFile(p string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, err := r.learnWalk(p, true)
	if Unknown(err) {
		// A sosreport may have the content of a missing file (sosreport.file).
		if data, rerr := r.inner.ReadFile(p); rerr == nil {
			r.putFile(path.Clean("/"+p), Redact(p, data))
		}
		return r.archivedFiles.ReadFile(p)
	}
	if err != nil {
		return nil, err
	}
	if e := r.entries[at]; e != nil && !e.mode.IsDir() && !e.read && e.errno == 0 {
		data, err := r.inner.ReadFile(at)
		switch {
		case errors.Is(err, ErrTooLarge):
			r.tooLarge[p] = true
			return nil, err
		case Unknown(err):
			return nil, err
		case err != nil:
			e.errno = errnoOf(err)
		default:
			data = Redact(at, data)
			if p != at && secretFile(p) {
				data = Redact(p, data)
			}
			if len(data) > MaxRecorded {
				r.tooLarge[p] = true
				return data, nil
			}
			e.data, e.read = string(data), true
			r.size += len(data)
		}
	}
	return r.archivedFiles.ReadFile(p)
}

// putFile adds a file and its missing directories.
func (r *answerRecorder) putFile(p string, data []byte) {
	r.put(p, &entry{mode: 0o444, data: string(data), read: true})
	r.size += len(data)
	for dir := path.Dir(p); r.entries[dir] == nil; dir = path.Dir(dir) {
		r.put(dir, &entry{mode: fs.ModeDir | 0o755})
	}
}

func (r *answerRecorder) ReadDir(p string) ([]fs.DirEntry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, err := r.learnWalk(p, true)
	if err != nil {
		return nil, err
	}
	if e := r.entries[at]; e != nil && e.mode.IsDir() && !e.listed && e.errno == 0 {
		list, err := r.inner.ReadDir(at)
		switch {
		case Unknown(err):
			return nil, err
		case err != nil:
			e.errno = errnoOf(err)
		default:
			for _, d := range list {
				q := path.Join(at, d.Name())
				if r.entries[q] != nil {
					continue
				}
				// Omit an entry that was removed since the listing, such as a process.
				if st, err := d.Info(); err == nil {
					r.put(q, r.entryOf(q, st.Mode()))
				}
			}
			e.listed = true
		}
	}
	return r.archivedFiles.ReadDir(p)
}

// learned records a path and answers from the archive.
func learned[T any](r *answerRecorder, p string, followLast bool, answer func(string) (T, error)) (found T, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.learnWalk(p, followLast); err != nil {
		return found, err
	}
	return answer(p)
}

func (r *answerRecorder) Stat(p string) (fs.FileInfo, error) {
	return learned(r, p, true, r.archivedFiles.Stat)
}

func (r *answerRecorder) Lstat(p string) (fs.FileInfo, error) {
	return learned(r, p, false, r.archivedFiles.Lstat)
}

func (r *answerRecorder) Readlink(p string) (string, error) {
	return learned(r, p, false, r.archivedFiles.Readlink)
}

func (r *answerRecorder) Resolve(p string) (string, error) {
	return learned(r, p, true, r.archivedFiles.Resolve)
}

// recordingExec runs programs and records their results.
type recordingExec struct {
	r     *answerRecorder
	inner Exec
}

func (x recordingExec) Run(ctx context.Context, c Command) (Result, error) {
	res, err := x.inner.Run(ctx, c)
	if err != nil {
		return res, err
	}
	res.Stdout, res.Stderr = Redact("", res.Stdout), Redact("", res.Stderr)
	// Joined with zero bytes as in /proc/PID/cmdline, so that "--password" also hides the next
	// word.
	argv := strings.Split(string(Redact("", []byte(strings.Join(c.Argv, "\x00")))), "\x00")
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	if len(res.Stdout)+len(res.Stderr) <= MaxRecorded {
		x.r.commands[commandKey(argv)] = res
	}
	return res, nil
}

func (x recordingExec) LookPath(name string) (string, error) {
	p, err := x.inner.LookPath(name)
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	switch {
	case err == nil:
		x.r.programs[name] = p
	case errors.Is(err, fs.ErrNotExist):
		x.r.programs[name] = ""
	}
	return p, err
}

// archivedExec returns recorded results.
type archivedExec struct{ a *archive }

func (x archivedExec) Run(_ context.Context, c Command) (Result, error) {
	res, ok := x.a.commands[commandKey(c.Argv)]
	if !ok {
		return Result{}, NotRecorded(c.String())
	}
	return res, nil
}

func (x archivedExec) LookPath(name string) (string, error) {
	p, ok := x.a.programs[name]
	switch {
	case !ok:
		return "", NotRecorded(name)
	case p == "":
		return "", &fs.PathError{Op: "look up", Path: name, Err: fs.ErrNotExist}
	}
	return p, nil
}
