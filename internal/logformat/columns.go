package logformat

import "bytes"

// columns cuts lines of words with a blank between them, of which a text is in quotes; to
// which the product may add words at the end.
type columns struct {
	of   []column
	need int // of, at least
	// sum is the field that is all from the field first to the field last, or -1.
	sum, first, last int
}

// column is one of them: a field, and the port behind the last colon where it has one.
type column struct{ field, port int }

// columnar makes a format of columns; an address has a port behind it. sum is one more
// field, of all that is from the field first to the field last; a Field without a name adds nothing.
func columnar(f *Format, need int, fields []Field, sum Field, first, last string) *Format {
	c := &columns{need: need, sum: -1}
	add := func(field Field) int {
		f.Fields = append(f.Fields, field)
		if field.checked() {
			f.check(len(f.Fields) - 1)
		}
		return len(f.Fields) - 1
	}
	for _, field := range fields {
		col := column{port: -1}
		if field.Kind == Address {
			col.port = add(Field{Name: field.Name + "_port", Source: field.Source, Kind: Number})
		}
		col.field = add(field)
		c.of = append(c.of, col)
	}
	if sum.Name != "" {
		c.first, c.last, c.sum = f.Field(first), f.Field(last), add(sum)
	}
	f.backslash = true
	f.scan = c.scan
	return f
}

func (c *columns) scan(line []byte, spans []Span) LineKind {
	clear(spans)
	at, i := 0, 0
	for ; i < len(c.of) && at < len(line); i++ {
		from, end := at, wordEnd(line, at)
		if end < 0 {
			return BadLine
		}
		next := end
		if line[at] == '"' && stringEnd(line, at) == end {
			from, end = at+1, end-1
		}
		col := c.of[i]
		if colon := bytes.LastIndexByte(line[from:end], ':'); col.port >= 0 && colon >= 0 {
			spans[col.port] = span(from+colon+1, end)
			end = from + colon
		}
		spans[col.field] = span(from, end)
		at = next + 1
	}
	if i < c.need {
		return BadLine
	}
	if c.sum >= 0 {
		spans[c.sum] = span(int(spans[c.first].Start), int(spans[c.last].End))
	}
	return RequestLine
}

// wordEnd is where the word from at on ends, in which blanks may stand between quotes, or -1.
func wordEnd(line []byte, at int) int {
	from := at
	for at < len(line) && line[at] != ' ' {
		if line[at] != '"' {
			at++
			continue
		}
		if at = stringEnd(line, at); at < 0 {
			return -1
		}
	}
	if at == from {
		return -1
	}
	return at
}
