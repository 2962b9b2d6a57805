// Package logs finds out of request logs who asked for what, and where the time went.
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

// Options say what is asked of logs.
type Options struct {
	By          [][]string // groupings, each by one dimension or several
	Percentiles bool
	Groups      int // the most of a grouping; what comes beyond is added up as one
	Workers     int
	Slowest     int       // how many of the slowest requests are kept
	Routes      *Routes   // of the dimension route; nil: every path is its own
	Where       string    // only requests of this condition (request.ParseWhere); empty: all
	Since       time.Time // requests that came before are left out; zero is none
	Until       time.Time // requests that came then or later are left out

	slice *Dimension // by which every grouping is divided further
}

// Result is what logs say.
type Result struct {
	Logs     []LogRead
	NotRead  []source.NotRead // files of a directory that may have requests too
	Copies   []source.NotRead // files whose lines another one has
	By       [][]string
	Tables   []*Table   // of By
	Hours    *Table     // by the hour in which requests came
	Slowest  []SlowLine // the slowest first, at most so many as were asked for
	Requests uint64
	Left     uint64 // requests that Where, Since or Until left out
	Others   uint64 // lines that are of the format and no requests
	Unread   UnreadLines
	Unended  int // requests of several lines that began and did not end
	Unbegun  int // and those that ended without a beginning

	ids         []string // of the readings it is made of, once it has been saved
	all         *Table   // of one group, when a report is made
	slowest     int
	where       string // only these requests
	first, last int64  // when the first request came, and the last, in microseconds since 1970
	timeline    timeline
}

// newResult is one without a request.
func newResult(o *Options) *Result {
	r := &Result{By: o.By, slowest: o.Slowest, where: o.Where, first: math.MaxInt64, last: math.MinInt64,
		Hours: New(o.Percentiles, mostHours), Unread: UnreadLines{Examples: []UnreadLine{}}}
	for range o.By {
		r.Tables = append(r.Tables, New(o.Percentiles, o.Groups))
	}
	return r
}

// mostHours are those of twenty years.
const mostHours = 24 * 366 * 20

// Unfit is the error of what is asked of logs that they do not have.
type Unfit struct{ error }

func (u Unfit) Unwrap() error { return u.error }

// Read reads logs, of which each has a format. Logs that could not be read to their ends
// are named by the error and by Cut of the result, which has what could be read.
func Read(ctx context.Context, set *source.Set, formats []*logformat.Format, o Options) (*Result, error) {
	shards := make([]*shard, o.Workers)
	for w := range shards {
		s, err := newShard(&o, set, formats)
		if err != nil {
			return nil, Unfit{err}
		}
		shards[w] = s
	}
	// Tables grow, and leave little behind: a collection at 4 MB, at 8 and so on would look
	// through all of them and find nothing. The collector waits until as much as this, which
	// nobody touches and which therefore takes no memory, has come twice.
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

// dimensions finds the dimensions of a grouping in a format.
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

// Moments says how many requests came and were at work, in stretches of at least so
// long.
func (r *Result) Moments(least time.Duration) (time.Duration, iter.Seq[Moment]) {
	return r.timeline.moments(least)
}
