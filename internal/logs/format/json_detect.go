package format

import (
	"bytes"
	"fmt"
)

// detectJSON makes the format of lines of which at least half are objects; nil: they are
// not. skipped is how many lines stood before them.
func detectJSON(lines [][]byte, skipped int, units map[string]int64) *Format {
	f := JSON(lines, units)
	if f == nil || !f.asks() {
		return nil
	}
	objects := 0
	spans := make([]Span, len(f.Fields))
	for _, line := range lines {
		if f.Scan(line, spans) != Bad {
			objects++
		}
	}
	if float64(objects) < enough*float64(len(lines)) {
		return nil
	}
	behind := ""
	if skipped > 0 {
		behind = fmt.Sprintf(" behind %d others", skipped)
	}
	f.Why = fmt.Sprintf("%d of the first %d lines%s are JSON objects", objects, len(lines), behind) + f.Why
	return f
}

// behindBanner finds JSON lines behind others, as a server's messages at its start; nil:
// there are none.
func behindBanner(head []byte, units map[string]int64) *Format {
	skipped := 0
	for len(head) > 0 && head[0] != '{' {
		n := bytes.IndexByte(head, '\n')
		if n < 0 {
			return nil
		}
		if head = head[n+1:]; n > 0 {
			skipped++
		}
	}
	lines := lines(head)
	if len(lines) == 0 {
		return nil
	}
	return detectJSON(lines, skipped, units)
}

// asks reports whether a format of objects has a member that tells a request: what was asked
// for, how, or how it ended. The messages of a container's log have none.
func (f *Format) asks() bool {
	for _, name := range []string{FieldRequest, FieldURL, FieldMethod, FieldStatus, FieldDuration} {
		if f.Field(name) >= 0 {
			return true
		}
	}
	return false
}
