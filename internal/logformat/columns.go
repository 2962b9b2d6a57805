package logformat

import "bytes"

// columns splits lines of blank-separated words, which may be quoted. Products may add words
// at the end.
type columns struct {
	of   []column
	need int // minimum number of columns
	// sum is the field that spans from field first to field last, or -1.
	sum, first, last int
}

// column is the index of a field, and of the field for the port after the last colon, or -1.
type column struct{ field, port int }

// columnar creates a format of columns. Addresses have a port. sum is an additional field from
// the field first to the field last. It is omitted if its name is empty.
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

// wordEnd returns the end of the word that begins at position at, or -1. Quoted words may contain
// blanks.
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
