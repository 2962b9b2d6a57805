package journal

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// canonical reads a record whose bytes are in the very form in which encode
// writes the records that a journal mostly consists of: the beginnings of
// switches, before-images, outcomes, and what was carried on. false means that
// encoding/json has to read it: a record of another kind, or no record at all.
//
// Every command reads the whole journal at its start. With encoding/json alone
// that was the larger part of its time, and a quarter of it while one text with
// an escape (each profile with readahead=>4096 has one) made it read the record.
func canonical(body []byte) (record, bool) {
	c := &cursor{rest: body, words: map[string]string{}}
	var r record
	c.must(`{"seq":`)
	r.Seq = int64(c.number())
	switch {
	case c.is(`,"stage":{"id":`):
		s := stage{ID: c.number()}
		c.must(`,"entries":`)
		s.Entries = list(c, func(c *cursor) Before {
			b := c.before()
			c.must("}")
			return b
		})
		c.must("}}")
		r.Stage = &s
	case c.is(`,"begin":`):
		b := c.begin()
		c.must("}")
		r.Begin = &b
	case c.is(`,"commit":`):
		m := c.commit()
		c.must("}")
		r.Commit = &m
	case c.is(`,"start":{"version":`):
		s := start{Version: c.number()}
		c.must(`,"next_id":`)
		s.NextID = c.number()
		if c.is(`,"carried":`) {
			s.Carried = list(c, (*cursor).carried)
		}
		c.must("}}")
		r.Start = &s
	default:
		return record{}, false
	}
	return r, !c.bad && len(c.rest) == 0
}

// cursor reads one thing after another; once something is not as expected, bad
// is true and what is read means nothing.
type cursor struct {
	rest []byte
	bad  bool
	// words are the texts read, by their bytes: most come again and again.
	words map[string]string
}

// is goes past s where s comes next.
func (c *cursor) is(s string) bool {
	if !bytes.HasPrefix(c.rest, []byte(s)) {
		return false
	}
	c.rest = c.rest[len(s):]
	return true
}

func (c *cursor) must(s string) {
	if !c.is(s) {
		c.bad = true
	}
}

// number reads a natural number as JSON writes it.
func (c *cursor) number() int {
	n := 0
	for n < len(c.rest) && c.rest[n] >= '0' && c.rest[n] <= '9' {
		n++
	}
	v, err := strconv.Atoi(string(c.rest[:n]))
	if err != nil || n > 1 && c.rest[0] == '0' {
		c.bad = true
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// text reads a string.
func (c *cursor) text() string {
	if len(c.rest) == 0 || c.rest[0] != '"' {
		c.bad = true
		return ""
	}
	plain := true
	for i := 1; i < len(c.rest); i++ {
		switch b := c.rest[i]; {
		case b == '"':
			return c.word(i+1, plain)
		case b == '\\':
			plain = false
			i++
		case b < 0x20 || b >= 0x80:
			plain = false
		}
	}
	c.bad = true
	return ""
}

// word goes past a string of n bytes, its quotes included. One that is not plain
// ASCII, or has an escape in it, is left to encoding/json.
func (c *cursor) word(n int, plain bool) string {
	b := c.rest[:n]
	c.rest = c.rest[n:]
	if s, known := c.words[string(b)]; known {
		return s
	}
	quoted := string(b)
	s := quoted[1 : n-1]
	if !plain && json.Unmarshal(b, &s) != nil {
		c.bad = true
	}
	c.words[quoted] = s
	return s
}

// time reads a point in time, which encoding/json takes without escapes only.
func (c *cursor) time() (t time.Time) {
	before := c.rest
	text := c.text()
	if quoted := before[:len(before)-len(c.rest)]; len(quoted) != len(text)+2 || t.UnmarshalText([]byte(text)) != nil {
		c.bad = true
	}
	return t
}

// object reads one object as it is, whatever is in it.
func (c *cursor) object() json.RawMessage {
	depth, quoted := 0, false
	for i := 0; i < len(c.rest); i++ {
		switch b := c.rest[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{':
			depth++
		case b == '}':
			if depth--; depth == 0 {
				raw := bytes.Clone(c.rest[:i+1])
				c.bad = c.bad || !json.Valid(raw)
				c.rest = c.rest[i+1:]
				return raw
			}
		case depth == 0:
			c.bad = true
			return nil
		}
	}
	c.bad = true
	return nil
}

func list[T any](c *cursor, one func(*cursor) T) []T {
	c.must("[")
	if c.is("]") {
		return []T{}
	}
	out := make([]T, 0, 32)
	for !c.bad {
		out = append(out, one(c))
		if c.is("]") {
			break
		}
		c.must(",")
	}
	return out
}

func (c *cursor) value() setting.Value {
	if c.is("null") {
		return setting.Absent
	}
	return setting.Text(c.text())
}

// before reads a before-image up to its closing brace.
func (c *cursor) before() (b Before) {
	c.must(`{"n":`)
	b.N = c.number()
	c.must(`,"setting":`)
	var err error
	if b.Setting, err = setting.Parse(c.text()); err != nil {
		c.bad = true
	}
	c.must(`,"before":`)
	b.Before = c.value()
	c.must(`,"want":`)
	b.Want = c.value()
	c.must(`,"lifetime":`)
	b.Lifetime = setting.Lifetime(c.text())
	if c.is(`,"reason":`) {
		b.Reason = c.reason()
	}
	if c.is(`,"coupled_to":`) {
		b.CoupledTo = c.number()
	}
	b.Foreign = c.is(`,"foreign":true`)
	b.Releases = c.is(`,"releases":true`)
	b.Outlives = c.is(`,"outlives":true`)
	if c.is(`,"varies":`) {
		b.Varies = list(c, (*cursor).value)
	}
	if c.is(`,"activation":`) && b.Activation.UnmarshalText([]byte(c.text())) != nil {
		c.bad = true
	}
	return b
}

func (c *cursor) reason() (r setting.Reason) {
	c.must("{")
	begin := len(c.rest)
	// member goes past a member's name, and the comma before it unless it is the
	// first.
	member := func(name string) bool {
		if len(c.rest) == begin {
			return c.is(name[1:])
		}
		return c.is(name)
	}
	if member(`,"profile":`) {
		r.Profile = c.text()
	}
	if member(`,"file":`) {
		r.File = c.text()
	}
	if member(`,"line":`) {
		r.Line = c.number()
	}
	if member(`,"text":`) {
		r.Text = c.text()
	}
	if member(`,"rule":`) {
		r.Rule = c.text()
	}
	c.must("}")
	return r
}

// begin reads the beginning of a transaction that takes nothing back and is not
// on trial.
func (c *cursor) begin() (b Begin) {
	c.must(`{"id":`)
	b.ID = c.number()
	c.must(`,"kind":`)
	b.Kind = TxKind(c.text())
	c.must(`,"time":`)
	b.Time = c.time()
	c.must(`,"boot_id":`)
	b.BootID = c.text()
	c.must(`,"user":`)
	b.User = c.text()
	c.must(`,"pid":`)
	b.PID = c.number()
	c.must(`,"reason":`)
	b.Reason = c.text()
	if c.is(`,"note":`) {
		b.Note = c.text()
	}
	if c.is(`,"caller":`) {
		b.Caller = new(host.Caller)
		c.bad = json.Unmarshal(c.object(), b.Caller) != nil || c.bad
	}
	if c.is(`,"planned":`) {
		b.Planned = new(Planned)
		c.bad = json.Unmarshal(c.object(), b.Planned) != nil || c.bad
	}
	if c.is(`,"selection":`) {
		b.Selection = c.object()
	}
	if c.is(`,"supersedes":`) {
		b.Supersedes = list(c, (*cursor).number)
	}
	c.must("}")
	return b
}

// commit reads the end of a transaction that takes nothing back.
func (c *cursor) commit() (m Commit) {
	c.must(`{"id":`)
	m.ID = c.number()
	c.must(`,"time":`)
	m.Time = c.time()
	c.must(`,"result":`)
	m.Result = c.text()
	if c.is(`,"outcomes":`) {
		m.Outcomes = list(c, (*cursor).outcome)
	}
	c.must("}")
	return m
}

func (c *cursor) outcome() (o Outcome) {
	c.must(`{"n":`)
	o.N = c.number()
	c.must(`,"after":`)
	o.After = c.value()
	if c.is(`,"verdict":`) {
		o.Verdict = c.text()
	}
	if c.is(`,"why":`) {
		o.Why = c.text()
	}
	c.must("}")
	return o
}

func (c *cursor) carried() (t carried) {
	c.must(`{"begin":`)
	t.Begin = c.begin()
	c.must(`,"commit":`)
	if !c.is("null") {
		m := c.commit()
		t.Commit = &m
	}
	t.Confirmed = c.is(`,"confirmed":true`)
	if c.is(`,"confirmed_by":`) {
		t.ConfirmedBy = new(Confirm)
		c.bad = json.Unmarshal(c.object(), t.ConfirmedBy) != nil || c.bad
	}
	if c.is(`,"superseded":`) {
		t.Superseded = c.number()
	}
	if c.is(`,"undone_by":`) {
		t.UndoneBy = c.number()
	}
	if c.is(`,"entries":`) {
		t.Entries = list(c, (*cursor).carriedEntry)
	}
	c.must("}")
	return t
}

func (c *cursor) carriedEntry() (e carriedEntry) {
	e.Before = c.before()
	if c.is(`,"orig":`) {
		v := c.value()
		e.Orig = &v
	}
	if c.is(`,"after":`) {
		v := c.value()
		e.After = &v
	}
	if c.is(`,"verdict":`) {
		e.Verdict = c.text()
	}
	if c.is(`,"why":`) {
		e.Why = c.text()
	}
	if c.is(`,"state":`) {
		e.State = EntryState(c.text())
	}
	e.Undoing = c.is(`,"undoing":true`)
	c.must("}")
	return e
}
