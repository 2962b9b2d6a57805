// Replay turns request logs into a load: the requests of the logs, at their logged intervals.
// Logs lack bodies and headers. Requests that must not be repeated are omitted and counted.

package load

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
)

// Limits on the data kept from logs.
const (
	maxRequests = 5_000_000
	maxURLs     = 100_000
	maxURL      = 8 << 10 // bytes
)

// Options select the requests to replay.
type Options struct {
	Base    string   // scheme and host to send the requests to
	Methods []string // methods to send; other requests are omitted
	Speed   float64  // speed factor: 2 is twice as fast
	// Most limits the length of the load; later requests are omitted. 0 means no limit.
	Most time.Duration
}

// Told describes the replayed part of the logs.
type Told struct {
	Logs     []string  `json:"logs"`
	Formats  []string  `json:"formats"`
	Speed    float64   `json:"speed"`
	Requests int64     `json:"requests"`
	From     time.Time `json:"from"` // time in the log
	To       time.Time `json:"to"`
	// NoZone lists the logs whose times have no zone. Their times are local to the server, and
	// are read as UTC.
	NoZone []string `json:"no_zone,omitempty"`
	// ResolutionS is the resolution of the logs' times, in seconds. Requests with the same
	// time are spread evenly over it.
	ResolutionS float64 `json:"resolution_s"`
	// LeftOut counts the omitted requests and lines by reason.
	LeftOut map[string]int64 `json:"left_out"`
}

// Log is a schedule of requests taken from logs. It implements engine.DriveSchedule.
type Log struct {
	at   []time.Duration
	pick []uint32
	told Told
}

// Count returns the number of starts.
func (l *Log) Count() int64 { return int64(len(l.at)) }

// At returns when start i is due, relative to the beginning.
func (l *Log) At(i int64) time.Duration { return l.at[i] }

// Length returns the time of the last start, rounded up to the next second.
func (l *Log) Length() time.Duration {
	return (l.at[len(l.at)-1]/time.Second + 1) * time.Second
}

// Pick returns the request of a start, as an index into the list that Read returned.
func (l *Log) Pick(n uint64) int { return int(l.pick[n]) }

// Told returns a description of the replay.
func (l *Log) Told() *Told { return &l.told }

func (l *Log) String() string {
	return fmt.Sprintf("%s at %gx", strings.Join(l.told.Logs, ", "), l.told.Speed)
}

// entry is one request of a log; times are in microseconds since 1970.
type entry struct {
	logged int64 // time in the line
	back   int64 // how much earlier the request arrived
	pick   uint32
}

// reading is the state of Read for one set of logs.
type reading struct {
	Options
	told    *Told
	numbers map[string]uint32
	list    []engine.Asked
	kept    int
}

// Read reads logs with their formats. It returns a schedule, and requests to Base.
func Read(ctx context.Context, set *source.Set, formats []*logformat.Format, o Options) (*Log, []engine.Asked, error) {
	r := &reading{Options: o, numbers: map[string]uint32{}, told: &Told{Speed: o.Speed, LeftOut: map[string]int64{}}}
	all := make([][]entry, len(set.Logs))
	var readers []*logs.Reader
	for i, f := range formats {
		if f.Field(logformat.FieldTime) < 0 {
			return nil, nil, fmt.Errorf("%s: lines in the format %s have no time", set.Logs[i].Path, f.Name)
		}
		readers = append(readers, logs.NewReader(f))
		name := filepath.Base(set.Logs[i].Path)
		r.told.Logs = append(r.told.Logs, name)
		if f.NoZone {
			r.told.NoZone = append(r.told.NoZone, name)
		}
		if !slices.Contains(r.told.Formats, f.Name) {
			r.told.Formats = append(r.told.Formats, f.Name)
		}
	}
	var one logs.Request
	err := set.Read(ctx, 1, func(_ int, b *source.Block) {
		r.told.LeftOut[unreadable] += int64(b.Skipped) // too long
		for line := range bytes.Lines(b.Data) {
			line = bytes.TrimRight(line, "\r\n")
			switch readers[b.Log].Read(line, &one) {
			case logformat.RequestLine:
				if e, ok := r.take(&one, formats[b.Log]); ok {
					all[b.Log] = append(all[b.Log], e)
				}
			case logformat.BadLine:
				r.told.LeftOut[unreadable]++
			}
		}
	})
	if err != nil {
		return nil, nil, err
	}
	l, err := r.schedule(all)
	if err != nil {
		return nil, nil, err
	}
	return l, r.list, nil
}

// Reasons for omitting a request, in addition to its method.
const (
	unreadable = "lines that cannot be read"
	noPath     = "without a path that can be sent again"
	tooLate    = "after the end of --for"
	tooMany    = "beyond the limit of 5,000,000 requests"
	tooManyURL = "beyond the limit of 100,000 URLs"
)

// take returns the entry of a request. It returns false if the request is omitted.
func (r *reading) take(one *logs.Request, f *logformat.Format) (e entry, ok bool) {
	method, what := string(one.Method), what(one)
	switch {
	case method == "": // not HTTP
		r.told.LeftOut[noPath]++
		return e, false
	case !slices.Contains(r.Methods, method):
		r.told.LeftOut["method "+method]++
		return e, false
	case r.kept == maxRequests:
		r.told.LeftOut[tooMany]++
		return e, false
	case len(what) == 0 || what[0] != '/' || len(what) > maxURL:
		r.told.LeftOut[noPath]++
		return e, false
	}
	key := method + " " + string(what)
	n, known := r.numbers[key]
	if !known {
		if len(r.list) == maxURLs {
			r.told.LeftOut[tooManyURL]++
			return e, false
		}
		full := r.Base + string(what)
		if _, err := url.Parse(full); err != nil || bytes.ContainsAny(what, "\x00#") {
			r.told.LeftOut[noPath]++
			return e, false
		}
		n = uint32(len(r.list))
		r.numbers[key] = n
		r.list = append(r.list, engine.Asked{Weight: 1, Method: method, URL: full})
	}
	r.kept++
	e = entry{logged: one.Time, pick: n}
	if f.TimeIsEnd && one.Duration > 0 {
		e.back = one.Duration
		e.logged += e.back
	}
	return e, true
}

// what returns the path and query of a request. Some load balancers log whole URLs. Some logs
// have the query in a separate field.
func what(one *logs.Request) []byte {
	if len(one.URL) > 0 && one.URL[0] == '/' && (len(one.Query) == 0 || bytes.IndexByte(one.URL, '?') >= 0) {
		return one.URL
	}
	path := one.Path
	if len(path) == 0 && len(one.Query) > 0 { // https://host?query
		path = []byte("/")
	}
	if len(one.Query) == 0 || string(one.Query) == "-" {
		return path
	}
	return slices.Concat(path, []byte("?"), one.Query)
}

// schedule merges the requests of all logs by arrival time.
func (r *reading) schedule(logs [][]entry) (*Log, error) {
	var all []entry
	for _, entries := range logs {
		unit := resolution(entries)
		r.told.ResolutionS = max(r.told.ResolutionS, float64(unit)/1e6)
		spread(entries, unit)
		all = append(all, entries...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("nothing to replay: %s", r.told.Left())
	}
	came := func(e entry) int64 { return e.logged - e.back }
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(came(a), came(b)) })
	l := &Log{}
	first := came(all[0])
	for i, e := range all {
		at := time.Duration(float64(came(e)-first) * 1000 / r.Speed)
		if r.Most > 0 && at >= r.Most {
			r.told.LeftOut[tooLate] += int64(len(all) - i)
			break
		}
		l.at, l.pick = append(l.at, at), append(l.pick, e.pick)
		r.told.To = time.UnixMicro(came(e)).UTC()
	}
	r.told.From, r.told.Requests = time.UnixMicro(first).UTC(), int64(len(l.at))
	l.told = *r.told
	if l.Length() > maxLength {
		return nil, errors.New("the log covers more than 7 days at this speed: limit it with --for, or raise --speed")
	}
	return l, nil
}

// maxLength is the maximum length of a replay.
const maxLength = 7 * 24 * time.Hour

// resolution returns the resolution of a log's times, in microseconds.
func resolution(entries []entry) int64 {
	unit := int64(1e6)
	for _, e := range entries {
		for e.logged%unit != 0 {
			unit /= 1000
		}
	}
	return unit
}

// spread distributes requests with the same time evenly over the log's resolution, in log order,
// and sorts the entries by time. Without it, the requests of a second would start as a burst.
func spread(entries []entry, unit int64) {
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.logged, b.logged) })
	for from := 0; from < len(entries); {
		to := from
		for to < len(entries) && entries[to].logged == entries[from].logged {
			to++
		}
		for i := from; i < to; i++ {
			entries[i].logged += unit * int64(i-from) / int64(to-from)
		}
		from = to
	}
}

// When formats the period of the replayed requests, with its zone.
func (t *Told) When() string {
	from, to := t.From.UTC().Format(time.DateTime), t.To.UTC().Format(time.DateTime)
	switch {
	case len(t.NoZone) == 0:
		return fmt.Sprintf("%sZ to %sZ", from, to)
	case len(t.NoZone) == len(t.Logs):
		return fmt.Sprintf("%s to %s in the server's time zone, which is unknown", from, to)
	}
	return fmt.Sprintf("%sZ to %sZ; the times of %s have no zone and are taken as UTC", from, to, strings.Join(t.NoZone, ", "))
}

// Left formats the counts of omitted requests.
func (t *Told) Left() string {
	var out []string
	for reason, n := range t.LeftOut {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d: %s", n, reason))
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return "nothing was left out"
	}
	return "left out " + strings.Join(out, ", ")
}
