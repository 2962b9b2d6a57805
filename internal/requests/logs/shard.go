package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
)

// shard is the state of one worker.
type shard struct {
	logs []reading

	r      Request
	adders []*adder // by grouping
	parts  []byte   // keys of several parts, valid until the adders are flushed

	res       Result
	hour      int64 // start of the previous request's hour
	hourGroup int
	slow      int64 // minimum duration of the slowest requests, in microseconds
	lines     map[blockID]int
	examples  []example

	each   func(log, line int, r *Request) error // Options.Each
	end    context.CancelCauseFunc               // ends the reading
	before int                                   // lines of the log before the block, if each is set
}

// reading is the state of reading one log.
type reading struct {
	reader       *Reader
	by           [][]Dimension // by grouping
	where        Where         // nil means all requests
	since, until int64         // in the log's own time
	examples     int           // number of kept examples of unread lines
}

// blockID identifies a block of a log. Workers process blocks in any order, so line numbers
// are known only after all blocks have been counted.
type blockID struct{ log, seq int }

// example is an unread line. line is the line number in its block, from 1.
type example struct {
	blockID
	line int
	text string
}

func newShard(o *Options, set *source.Set, formats []*logformat.Format) (*shard, error) {
	s := &shard{res: *newResult(o), hour: math.MinInt64 / 2, slow: -1, lines: map[blockID]int{}}
	for _, t := range s.res.Tables {
		s.adders = append(s.adders, newAdder(t))
	}
	for i, f := range formats {
		if (f.Field(logformat.FieldTime) < 0) != (formats[0].Field(logformat.FieldTime) < 0) {
			return nil, fmt.Errorf("%s has timestamps and %s has none; read them separately", timed(set, formats, true), timed(set, formats, false))
		}
		l, err := newReading(o, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.Logs[i].Path, err)
		}
		s.logs = append(s.logs, l)
		set.Hold(i, f.PartDetector())
	}
	return s, nil
}

// timed returns the path of the first log whose format has times if has is true, or has no times if
// it is false.
func timed(set *source.Set, formats []*logformat.Format, has bool) string {
	return set.Logs[slices.IndexFunc(formats, func(f *logformat.Format) bool { return (f.Field(logformat.FieldTime) >= 0) == has })].Path
}

func newReading(o *Options, f *logformat.Format) (reading, error) {
	l := reading{reader: NewReader(f), since: micro(o.Since, f.NoZone, math.MinInt64), until: micro(o.Until, f.NoZone, math.MaxInt64)}
	if f.Field(logformat.FieldTime) < 0 && (!o.Since.IsZero() || !o.Until.IsZero() || o.slice != nil) {
		return l, errNoTime
	}
	for _, names := range o.By {
		d, err := dimensions(f, names, o.Routes)
		if err != nil {
			return l, err
		}
		if o.slice != nil {
			d = append(d, *o.slice)
		}
		l.by = append(l.by, d)
	}
	if o.Where != "" {
		var err error
		if l.where, err = ParseWhere(f, o.Where, o.Routes); err != nil {
			return l, err
		}
	}
	return l, nil
}

// errNoTime is returned if an option depends on times and the log has none.
var errNoTime = errors.New("the lines have no timestamps; leave out --since, --until and comparisons")

// micro converts a time to microseconds since 1970 in the log's time. If a log has no zone, its
// local times were read as UTC, so t is converted to the local time of its own zone. A zero t gives
// otherwise.
func micro(t time.Time, noZone bool, otherwise int64) int64 {
	if t.IsZero() {
		return otherwise
	}
	if noZone {
		_, east := t.Zone()
		t = t.Add(time.Duration(east) * time.Second)
	}
	return t.UnixMicro()
}

// block reads the lines of a block and adds them to the shard.
func (s *shard) block(b *source.Block) {
	l := &s.logs[b.Log]
	rest, line := b.Data, 0
	if s.each != nil && b.Seq == 0 {
		s.before = 0
	}
	// Servers write no zero bytes, but a log that was truncated while its server wrote
	// contains many. A zero byte would act as Separator in a key.
	zeros := b.Zeros
	l.reader.Block(rest)
	for len(rest) > 0 {
		var text []byte
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			text, rest = rest[:n], rest[n+1:]
		} else {
			text, rest = rest, nil
		}
		line++
		if n := len(text); n > 0 && text[n-1] == '\r' {
			text = text[:n-1]
		}
		if zeros && bytes.IndexByte(text, 0) >= 0 {
			s.unread(b, line, text)
			continue
		}
		switch l.reader.Read(text, &s.r) {
		case logformat.RequestLine:
			if s.r.Time < l.since || s.r.Time >= l.until || l.where != nil && !l.where(&s.r) {
				s.res.Left++
				continue
			}
			s.take(&s.r, l.by)
			if s.each != nil {
				if err := s.each(b.Log, s.before+b.Skipped+line, &s.r); err != nil {
					s.end(err)
					return
				}
			}
		case logformat.OtherLine:
			s.res.Others++
		default:
			s.unread(b, line, text)
		}
	}
	for range l.reader.Unjoined() {
		s.res.Others--
		s.unread(b, line, []byte("an incomplete line"))
	}
	s.flush() // the texts are slices of the block
	s.lines[blockID{b.Log, b.Seq}] += line + b.Skipped
	s.before += line + b.Skipped
	s.res.Unread.Lines += uint64(b.Skipped)
	s.res.Unread.TooLong += uint64(b.Skipped)
}

func (s *shard) take(r *Request, by [][]Dimension) {
	x := s.res.Hours.Sample(r.Duration, r.Status >= 500)
	s.res.Requests++
	s.res.First, s.res.Last = min(s.res.First, r.Time), max(s.res.Last, r.Time)
	s.res.timeline.add(r.Time, r.Duration, r.Status >= 500)
	if s.res.slots != nil {
		s.res.slots.add(r.Time, r.Duration, int(r.Status))
	}
	if r.Time < s.hour || r.Time >= s.hour+3600e6 { // avoids a division per line
		s.hour = floor(r.Time, 3600e6) * 3600e6
		text := time.UnixMicro(s.hour).UTC().AppendFormat(nil, "2006-01-02 15:00")
		s.hourGroup = s.res.Hours.Find(hashOf(text), text)
	}
	s.res.Hours.Add(s.hourGroup, x)
	if r.Duration >= s.slow && r.Duration >= 0 && s.res.Most > 0 {
		s.slowest(r)
	}
	for t := range by {
		d := by[t]
		text := grouped(d[0].Of(r))
		key := hashOf(text)
		if len(d) > 1 {
			from := len(s.parts)
			s.parts = append(s.parts, text...)
			for j := range d[1:] {
				next := grouped(d[1+j].Of(r))
				key = key.Then(hashOf(next))
				s.parts = append(append(s.parts, Separator), next...)
			}
			text = s.parts[from:]
		}
		s.adders[t].Add(key, text, x)
	}
	if len(s.parts) > mostParts {
		s.flush()
	}
}

// slowest adds a request to the slowest requests if it belongs to them. Of equally slow requests
// the earliest ones count, whatever the order in which they are read.
func (s *shard) slowest(r *Request) {
	k := s.res.Most
	full := len(s.res.Slowest) == k
	if full && r.Duration == s.slow && time.UnixMicro(r.Time).After(s.res.Slowest[k-1].Time) {
		return
	}
	s.res.slow(SlowLine{time.UnixMicro(r.Time).UTC(), float64(r.Duration) / 1e6, string(bytes.ToValidUTF8(r.Raw[:min(len(r.Raw), lineShown)], []byte("\ufffd")))})
	if len(s.res.Slowest) == k {
		s.slow = int64(math.Round(s.res.Slowest[k-1].TookS * 1e6))
	}
}

// grouped returns the text to group by. Servers log "-" for a missing value; it becomes empty.
func grouped(text []byte) []byte {
	if len(text) == 1 && text[0] == '-' {
		return nil
	}
	return text
}

// mostParts is the maximum number of bytes of keys with several parts before a flush.
const mostParts = 64 << 10

// flush adds the pending requests to the tables.
func (s *shard) flush() {
	for _, a := range s.adders {
		a.Flush()
	}
	s.parts = s.parts[:0]
}

// mostExamples is the maximum number of kept unread lines, for each log and in total.
// lineShown is the maximum number of bytes of each.
const (
	mostExamples = 5
	lineShown    = 500
)

// unread counts an unread line. The first ones of each log are kept as examples. The limit is
// for each log, because the order in which workers read logs is random.
func (s *shard) unread(b *source.Block, line int, text []byte) {
	s.res.Unread.Lines++
	if l := &s.logs[b.Log]; l.examples < mostExamples {
		l.examples++
		s.examples = append(s.examples, example{blockID{b.Log, b.Seq}, line + b.Skipped, string(text[:min(len(text), lineShown)])})
	}
}

// finish computes line numbers of examples. lines holds the number of lines of each block.
func (s *shard) finish(set *source.Set, lines map[blockID]int) {
	for _, e := range s.examples {
		for seq := range e.seq {
			e.line += lines[blockID{e.log, seq}]
		}
		s.res.Unread.Examples = append(s.res.Unread.Examples, UnreadLine{set.Logs[e.log].Path, e.line, strings.ToValidUTF8(e.text, "\ufffd")})
	}
	s.res.Unread.first()
	for i := range s.logs {
		s.res.Unended += s.logs[i].reader.Unended()
		s.res.Unbegun += s.logs[i].reader.Unbegun()
	}
}

// follow collects the results of a poll. Line numbers are unknown.
func (s *shard) follow() {
	for _, e := range s.examples[len(s.res.Unread.Examples):min(len(s.examples), mostExamples)] {
		s.res.Unread.Examples = append(s.res.Unread.Examples, UnreadLine{s.res.Logs[e.log].Path, 0, strings.ToValidUTF8(e.text, "\ufffd")})
	}
	s.res.Unended, s.res.Unbegun = 0, 0
	for i := range s.logs {
		s.res.Unended += s.logs[i].reader.Unended()
		s.res.Unbegun += s.logs[i].reader.Unbegun()
	}
	clear(s.lines)
}
