// Package logs analyzes request logs: who requested what, and where the time went.
package logs

import (
	"context"
	"iter"
	"math"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
)

// Options select what to compute from logs.
type Options struct {
	By          [][]string // groupings, each by one or more dimensions
	Percentiles bool
	Groups      int // maximum number of groups of a grouping; the rest is summed
	Workers     int
	OverTime    bool      // latencies and status classes by time, for a page
	Slowest     int       // number of slowest requests kept
	Routes      *Routes   // for the dimension route; may be nil
	Where       string    // condition on requests (ParseWhere); "" means all requests
	Since       time.Time // earlier requests are omitted; zero means no limit
	Until       time.Time // requests from this time on are omitted; zero means no limit

	// Each is called for each request in the order of the logs, with the index of the log and the
	// number of the (last) line. The request is valid until it returns; an error ends the reading.
	// Read then has one worker. nil for none.
	Each func(log, line int, r *Request) error

	slice *Dimension // additional dimension of every grouping
}

// Result holds the figures of logs.
type Result struct {
	summary
	Tables []*Table // one for each grouping of By
	Hours  *Table   // by hour of arrival

	all      *Table // sum of all groups, while a report is created
	merged   bool   // loaded from a file that Save wrote
	timeline timeline
	slots    *slots // nil unless OverTime was requested
}

// summary holds the figures of logs without the tables. It is part of the header that Save writes.
type summary struct {
	IDs      []string    `json:"ids"` // identifiers of the readings in this result, once it was saved
	Logs     []LogRead   `json:"logs"`
	By       [][]string  `json:"by"`
	Slowest  []SlowLine  `json:"slowest"`      // slowest first, at most Most
	Most     int         `json:"most_slowest"` // Options.Slowest
	Requests uint64      `json:"requests"`
	Left     uint64      `json:"left_out"`    // requests omitted by Where, Since or Until
	Others   uint64      `json:"other_lines"` // lines of the format that are not requests
	Unread   UnreadLines `json:"unread"`
	Unended  int         `json:"unended"` // multi-line requests without an end
	Unbegun  int         `json:"unbegun"` // and without a beginning
	// First and Last are the arrival of the first and last request, in microseconds since 1970.
	First int64  `json:"first_us"`
	Last  int64  `json:"last_us"`
	Where string `json:"where,omitempty"`

	// Lines is the number of lines of each log, if only pieces of the logs were read.
	Lines []int `json:"lines,omitempty"`

	NotRead []source.NotRead `json:"not_read,omitempty"` // unreadable files of a directory that may contain requests
	Copies  []source.NotRead `json:"copies,omitempty"`   // files that repeat the lines of another file
}

// newResult returns a result without requests.
func newResult(o *Options) *Result {
	r := &Result{summary: summary{By: o.By, Most: o.Slowest, Where: o.Where, First: math.MaxInt64, Last: math.MinInt64, Unread: UnreadLines{Examples: []UnreadLine{}}},
		Hours: New(o.Percentiles, mostHours)}
	if o.OverTime {
		r.slots = newSlots()
	}
	for range o.By {
		r.Tables = append(r.Tables, New(o.Percentiles, o.Groups))
	}
	return r
}

// mostHours is the maximum number of hours: 20 years.
const mostHours = 24 * 366 * 20

// Unfit is returned if the logs lack the requested data.
type Unfit struct{ error }

func (u Unfit) Unwrap() error { return u.error }

// ballast postpones the first garbage collection. The tables grow and create little garbage, so
// early collections (at 4 MB, 8 MB, ...) would free nothing. It takes no memory because it is never
// touched: strings.Builder does not clear it, as make would if the memory was used before. All reads
// of a process share one.
var ballast = sync.OnceValue(func() *strings.Builder {
	var b strings.Builder
	b.Grow(64 << 20)
	return &b
})

// Read reads logs with their formats. If logs cannot be read to their ends, Read returns the
// result so far and an error that names them. The result marks these logs with Cut.
func Read(ctx context.Context, set *source.Set, formats []*logformat.Format, o Options) (*Result, error) {
	if o.Each != nil {
		o.Workers = 1
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	shards := make([]*shard, o.Workers)
	for w := range shards {
		s, err := newShard(&o, set, formats)
		if err != nil {
			return nil, Unfit{err}
		}
		s.each, s.end = o.Each, end
		shards[w] = s
	}
	ballast()
	err := set.Read(ctx, o.Workers, func(w int, b *source.Block) { shards[w].block(b) })
	lines := map[blockID]int{}
	for _, s := range shards {
		for of, n := range s.lines { // several workers may read a block: within a long line it is empty
			lines[of] += n
		}
	}
	for _, s := range shards {
		s.finish(set, lines)
	}
	r := &shards[0].res
	for _, s := range shards[1:] {
		r.add(&s.res)
	}
	r.timeline.bound()
	r.NotRead, r.Copies = set.NotRead, set.Copies
	if set.Pieces() {
		r.Lines = make([]int, len(set.Logs))
		for of, n := range lines {
			r.Lines[of.log] += n
		}
	}
	for i, l := range set.Logs {
		read := LogOf(l, formats[i], set.Cut(i))
		read.ZeroBytes = set.Zeros(i)
		read.Since, read.Until = o.Since.UTC(), o.Until.UTC()
		r.Logs = append(r.Logs, read)
	}
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

// Moments returns the load over time in intervals of at least the given length. It also
// returns the actual length.
func (r *Result) Moments(least time.Duration) (time.Duration, iter.Seq[Moment]) {
	return r.timeline.moments(least)
}
