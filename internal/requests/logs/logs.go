// Package logs analyzes request logs: who requested what, and where the time went.
package logs

import (
	"context"
	"iter"
	"maps"
	"math"
	"runtime"
	"time"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
)

// Options select what to compute from logs.
type Options struct {
	By          [][]string // groupings, each by one or several dimensions
	Percentiles bool
	Groups      int // maximum groups of a grouping; the rest is summed
	Workers     int
	OverTime    bool      // latencies and status classes by time, for a page
	Slowest     int       // number of slowest requests kept
	Routes      *Routes   // for the dimension route; nil: none
	Where       string    // condition on requests (ParseWhere); empty: all
	Since       time.Time // earlier requests are left out; zero: no limit
	Until       time.Time // requests from then on are left out; zero: no limit

	slice *Dimension // divides every grouping further
}

// Result is the result of reading logs.
type Result struct {
	Logs     []LogRead
	NotRead  []source.NotRead // unreadable files of a directory that may contain requests
	Copies   []source.NotRead // files with the lines of another one
	By       [][]string
	Tables   []*Table   // for each of By
	Hours    *Table     // by hour of arrival
	Slowest  []SlowLine // slowest first, at most Options.Slowest
	Requests uint64
	Left     uint64 // requests left out by Where, Since or Until
	Others   uint64 // lines of the format that are not requests
	Unread   UnreadLines
	Unended  int // multi-line requests without an end
	Unbegun  int // and without a beginning

	ids         []string // identify the readings it consists of, once saved
	all         *Table   // sum of all groups, while a report is made
	slowest     int
	where       string
	merged      bool  // read from a file of Save
	first, last int64 // arrival of the first and last request, in microseconds since 1970
	timeline    timeline
	slots       *slots // nil unless requested
}

// newResult returns a result without requests.
func newResult(o *Options) *Result {
	r := &Result{By: o.By, slowest: o.Slowest, where: o.Where, first: math.MaxInt64, last: math.MinInt64,
		Hours: New(o.Percentiles, mostHours), Unread: UnreadLines{Examples: []UnreadLine{}}}
	if o.OverTime {
		r.slots = newSlots()
	}
	for range o.By {
		r.Tables = append(r.Tables, New(o.Percentiles, o.Groups))
	}
	return r
}

// mostHours is twenty years.
const mostHours = 24 * 366 * 20

// Unfit is returned if a request asks for data that the logs do not have.
type Unfit struct{ error }

func (u Unfit) Unwrap() error { return u.error }

// Read reads logs with their formats. Logs that could not be read to their ends are named in
// the error and marked with Cut in the result, which has the part before.
func Read(ctx context.Context, set *source.Set, formats []*logformat.Format, o Options) (*Result, error) {
	shards := make([]*shard, o.Workers)
	for w := range shards {
		s, err := newShard(&o, set, formats)
		if err != nil {
			return nil, Unfit{err}
		}
		shards[w] = s
	}
	// Tables grow and create little garbage: collections at 4 MB, 8 MB and so on would scan
	// them and find nothing. This ballast, which is never touched and thus takes no memory,
	// postpones the first collection.
	ballast := make([]byte, 64<<20)
	err := set.Read(ctx, o.Workers, func(w int, b *source.Block) { shards[w].block(b) })
	lines := map[blockID]int{}
	for _, s := range shards {
		maps.Copy(lines, s.lines)
	}
	for _, s := range shards {
		s.finish(set, lines)
	}
	r := &shards[0].res
	for _, s := range shards[1:] {
		r.add(&s.res)
	}
	r.NotRead, r.Copies = set.NotRead, set.Copies
	for i, l := range set.Logs {
		read := LogOf(l, formats[i], set.Cut(i))
		read.ZeroBytes = set.Zeros(i)
		read.Since, read.Until = o.Since.UTC(), o.Until.UTC()
		r.Logs = append(r.Logs, read)
	}
	runtime.KeepAlive(ballast)
	return r, err
}

// dimensions returns the dimensions of a grouping in a format.
func dimensions(f *logformat.Format, by []string, routes *Routes) ([]Dimension, error) {
	var out []Dimension
	for _, name := range by {
		d, err := Named(f, name, routes)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Moments returns the load over time in intervals of at least a given length.
func (r *Result) Moments(least time.Duration) (time.Duration, iter.Seq[Moment]) {
	return r.timeline.moments(least)
}
