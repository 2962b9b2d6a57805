// Package logs finds out of request logs who asked for what, and where the time went.
package logs

import (
	"context"
	"math"
	"time"

	"fettle.dev/fettle/internal/logs/format"
	"fettle.dev/fettle/internal/logs/group"
	"fettle.dev/fettle/internal/logs/request"
	"fettle.dev/fettle/internal/logs/source"
)

// Options say what is asked of logs.
type Options struct {
	By          [][]string // groupings, each by one dimension or several
	Percentiles bool
	Groups      int // the most of a grouping; what comes beyond is added up as one
	Workers     int
	Slowest     int       // how many of the slowest requests are kept
	Where       string    // only requests of this condition (request.ParseWhere); empty: all
	Since       time.Time // requests that came before are left out; zero is none
	Until       time.Time // requests that came then or later are left out
}

// Result is what logs say.
type Result struct {
	By       [][]string
	Tables   []*group.Table // of By
	All      *group.Table   // one group: all requests
	Hours    *group.Table   // by the hour in which requests came
	Slowest  []Slow         // the slowest first
	Requests uint64
	Left     uint64 // requests that Where, Since or Until left out
	Unended  int    // requests of several lines that began and did not end
	Unbegun  int    // and those that ended without a beginning
	Others   uint64 // lines that are of the format and no requests
	Unread   Unread
	First    time.Time // when the first request came, and the last
	Last     time.Time
	timeline timeline
}

// Slow is one request that took long.
type Slow struct {
	Time time.Time
	Took int64 // microseconds
	Line string
}

// Unread are lines that are no requests.
type Unread struct {
	Count    uint64
	Long     uint64 // of them, longer than a block
	Examples []Example
}

// Example is a line that could not be read.
type Example struct {
	Log, Line int // which log, which line of it, from 1
	Text      string
	seq       int
}

// Read reads logs, of which each has a format.
func Read(ctx context.Context, set *source.Set, formats []*format.Format, o Options) (*Result, error) {
	shards := make([]*shard, o.Workers)
	for w := range shards {
		s, err := newShard(&o, set, formats)
		if err != nil {
			return nil, err
		}
		shards[w] = s
	}
	err := set.Read(ctx, o.Workers, func(w int, b *source.Block) { shards[w].block(b) })
	for _, s := range shards[1:] {
		shards[0].merge(s)
	}
	return shards[0].result(), err
}

// dimensions finds the dimensions of a grouping in a format.
func dimensions(f *format.Format, by []string) ([]request.Dimension, error) {
	var out []request.Dimension
	for _, name := range by {
		d, err := request.Named(f, name)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Moments says how many requests came and were at work, in stretches of at least so
// long.
func (r *Result) Moments(least time.Duration) (time.Duration, []Moment) {
	return r.timeline.moments(least)
}

// Share is a group's part of the time of all, from 0 to 1.
func (r *Result) Share(s *group.Stats) float64 {
	if all := r.All.At(0).Sum; all > 0 {
		return float64(s.Sum) / float64(all)
	}
	return math.NaN()
}

func micro(t time.Time, otherwise int64) int64 {
	if t.IsZero() {
		return otherwise
	}
	return t.UnixMicro()
}
