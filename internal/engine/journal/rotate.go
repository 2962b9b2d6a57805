package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
)

// rotateAt is the growth in bytes at which a file is rotated. Every command reads the whole file
// at its start; 64 KiB take most of a millisecond.
const rotateAt = 64 << 10

// keptSwitches is the number of profile switches that can be undone individually after a rotation.
// Older ones are merged into the next one. Otherwise a machine that switches twice a day for years
// would read all of them at every start.
const keptSwitches = 4

// Rotate renames a large file to journal.N and starts a new one with the live transactions.
// History also reads the renamed files. If the disk has no space, Rotate does nothing and the file
// grows further.
func (j *Journal) Rotate() error {
	if j.State.size-j.State.base < j.rotateAt || len(j.State.Interrupted()) > 0 || len(j.State.Damage) > 0 {
		return nil
	}
	// Read again, so that j.State stays valid if this fails.
	s, err := Read(j.dir, j.bootID)
	if err != nil {
		return err
	}
	s.merge()
	path := filepath.Join(j.dir, "journal")
	fresh, err := openOwn(path+".new", unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer fresh.Close()
	next := &Journal{dir: j.dir, file: fresh, at: j.at, fallocate: j.fallocate, State: s}
	if err := next.begin(); err != nil {
		_ = os.Remove(path + ".new")
		if isFull(err) {
			return nil
		}
		return err
	}
	// The link gives the old records their new name before the rename replaces the file, so a
	// journal exists at every moment.
	j.at("journal:rotate:link")
	if err := os.Link(path, fmt.Sprintf("%s.%d", path, s.nextID-1)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	j.at("journal:rotate:rename")
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	if err := host.SyncDir(j.dir); err != nil {
		return err
	}
	j.at("journal:rotate:done")
	_ = j.file.Truncate(j.State.size) // frees the space reserved for its undo
	j.file.Close()
	return j.open()
}

// begin writes the first record of a new file, with the live transactions. It also reserves the
// space for their undo.
func (j *Journal) begin() error {
	s := j.State
	first := start{Version: 1, NextID: s.nextID}
	for _, t := range s.Live() {
		first.Carried = append(first.Carried, t.carry())
	}
	// The generation stays the same: no event has happened.
	line, err := record{Seq: s.Generation - 1, Start: &first}.encode()
	if err != nil {
		return err
	}
	s.size = 0
	if err := j.reserve(int64(len(line)) + s.undoRoom()); err != nil {
		return err
	}
	j.at("journal:rotate:write")
	if _, err := j.file.WriteAt(line, 0); err != nil {
		return err
	}
	return j.file.Sync()
}

// merge merges the oldest switches into the next one, like the undo of a buried transaction: later
// entries inherit the before-images. It keeps a switch if no later transaction has one of its
// settings.
func (s *State) merge() {
	var switches []*Tx
	for _, t := range s.Live() {
		if (t.Kind == Tune || t.Kind == Boot) && t.Selection != nil && t.Superseded == 0 && (t.Try == nil || t.Confirmed) {
			switches = append(switches, t)
		}
	}
	for i := 0; i < len(switches)-keptSwitches; i++ {
		t := switches[i]
		if slices.ContainsFunc(t.Entries, func(e *Entry) bool { return e.State == Failed || e.remains() || e.IsLive() && s.above(e) == nil }) {
			continue
		}
		for _, e := range t.Entries {
			if e.IsLive() {
				s.settle(e, Relinked)
			}
		}
		next := switches[i+1]
		if t.Saved != nil {
			saved := *t.Saved
			if next.Saved != nil {
				saved.Text = next.Saved.Text
			}
			next.Saved = &saved
		}
		if t.TuneD != nil {
			next.TuneD = t.TuneD
		}
		for _, o := range s.Txs {
			if o == t || o.Superseded == t.ID {
				o.Superseded = next.ID
			}
		}
	}
}

// remains reports whether the entry of an ended boot may have left effects.
func (e *Entry) remains() bool { return e.Outlives && e.State == Closed }

func (t *Tx) carry() carried {
	c := carried{Begin: t.Begin, Confirmed: t.Confirmed, ConfirmedBy: t.ConfirmedBy, Superseded: t.Superseded, UndoneBy: t.undoneBy}
	c.Begin.Restore, c.Begin.Undoes = nil, nil
	if t.Commit != nil {
		// The entries already record what the commit did with each of them.
		c.Commit = &Commit{ID: t.ID, Time: t.Commit.Time, Result: t.Commit.Result}
	}
	if !slices.ContainsFunc(t.Entries, func(e *Entry) bool { return e.IsLive() || e.remains() }) {
		return c // only its selection is live
	}
	for _, e := range t.Entries {
		out := carriedEntry{Before: e.Before, After: e.After, Verdict: e.Verdict, Why: e.Why, Undoing: e.Undoing}
		if e.Orig != e.Before.Before {
			out.Orig = &e.Orig
		}
		if e.State != Live {
			out.State = e.State
		}
		c.Entries = append(c.Entries, out)
	}
	return c
}

func (s *State) foldStart(first start, bootID string) error {
	if first.Version != 1 {
		return fmt.Errorf("journal version %d: this version of fettle reads only version 1", first.Version)
	}
	if len(first.Carried) > 0 && len(s.Txs) > 0 {
		return errors.New("the header record is not the first record")
	}
	for _, c := range first.Carried {
		if err := s.foldBegin(c.Begin); err != nil {
			return err
		}
		t := s.Txs[len(s.Txs)-1]
		t.Commit, t.Confirmed, t.ConfirmedBy, t.Superseded, t.undoneBy = c.Commit, c.Confirmed, c.ConfirmedBy, c.Superseded, c.UndoneBy
		for i, ce := range c.Entries {
			if ce.N != i+1 {
				return fmt.Errorf("entry %d of transaction %d found, expected entry %d", ce.N, t.ID, i+1)
			}
			if ce.State != "" && !ce.State.known() {
				return fmt.Errorf("entry %d of transaction %d is %q: %w", ce.N, t.ID, ce.State, errNewer)
			}
			e := &Entry{Tx: t, Before: ce.Before, Orig: ce.Before.Before, After: ce.After, Verdict: ce.Verdict, Why: ce.Why, State: ce.State, Undoing: ce.Undoing}
			if ce.Orig != nil {
				e.Orig = *ce.Orig
			}
			if e.State == "" {
				e.State = Live
			}
			if e.IsLive() {
				s.closeAtBoot(e, bootID)
			}
			t.Entries = append(t.Entries, e)
		}
	}
	s.nextID = first.NextID
	return nil
}

// closeAtBoot closes an entry of another boot if its value did not survive that boot.
func (s *State) closeAtBoot(e *Entry, bootID string) {
	if bootID != "" && e.Tx.BootID != bootID && !e.Lifetime.SurvivesBoot() {
		e.State = Closed
	}
}

// History returns all transactions, oldest first, including those in rotated files.
func History(dir, bootID string) ([]*Tx, error) {
	names, err := filepath.Glob(filepath.Join(dir, "journal.[0-9]*"))
	if err != nil {
		return nil, err
	}
	byID := map[int]string{}
	var ids []int
	for _, n := range names {
		if id, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(n), ".")); err == nil {
			byID[id] = n
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	all := map[int]*Tx{}
	for _, id := range ids {
		f, err := openRead(byID[id])
		if err != nil {
			return nil, err
		}
		s, err := readState(f, bootID)
		f.Close()
		if err != nil {
			return nil, err
		}
		addNext(all, s)
	}
	now, err := Read(dir, bootID)
	if err != nil {
		return nil, err
	}
	addNext(all, now)
	return slices.SortedFunc(maps.Values(all), func(a, b *Tx) int { return a.ID - b.ID }), nil
}

// addNext adds the transactions of the next file. A transaction live at the end of the previous
// file but missing from this one was merged into the next switch.
func addNext(all map[int]*Tx, s *State) {
	first := 0 // the first switch that was carried over
	for _, t := range s.Txs {
		if t.Selection != nil {
			first = t.ID
			break
		}
	}
	for id, t := range all {
		if s.Tx(id) == nil && t.IsLive() {
			for _, e := range t.Entries {
				e.State = Relinked
			}
			t.Superseded = first
		}
	}
	for _, t := range s.Txs {
		if old := all[t.ID]; old != nil && len(t.Entries) == 0 {
			t.Entries = old.Entries
		}
		all[t.ID] = t
	}
}
