package logs

import (
	"context"
	"errors"
	"io/fs"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logs/format"
	"fettle.dev/fettle/internal/logs/source"
)

// Follower reads what is written into logs from now on, through rotation.
type Follower struct {
	host      *host.Host
	paths     []string
	positions []source.Position
	shard     *shard
	byPath    map[string]int // of the shard's readers
	// Lost counts rotated logs whose old part was gone before it was read.
	Lost int
}

// Follow begins at the end of logs, each of which has a format, or at their beginning where
// they have just begun.
func Follow(h *host.Host, paths []string, set *source.Set, formats []*format.Format, o Options, begun bool) (*Follower, error) {
	s, err := newShard(&o, set, formats)
	if err != nil {
		return nil, err
	}
	f := &Follower{host: h, paths: paths, shard: s, byPath: map[string]int{}}
	for i, l := range set.Logs {
		f.byPath[l.Path] = i
		s.res.Logs = append(s.res.Logs, LogOf(l, formats[i]))
	}
	if !begun {
		f.positions, err = source.Ends(set.Logs)
	}
	return f, err
}

// Poll reads what has come since.
func (f *Follower) Poll(ctx context.Context) error {
	found, err := source.Find(f.host, f.paths)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // between the two steps of a rotation: the next poll finds all of it
	}
	if err != nil {
		return err
	}
	known := found[:0]
	for _, l := range found {
		if _, ok := f.byPath[l.Path]; ok { // a rotated part that has come into a directory is read as its log
			known = append(known, l)
		}
	}
	logs, lost, err := source.Continue(known, f.positions)
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
	f.positions, err = set.Positions()
	f.shard.follow()
	return err
}

// Report is what has come so far, as of Result.
func (f *Follower) Report(sort string, top int) *Report { return f.shard.res.Report(sort, top) }
