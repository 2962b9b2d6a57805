package journal

import (
	"bytes"
	"encoding/json"
	"strconv"

	"fettle.dev/fettle/internal/setting"
)

// canonical reads a record whose bytes are in the very form in which encode
// writes the records that a journal mostly consists of: before-images, outcomes,
// and what was carried on. false means that encoding/json has to read it: a
// record of another kind, a text with an escape in it, or no record at all.
//
// Every command reads the whole journal at its start. With encoding/json alone
// that was the larger part of its time.
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
	case c.is(`,"commit":{"id":`):
		m := Commit{ID: c.number()}
		c.must(`,"time":`)
		if err := m.Time.UnmarshalText([]byte(c.text())); err != nil {
			c.bad = true
		}
		c.must(`,"result":`)
		m.Result = c.text()
		if c.is(`,"outcomes":`) {
			m.Outcomes = list(c, (*cursor).outcome)
		}
		c.must("}}")
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
	// words are the texts read: most come again and again.
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

// text reads a string of plain ASCII without an escape.
func (c *cursor) text() string {
	if len(c.rest) == 0 || c.rest[0] != '"' {
		c.bad = true
		return ""
	}
	for i := 1; i < len(c.rest); i++ {
		switch b := c.rest[i]; {
		case b == '"':
			s, known := c.words[string(c.rest[1:i])]
			if !known {
				s = string(c.rest[1:i])
				c.words[s] = s
			}
			c.rest = c.rest[i+1:]
			return s
		case b < 0x20 || b >= 0x80 || b == '\\':
			c.bad = true
			return ""
		}
	}
	c.bad = true
	return ""
}

// raw reads one object, whatever is in it, for encoding/json.
func (c *cursor) raw(into any) {
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
				if json.Unmarshal(c.rest[:i+1], into) != nil {
					c.bad = true
				}
				c.rest = c.rest[i+1:]
				return
			}
		case depth == 0:
			c.bad = true
			return
		}
	}
	c.bad = true
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
	c.raw(&t.Begin)
	c.must(`,"commit":`)
	if !c.is("null") {
		t.Commit = &Commit{}
		c.raw(t.Commit)
	}
	t.Confirmed = c.is(`,"confirmed":true`)
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
