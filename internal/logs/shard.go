package logs

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"

	"fettle.dev/fettle/internal/logs/format"
	"fettle.dev/fettle/internal/logs/group"
	"fettle.dev/fettle/internal/logs/request"
	"fettle.dev/fettle/internal/logs/source"
)

// batch is how many lines are at work together (group.Batch).
const batch = 256

// shard is what one worker knows: of the blocks that it was given.
type shard struct {
	readers      []*request.Reader       // by log
	by           [][][]request.Dimension // by log and grouping
	where        []request.Where         // by log
	since, until int64
	slowest      int

	r      request.Request
	n      int // in the batch
	took   [batch]int64
	failed [batch]bool
	keys   [][batch]group.Key // of each grouping
	texts  [][batch][]byte
	parts  []byte // texts of several parts
	adding group.Batch

	res        Result
	hour       int64 // of the request before
	hourGroup  int
	first, end int64
	lines      map[[2]int]int // by log and block, for the lines' numbers
}

func newShard(o *Options, set *source.Set, formats []*format.Format) (*shard, error) {
	s := &shard{since: micro(o.Since, math.MinInt64), until: micro(o.Until, math.MaxInt64), slowest: o.Slowest,
		keys: make([][batch]group.Key, len(o.By)), texts: make([][batch][]byte, len(o.By)),
		first: math.MaxInt64, end: math.MinInt64, hour: math.MinInt64, lines: map[[2]int]int{}}
	s.res.By = o.By
	for range o.By {
		s.res.Tables = append(s.res.Tables, group.New(o.Percentiles, o.Groups))
	}
	s.res.All, s.res.Hours = group.New(o.Percentiles, 1), group.New(o.Percentiles, 24*366*20)
	s.res.All.Find(group.Hash(nil), nil)
	for i, f := range formats {
		s.readers = append(s.readers, request.NewReader(f))
		var by [][]request.Dimension
		for _, names := range o.By {
			d, err := dimensions(f, names)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", set.Logs[i].Path, err)
			}
			by = append(by, d)
		}
		s.by = append(s.by, by)
		var where request.Where
		if o.Where != "" {
			var err error
			if where, err = request.ParseWhere(f, o.Where); err != nil {
				return nil, fmt.Errorf("%s: %w", set.Logs[i].Path, err)
			}
		}
		s.where = append(s.where, where)
	}
	return s, nil
}

// block reads the lines of a block.
func (s *shard) block(b *source.Block) {
	reader, by, where := s.readers[b.Log], s.by[b.Log], s.where[b.Log]
	rest, line := b.Data, 0
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
		switch reader.Read(text, &s.r) {
		case format.Whole:
			if where != nil && !where(&s.r) {
				s.res.Left++
				continue
			}
			s.take(&s.r, by)
		case format.Other:
			s.res.Others++
		default:
			s.unread(b, line, text)
		}
	}
	s.flush() // the texts are parts of the block
	s.lines[[2]int{b.Log, b.Seq}] += line + b.Skipped
	s.res.Unread.Count += uint64(b.Skipped)
	s.res.Unread.Long += uint64(b.Skipped)
}

func (s *shard) take(r *request.Request, by [][]request.Dimension) {
	if r.Time < s.since || r.Time >= s.until {
		s.res.Left++
		return
	}
	failed := r.Status >= 500
	s.res.Requests++
	s.first, s.end = min(s.first, r.Time), max(s.end, r.Time)
	s.res.timeline.add(r.Time, r.Duration, failed)
	if h := floor(r.Time, 3600e6); h != s.hour {
		s.hour = h
		text := time.UnixMicro(h*3600e6).UTC().AppendFormat(nil, "2006-01-02 15:00")
		s.hourGroup = s.res.Hours.Find(group.Hash(text), text)
	}
	s.res.Hours.Add(s.hourGroup, r.Duration, failed)
	s.res.All.Add(0, r.Duration, failed)
	if k := len(s.res.Slowest); s.slowest > 0 && r.Duration >= 0 && (k < s.slowest || r.Duration > s.res.Slowest[k-1].Took) {
		s.slow(Slow{time.UnixMicro(r.Time).UTC(), r.Duration, string(r.Line)})
	}
	i := s.n
	s.took[i], s.failed[i] = r.Duration, failed
	for t := range by {
		d := by[t]
		text := d[0].Of(r)
		key := group.Hash(text)
		if len(d) > 1 {
			from := len(s.parts)
			s.parts = append(s.parts, text...)
			for j := range d[1:] {
				next := d[1+j].Of(r)
				key = key.Then(group.Hash(next))
				s.parts = append(append(s.parts, group.Separator), next...)
			}
			text = s.parts[from:]
		}
		s.keys[t][i], s.texts[t][i] = key, text
	}
	if s.n++; s.n == batch {
		s.flush()
	}
}

// flush adds the batch to the tables.
func (s *shard) flush() {
	for t := range s.res.Tables {
		s.adding.Keys, s.adding.Texts = s.keys[t][:s.n], s.texts[t][:s.n]
		s.adding.Took, s.adding.Failed = s.took[:s.n], s.failed[:s.n]
		s.res.Tables[t].AddAll(&s.adding)
	}
	s.n, s.parts = 0, s.parts[:0]
}

// slow keeps a request among the slowest.
func (s *shard) slow(one Slow) {
	at, _ := slices.BinarySearchFunc(s.res.Slowest, one, func(a, b Slow) int {
		switch {
		case a.Took > b.Took:
			return -1
		case a.Took < b.Took:
			return 1
		}
		return a.Time.Compare(b.Time)
	})
	s.res.Slowest = slices.Insert(s.res.Slowest, at, one)
	if len(s.res.Slowest) > s.slowest {
		s.res.Slowest = s.res.Slowest[:s.slowest]
	}
}

// examples are how many lines that could not be read are shown, exampleSize how much of
// each, in bytes.
const (
	examples    = 5
	exampleSize = 300
)

func (s *shard) unread(b *source.Block, line int, text []byte) {
	u := &s.res.Unread
	u.Count++
	if len(u.Examples) < examples {
		u.Examples = append(u.Examples, Example{Log: b.Log, Line: line + b.Skipped, seq: b.Seq, Text: string(text[:min(len(text), exampleSize)])})
	}
}

func (s *shard) merge(o *shard) {
	for t := range s.res.Tables {
		s.res.Tables[t].Merge(o.res.Tables[t])
	}
	s.res.All.Merge(o.res.All)
	s.res.Hours.Merge(o.res.Hours)
	for _, one := range o.res.Slowest {
		s.slow(one)
	}
	s.res.Requests += o.res.Requests
	s.res.Left += o.res.Left
	s.res.Others += o.res.Others
	s.res.Unread.Count += o.res.Unread.Count
	s.res.Unread.Long += o.res.Unread.Long
	s.res.Unread.Examples = append(s.res.Unread.Examples, o.res.Unread.Examples...)
	s.res.timeline.merge(&o.res.timeline)
	s.first, s.end = min(s.first, o.first), max(s.end, o.end)
	for k, n := range o.lines {
		s.lines[k] += n
	}
}

// result gives what is known, with the lines' numbers.
func (s *shard) result() *Result {
	r := &s.res
	for _, reader := range s.readers {
		r.Unended += reader.Unended()
		r.Unbegun += reader.Unbegun()
	}
	for i := range r.Unread.Examples {
		e := &r.Unread.Examples[i]
		for seq := range e.seq {
			e.Line += s.lines[[2]int{e.Log, seq}]
		}
	}
	slices.SortFunc(r.Unread.Examples, func(a, b Example) int {
		if a.Log != b.Log {
			return a.Log - b.Log
		}
		return a.Line - b.Line
	})
	r.Unread.Examples = r.Unread.Examples[:min(len(r.Unread.Examples), examples)]
	if r.Requests > 0 {
		r.First, r.Last = time.UnixMicro(s.first).UTC(), time.UnixMicro(s.end).UTC()
	}
	return r
}
