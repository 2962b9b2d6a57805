package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
)

// Follower reads the lines appended to logs from now on, through rotation.
type Follower struct {
	host      *host.Host
	paths     []string
	positions []source.Position
	shard     *shard
	byPath    map[string]int // index into the shard's readers
	begin     map[string]int // the same, by the names that the logs may have had before rotation
	// Lost counts logs that were rotated and removed before they were read to the end.
	Lost int
	// Packed lists compressed logs. They are not followed because they do not grow. Why is
	// empty, or describes damage at the beginning of a log.
	Packed []source.NotRead
}

// Follow starts at the end of existing logs and at the beginning of new ones. It removes the
// logs that are not followed from the set.
func Follow(h *host.Host, paths []string, set *source.Set, formats []*logformat.Format, o Options, begun bool) (*Follower, error) {
	f := &Follower{host: h, paths: paths, byPath: map[string]int{}, begin: map[string]int{}}
	formats, err := f.leavePacked(set, formats)
	if err != nil {
		return nil, err
	}
	s, err := newShard(&o, set, formats)
	if err != nil {
		return nil, err
	}
	f.shard = s
	for i, l := range set.Logs {
		f.byPath[l.Path] = i
		for _, name := range logformat.NamesBeforeRotation(l.Path) {
			f.begin[name] = i
		}
		s.res.Logs = append(s.res.Logs, LogOf(l, formats[i], nil))
	}
	if !begun {
		f.positions, err = source.Ends(set.Logs)
	}
	// Close the files: an open file that is rotated and removed still occupies disk space.
	return f, errors.Join(err, set.Close())
}

// leavePacked removes the compressed logs.
func (f *Follower) leavePacked(set *source.Set, formats []*logformat.Format) ([]*logformat.Format, error) {
	formats = slices.Clone(formats)
	for i := 0; i < len(set.Logs); {
		packed, err := set.Packed(i)
		if err != nil {
			return nil, err
		}
		if !packed {
			i++
			continue
		}
		one := source.NotRead{Path: set.Logs[i].Path}
		if cut := set.Cut(i); cut != nil {
			one.Why = cut.Error()
		}
		f.Packed = append(f.Packed, one)
		if err := set.Leave(i); err != nil {
			return nil, err
		}
		formats = slices.Delete(formats, i, i+1)
	}
	if len(set.Logs) == 0 {
		return nil, Unfit{fmt.Errorf("%s is compressed and does not grow; leave out --follow to read it", f.Packed[0].Path)}
	}
	return formats, nil
}

// Poll reads the lines appended since the last call.
func (f *Follower) Poll(ctx context.Context) error {
	found, err := source.Find(f.host, f.paths)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // during a rotation; the next poll finds everything
	}
	if err != nil {
		return err
	}
	known := found[:0]
	for _, l := range found {
		if f.knows(l.Path) { // a new rotated part in a directory belongs to a followed log
			known = append(known, l)
		}
	}
	logs, lost, err := source.Continue(known, f.positions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // rotated since it was found
	}
	if err != nil {
		return err
	}
	f.Lost += len(lost)
	set := source.NewSet(logs)
	set.WholeLines = true
	if err := set.Read(ctx, 1, func(_ int, b *source.Block) {
		b.Log = f.byPath[logs[b.Log].Of()]
		f.shard.block(b)
	}); err != nil {
		return err
	}
	for i, l := range logs {
		f.shard.res.Logs[f.byPath[l.Of()]].ZeroBytes += set.Zeros(i)
	}
	f.positions, err = set.Positions()
	f.shard.follow()
	return err
}

// knows reports whether a log is followed. A log that was empty and has just been rotated is
// known by its rotated part.
func (f *Follower) knows(path string) bool {
	if _, ok := f.byPath[path]; ok {
		return true
	}
	i, ok := f.begin[path]
	if ok {
		f.byPath[path] = i
	}
	return ok
}

// Report returns the report of the requests so far. See Result.Report.
func (f *Follower) Report(sort string, top int) *Report { return f.shard.res.Report(sort, top) }
