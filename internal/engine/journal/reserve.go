package journal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/setting"
)

// Sizes of the records of an undo, in bytes: generous limits for one entry and for one
// transaction, and a margin for undos that are interrupted and repeated. Longer texts are left
// out if the disk is full.
const (
	undoEntryBytes = 1 << 10
	undoTxBytes    = 4 << 10
	undoMargin     = 32 << 10
	// reserveStep rounds reservations up, so that there are few.
	reserveStep = 128 << 10
)

// undoRoom returns the size of the records for the undo of everything live, in bytes.
func (s *State) undoRoom() int64 {
	room := int64(undoMargin)
	for _, t := range s.Txs {
		if t.IsLive() {
			room += undoTxBytes
		}
		for _, e := range t.Entries {
			if e.IsLive() {
				room += undoEntryBytes
			}
		}
	}
	return room
}

// Room estimates the size of the records of one setting in its transaction and its undo, in
// bytes.
func Room(before, want setting.Value) int64 {
	return 2*undoEntryBytes + 2*int64(len(before.Text)+len(want.Text))
}

// reserve ensures that the given number of bytes can be written after the last record even if
// the disk fills up.
//
// It reserves blocks beyond the end of the file (fallocate(2)). If the file system does not
// support that (ext2, NFS before 4.2, some FUSE), it writes zeros, which records later
// overwrite; readers treat them as an incomplete record.
func (j *Journal) reserve(bytes int64) error {
	end := j.State.size + bytes
	if end <= j.reserved {
		return nil
	}
	err := j.setAside((end + reserveStep - 1) / reserveStep * reserveStep)
	if isFull(err) {
		err = j.setAside(end)
	}
	if err != nil {
		return fmt.Errorf("no space in %s for %d KiB of journal; nothing changed: %w", j.dir, bytes>>10, err)
	}
	return nil
}

func (j *Journal) setAside(end int64) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = j.fallocate(int(j.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, j.State.size, end-j.State.size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		err = j.fill(end)
	}
	if err != nil {
		return err
	}
	j.reserved = end
	return nil
}

// fill writes zeros after the last record, up to end.
func (j *Journal) fill(end int64) error {
	st, err := j.file.Stat()
	if err != nil {
		return err
	}
	from := st.Size()
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Blocks*512 < from {
		from = j.State.size // a sparse copy has no blocks in its holes
	}
	zeros := make([]byte, 64<<10)
	for off := from; off < end; {
		n, err := j.file.WriteAt(zeros[:min(int64(len(zeros)), end-off)], off)
		if err != nil {
			_ = j.file.Truncate(st.Size())
			return err
		}
		off += int64(n)
	}
	if err := j.file.Sync(); err != nil {
		_ = j.file.Truncate(st.Size())
		return err
	}
	return nil
}

// clearTail overwrites an incomplete record with zeros. It was never acknowledged, so nothing
// was done after it. The file keeps its length: the space is for an undo.
func (j *Journal) clearTail() error {
	st, err := j.file.Stat()
	if err != nil || st.Size() <= j.State.size {
		return err
	}
	tail := make([]byte, st.Size()-j.State.size)
	if _, err := j.file.ReadAt(tail, j.State.size); err != nil {
		return err
	}
	if zeroed(tail) {
		return nil
	}
	return j.erase(len(tail))
}

// erase overwrites n bytes after the last record with zeros.
func (j *Journal) erase(n int) error {
	if _, err := j.file.WriteAt(make([]byte, n), j.State.size); err != nil {
		return err
	}
	return unix.Fdatasync(int(j.file.Fd()))
}

func zeroed(text []byte) bool { return len(bytes.Trim(text, "\x00")) == 0 }

// isFull reports whether an error means that the disk or quota is full.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// short returns the commit of an undo without details for the history, so that it fits into the
// reserved space even if the values that the undo found do not.
func (c Commit) short() Commit {
	undone := make([]Undone, len(c.Undone))
	for i, u := range c.Undone {
		undone[i] = Undone{Ref: u.Ref, State: u.State}
	}
	c.Undone = undone
	return c
}

// maxShortReason is the maximum length of the command line of an undo on a full disk, in
// bytes.
const maxShortReason = 200

// short returns the begin record of an undo without details for the history, so that it fits
// into the reserved space whatever its command line and note are.
func (b Begin) short() Begin {
	b.Note, b.Planned = "", nil
	if len(b.Reason) > maxShortReason {
		b.Reason = strings.ToValidUTF8(b.Reason[:maxShortReason], "")
	}
	return b
}
