package conf

import (
	"fmt"
	"strings"
)

// Quoted holds a value both as written in a file and as the product reads it.
type Quoted struct {
	File         string
	Line, Column int // of the first byte of Raw, from 1
	Raw          string
	// Read converts raw text to the value that the product reads. It also accepts a prefix of Raw.
	Read func(raw string) string
}

// Value returns the value that the product reads.
func (q Quoted) Value() string { return q.Read(q.Raw) }

// Place returns FILE:LINE:COLUMN of the byte at an offset in the value.
func (q Quoted) Place(at int) string {
	raw := 0
	if value := q.Value(); at > 0 && at <= len(value) {
		// The byte at this offset is the last one of the shortest prefix whose value is longer than
		// at.
		for raw < len(q.Raw)-1 && !(len(q.Read(q.Raw[:raw+1])) > at && strings.HasPrefix(q.Read(q.Raw[:raw+1]), value[:at])) {
			raw++
		}
	}
	line, column := q.Line, q.Column+raw
	before := q.Raw[:raw]
	if n := strings.Count(before, "\n"); n > 0 {
		line, column = line+n, raw-strings.LastIndexByte(before, '\n')
	}
	return fmt.Sprintf("%s:%d:%d", q.File, line, column)
}

func (q Quoted) String() string { return fmt.Sprintf("%s:%d", q.File, q.Line) }

// PositionOf returns the line and column, from 1, of the byte at an offset in a text.
func PositionOf(text string, at int) (line, column int) {
	before := text[:min(max(at, 0), len(text))]
	return 1 + strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n')
}
