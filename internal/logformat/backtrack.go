package logformat

import "bytes"

// scanBacktrack tries every way to split the line from begin on, shortest fields first. The
// fast path may end a field too early: at a quote from the client that the server does not
// escape, or at an address with colons before a port. Fields with restricted content (a number
// has no letters) decide.
//
// Time and memory are linear in the line length. If a text field fails from one start, it
// also fails from later ones, because fewer ends are reachable from there. All other
// fields are short, so few ends are tried for each start. Each start is tried once.
func (f *Format) scanBacktrack(line []byte, begin int, spans []Span) LineKind {
	b := backtrack{f: f, line: line, spans: spans, dead: make([]deadEnds, len(f.steps))}
	for i := range b.dead {
		b.dead[i].from = len(line) + 1
	}
	if !b.try(0, begin) {
		return BadLine
	}
	return f.classify(line, spans)
}

// backtrack is the state of splitting one line.
type backtrack struct {
	f     *Format
	line  []byte
	spans []Span
	dead  []deadEnds // by step
}

// deadEnds records the starts of a step's field from which the rest of the line cannot be
// split: the range [from, to], and the marked ones.
type deadEnds struct {
	from, to int
	marked   []uint64 // one bit per byte of the line; nil if none
}

// is reports whether a start is known to fail.
func (d *deadEnds) is(at int) bool {
	return at >= d.from && at <= d.to || d.marked != nil && d.marked[at>>6]&(1<<(at&63)) != 0
}

// mark records that a start fails. size is the length of the line.
func (d *deadEnds) mark(at, size int) {
	if d.marked == nil {
		d.marked = make([]uint64, size>>6+1)
	}
	d.marked[at>>6] |= 1 << (at & 63)
}

// try splits line[at:] by steps[i:] and reports whether that succeeded.
func (b *backtrack) try(i, at int) bool {
	line := b.line
	if i == len(b.f.steps) {
		return at == len(line)
	}
	s := &b.f.steps[i]
	if s.braced != 0 && (at == len(line) || line[at] != s.braced) {
		b.spans[s.field] = span(at, at)
		at = s.afterOmitted(line, at)
		return at >= 0 && b.try(i+1, at)
	}
	if s.braced != 0 || s.strict || s.port != nil { // only one end is possible
		n := s.end(line[at:])
		if n < 0 || s.braced == 0 && !b.f.Fields[s.field].Fits(line[at:at+n]) || !b.try(i+1, at+n+s.skip()) {
			return false
		}
		b.spans[s.field] = span(at, at+n)
		return true
	}
	d := &b.dead[i]
	if d.is(at) {
		return false
	}
	field := &b.f.Fields[s.field]
	most := field.maxLength()
	list := field.List
	if list {
		most = field.list(line[at:])
	}
	// A number ends before the first character that cannot be part of it.
	once := s.number && !list && len(s.lit) > 0 && bytes.IndexByte([]byte("0123456789.+-"), s.lit[0]) < 0
	for from := at; from <= len(line) && from-at <= most; from++ {
		end := len(line)
		if len(s.lit) > 0 {
			k := bytes.Index(line[from:min(len(line), at+most+len(s.lit))], s.lit)
			if k < 0 {
				break
			}
			end = from + k
		}
		if end-at > most {
			break
		}
		from = end
		if list && end > at && line[end-1] != '-' && line[end-1] != '.' && line[end-1]-'0' > 9 || !list && !field.Fits(line[at:end]) {
			if once {
				break
			}
			continue
		}
		next := end + s.skip()
		if b.try(i+1, next) {
			b.spans[s.field] = span(at, end)
			return true
		}
		if once || i+1 < len(b.f.steps) && b.allDead(i+1, next) {
			break // later ends fail too
		}
	}
	switch {
	case field.matchesAnything():
		*d = deadEnds{at, len(line), nil}
	default:
		d.mark(at, len(line))
	}
	return false
}

// allDead reports whether a step's field fails from all starts at or after at.
func (b *backtrack) allDead(i, at int) bool {
	d := &b.dead[i]
	return b.f.steps[i].braced == 0 && at >= d.from && d.to == len(b.line)
}

// skip returns the length of the literal that is skipped after the field.
func (s *step) skip() int {
	if s.keep {
		return 0
	}
	return len(s.lit)
}
