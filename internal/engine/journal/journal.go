package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/ui"
)

// DefaultDir is the default state directory of a machine.
const DefaultDir = "/var/lib/fettle"

// ErrBusy is returned while another transaction is in progress (exit code 75).
var ErrBusy = &ui.Sentinel{
	Text: "another transaction is running", Exits: ui.Busy,
	Hint: "wait until it ends (see fettle status)", Remedy: &ui.Remedy{},
}

// Journal is the journal of one machine, locked for writing.
type Journal struct {
	State *State

	dir    string
	file   *os.File
	lock   *os.File
	bootID string
	// at is called at each point where a crash could leave incomplete work, with the point's name.
	// Tests end the process there.
	at func(point string)
	// reserved is the file offset up to which disk space is reserved.
	reserved  int64
	rotateAt  int64
	fallocate func(fd int, mode uint32, off, length int64) error
}

// Options are the options of Lock.
type Options struct {
	// BootID identifies the current boot; runtime entries of other boots are closed.
	BootID string
	// At, if not nil, is called at each point where a crash could leave incomplete work. Tests
	// kill the process there.
	At func(point string)
	// RotateAt is the growth in bytes at which Rotate acts; 0 means the default.
	RotateAt int64
	// Fallocate replaces fallocate(2) in tests of file systems without it.
	Fallocate func(fd int, mode uint32, off, length int64) error
}

// Read returns the state without taking the lock. A missing journal gives an empty state. The
// journal may belong to this user or to root. The error is fs.ErrPermission if this user may not
// read it.
func Read(dir, bootID string) (*State, error) {
	if _, err := checkDir(dir, readable); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return &State{nextID: 1}, nil
		}
		return nil, err
	}
	f, err := openRead(filepath.Join(dir, "journal"))
	if errors.Is(err, fs.ErrNotExist) {
		return &State{nextID: 1}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readState(f, bootID)
}

func readState(f *os.File, bootID string) (*State, error) {
	var text bytes.Buffer
	if st, err := f.Stat(); err == nil {
		text.Grow(int(st.Size()) + bytes.MinRead) // one read without copies
	}
	if _, err := text.ReadFrom(f); err != nil {
		return nil, err
	}
	s, err := parse(text.Bytes(), bootID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return s, nil
}

// Lock takes the machine's transaction lock and opens the journal. It creates a missing journal.
// ErrBusy names the process that holds the lock.
func Lock(dir string, o Options) (*Journal, error) {
	j, err := lockDir(dir, o)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("cannot write state directory %s (%w); nothing changed. Make it writable, or name another one with --state-dir", dir, err)
	}
	return j, err
}

func lockDir(dir string, o Options) (*Journal, error) {
	if err := Prepare(dir); err != nil {
		return nil, err
	}
	lock, err := openOwn(filepath.Join(dir, "lock"), unix.O_RDWR|unix.O_CREAT, 0o600)
	if err != nil {
		return nil, err
	}
	if err := take(lock); err != nil {
		lock.Close()
		return nil, err
	}
	j := &Journal{dir: dir, lock: lock, bootID: o.BootID, at: o.At, fallocate: o.Fallocate, rotateAt: cmp.Or(o.RotateAt, rotateAt)}
	if j.at == nil {
		j.at = func(string) {}
	}
	if j.fallocate == nil {
		j.fallocate = unix.Fallocate
	}
	if err := j.open(); err != nil {
		lock.Close()
		return nil, err
	}
	return j, nil
}

func (j *Journal) open() error {
	path := filepath.Join(j.dir, "journal")
	f, err := openOwn(path, unix.O_RDWR|unix.O_CREAT, 0o600)
	if err != nil {
		return err
	}
	j.file, j.reserved = f, 0
	if j.State, err = readState(f, j.bootID); err != nil {
		f.Close()
		return err
	}
	err = j.clearTail()
	if err == nil && j.State.Generation == 0 {
		if err = j.append("start", record{Start: &start{Version: 1, NextID: j.State.nextID}}); err == nil {
			err = host.SyncDir(j.dir)
		}
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Close releases the lock.
func (j *Journal) Close() error {
	err := j.file.Close()
	return errors.Join(err, j.lock.Close())
}

// Dir returns the state directory.
func (j *Journal) Dir() string { return j.dir }

// append writes one record durably. After an error the journal is as before.
func (j *Journal) append(point string, r record) error {
	r.Seq = j.State.Generation
	line, err := r.encode()
	if err != nil {
		return err
	}
	j.at("journal:" + point + ":write")
	if _, err := j.file.WriteAt(line, j.State.size); err != nil {
		_ = j.erase(len(line))
		return fmt.Errorf("stopped: cannot write the journal: %w", err)
	}
	j.at("journal:" + point + ":sync")
	if err := unix.Fdatasync(int(j.file.Fd())); err != nil {
		_ = j.erase(len(line))
		return fmt.Errorf("stopped: cannot sync the journal to disk: %w", err)
	}
	if err := j.State.fold(r, j.bootID); err != nil {
		return err
	}
	j.State.Generation++
	j.State.size += int64(len(line))
	j.at("journal:" + point + ":done")
	return nil
}

// add appends a record that undo will need. First it reserves space for the record, for the records
// expected after it (more, in bytes), and for the undo of all live entries.
func (j *Journal) add(point string, r record, more int64) error {
	r.Seq = j.State.Generation
	line, err := r.encode()
	if err != nil {
		return err
	}
	if err := j.reserve(int64(len(line)) + more + j.State.undoRoom()); err != nil {
		return err
	}
	return j.append(point, r)
}

// Begin opens a transaction and sets b.ID. It fails if the disk lacks space for b.Room and for the
// undo of everything live. An undo uses the space that was reserved for it.
func (j *Journal) Begin(b Begin) (*Tx, error) {
	b.ID = j.State.nextID
	r := record{Begin: &b}
	var err error
	if b.Kind == Undo {
		err = j.append("begin", r)
		if isFull(err) {
			short := b.short()
			err = j.append("begin", record{Begin: &short})
		}
	} else {
		err = j.add("begin", r, undoTxBytes+b.Room)
	}
	if err != nil {
		return nil, err
	}
	return j.State.Tx(b.ID), nil
}

// Stage numbers the before-images of the next writes and records them durably. The caller must not
// write before it returns.
func (j *Journal) Stage(t *Tx, entries []Before) error {
	var room int64
	for i := range entries {
		entries[i].N = len(t.Entries) + 1 + i
		room += Room(entries[i].Before, entries[i].Want)
	}
	return j.add("stage", record{Stage: &stage{ID: t.ID, Entries: entries}}, room)
}

// Commit closes a transaction. An undo or rollback uses the space reserved for it; other
// transactions leave that space reserved.
func (j *Journal) Commit(c Commit) error {
	if t := j.State.Tx(c.ID); t != nil && t.Kind != Undo && c.Result != ResultRolledBack {
		return j.add("commit", record{Commit: &c}, 0)
	}
	err := j.append("commit", record{Commit: &c})
	if isFull(err) {
		short := c.short()
		err = j.append("commit", record{Commit: &short})
	}
	return err
}

// Confirm makes a transaction on trial permanent.
func (j *Journal) Confirm(c Confirm) error {
	return j.add("confirm", record{Confirm: &c}, 0)
}

// openOwn opens a file of the state directory. It accepts only a regular file of this user, not a
// link.
func openOwn(path string, flags int, mode uint32) (*os.File, error) {
	return open(path, flags, mode, own)
}

// openRead opens a file of the state directory, which may also belong to root.
func openRead(path string) (*os.File, error) { return open(path, unix.O_RDONLY, 0, readable) }

func open(path string, flags int, mode uint32, trusted func(uid uint32) bool) (*os.File, error) {
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !st.Mode().IsRegular() || !ok || !trusted(sys.Uid) {
		f.Close()
		return nil, fmt.Errorf("%s is not a regular file owned by this user: %w", path, ErrRefused)
	}
	return f, nil
}
