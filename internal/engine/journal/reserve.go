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

// Sizes of an undo's records in bytes: generous limits for one entry and for one transaction, and
// a margin for undos that are interrupted and repeated. On a full disk longer texts are left out.
const (
	undoEntryBytes = 1 << 10
	undoTxBytes    = 4 << 10
	undoMargin     = 32 << 10
	// reserveStep is the unit of reservations in bytes; rounding up keeps them few.
	reserveStep = 128 << 10
)

// undoRoom returns the size in bytes of the records that an undo of everything live needs.
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

// Room estimates the size in bytes of one setting's records in its transaction and its undo.
func Room(before, want setting.Value) int64 {
	return 2*undoEntryBytes + 2*int64(len(before.Text)+len(want.Text))
}

// reserve ensures that the given number of bytes can be written after the last record even if the
// disk fills up.
//
// It reserves blocks beyond the end of the file (fallocate(2)). Some file systems do not support
// that (ext2, NFS before 4.2, some FUSE). There it writes zeros, which later records overwrite;
// readers treat zeros as an incomplete record.
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

// fill writes zeros from the last record up to offset end.
func (j *Journal) fill(end int64) error {
	st, err := j.file.Stat()
	if err != nil {
		return err
	}
	from := st.Size()
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Blocks*512 < from {
		from = j.State.size // a hole in a sparse copy has no blocks
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

// clearTail overwrites an incomplete record with zeros. That record was never acknowledged, so no
// write followed it. The file keeps its length: the space is for an undo.
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

// short returns the commit of an undo without details for the history. It then fits into the
// reserved space even if the values found do not.
func (c Commit) short() Commit {
	undone := make([]Undone, len(c.Undone))
	for i, u := range c.Undone {
		undone[i] = Undone{Ref: u.Ref, State: u.State}
	}
	c.Undone = undone
	return c
}

// maxShortReason is the maximum length in bytes of an undo's command line on a full disk.
const maxShortReason = 200

// short returns the begin record of an undo without details for the history. It then fits into the
// reserved space, whatever its command line and note.
func (b Begin) short() Begin {
	b.Note, b.Planned, b.Refused = "", nil, nil
	if len(b.Reason) > maxShortReason {
		b.Reason = strings.ToValidUTF8(b.Reason[:maxShortReason], "")
	}
	return b
}
