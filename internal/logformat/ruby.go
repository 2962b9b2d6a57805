package logformat

import (
	"bytes"
	"fmt"
)

// rubyLine is a line of Ruby's Logger (Logger::Formatter): "I, [2026-11-27T09:38:25.399983
// #28853] INFO -- : MESSAGE". Tags of Rails' TaggedLogging may precede the message.
type rubyLine struct {
	when    Span
	process Span // the process id
	tags    Span // all tags, including blanks: [f154f375-...]
	message int  // start of the message
}

// parseRuby splits a line. ok is false for a continued message, or a line of another program.
func parseRuby(line []byte) (r rubyLine, ok bool) {
	const begin = len("I, [")
	if len(line) < 40 || line[1] != ',' || line[2] != ' ' || line[3] != '[' || line[0] < 'A' || line[0] > 'Z' {
		return r, false
	}
	end := bytes.IndexByte(line[:min(len(line), 80)], ']')
	hash := bytes.Index(line[:max(end, 0)], []byte(" #"))
	if hash < begin {
		return r, false
	}
	r.when, r.process = span(begin, hash), span(hash+2, end)
	dashes := bytes.Index(line[end:min(len(line), end+32)], []byte(" -- "))
	if dashes < 0 {
		return r, false
	}
	colon := bytes.Index(line[end+dashes:], []byte(": "))
	if colon < 0 {
		return r, false
	}
	r.message = end + dashes + colon + len(": ")
	r.tags, r.message = tagged(line, r.message)
	return r, true
}

// tagged returns the tags before a message and the position of the message.
func tagged(line []byte, at int) (tags Span, message int) {
	from := at
	for at < len(line) && line[at] == '[' {
		end := bytes.Index(line[at:min(len(line), at+maxID)], []byte("] "))
		if end < 0 {
			break
		}
		at += end + len("] ")
	}
	return span(from, at), at
}

// loggerPrefix is the text that a logger writes before an object or key=value pairs.
type loggerPrefix struct {
	name string
	// parse returns the time and the position of the message. ok is false if the logger did
	// not write the line.
	parse func(line []byte) (when Span, message int, ok bool)
}

var loggerPrefixes = []loggerPrefix{
	{"Ruby's Logger", func(line []byte) (when Span, message int, ok bool) {
		r, ok := parseRuby(line)
		return r.when, r.message, ok
	}},
	{"zap's console", parseConsole},
}

// parseConsole splits a line of go.uber.org/zap's console encoder, which is Caddy's format
// console: TIME, LEVEL, logger, message and object, separated by tabs. The object may be missing.
func parseConsole(line []byte) (when Span, message int, ok bool) {
	tab := bytes.IndexByte(line[:min(len(line), 48)], '\t')
	if tab < 0 {
		return when, 0, false
	}
	if _, ok := iso(line[:tab]); !ok {
		return when, 0, false
	}
	at := bytes.Index(line, []byte("\t{"))
	if at < 0 {
		at = len(line) - 1
	}
	return span(0, tab), at + 1, true
}

// afterPrefix stores the time of a logger prefix and returns the position of the message. ok
// is false if the logger did not write the line.
func (k *jsonScanner) afterPrefix(line []byte, spans []Span) (message int, ok bool) {
	when, message, ok := k.front.parse(line)
	if ok && k.clock >= 0 {
		spans[k.clock] = when
	}
	return message, ok
}

// detectLogger returns the format of JSON or key=value messages after a logger prefix, or nil.
func detectLogger(lines [][]byte, units map[string]int64) *Format {
	for i := range loggerPrefixes {
		var messages [][]byte
		var times []string
		for _, line := range lines {
			if when, at, ok := loggerPrefixes[i].parse(line); ok {
				messages, times = append(messages, line[at:]), append(times, string(when.Of(line)))
			}
		}
		if len(messages) == 0 || 4*len(messages) < len(lines) { // the other lines continue messages
			continue
		}
		if f := keyed(messages, units, &loggerPrefixes[i], times); f != nil {
			f.Why = ofFirst(len(messages), len(lines), " begins", " begin") + " with the prefix of " + loggerPrefixes[i].name + f.Why
			return f
		}
	}
	return nil
}

// detectPairs returns the format of requests in key=value lines, such as lograge's, or nil.
func detectPairs(lines [][]byte, units map[string]int64) *Format {
	f := keyed(lines, units, nil, nil)
	if f != nil {
		f.Why = fmt.Sprintf("most of the first %d lines are key=value", len(lines)) + f.Why
	}
	return f
}

// keyed returns a format for messages that are objects or key=value pairs, or nil. before and
// times describe the logger prefix, if any.
func keyed(messages [][]byte, units map[string]int64, before *loggerPrefix, times []string) *Format {
	pairs := false
	b := newBuilder(sampleOf(messages), JSONLines)
	if 2*len(b.rows) < len(messages) {
		pairs = true
		if b = newBuilder(pairsOf(messages), PairLines); 2*len(b.rows) < len(messages) {
			return nil
		}
	} else if before == nil {
		return nil // plain JSON lines
	}
	b.k.front, b.times = before, times
	b.build(units)
	if !b.f.hasRequestFields() {
		return nil
	}
	if pairs {
		b.f.backslash = false
		for i := range b.f.Fields {
			b.f.Fields[i].Escape = Verbatim
		}
		b.f.scan, b.f.json = b.k.scanPairs, nil
	}
	return b.f
}

// PairLines is the name of the format of key=value lines.
const PairLines = "lines of key=value"

// pairsOf parses the lines whose key=value pairs describe a request.
func pairsOf(lines [][]byte) *sample {
	s := &sample{}
	names := map[string]bool{}
	for _, line := range lines {
		row := map[string]string{}
		eachPair(line, 0, func(key []byte, value Span) {
			if n := string(key); names[n] || len(names) < maxMembers {
				if _, is := row[n]; !is {
					names[n], row[n] = true, string(value.Of(line))
				}
			}
		})
		if row["method"] != "" && row["status"] != "" {
			s.rows = append(s.rows, row)
		}
	}
	s.index(func(map[string]string) bool { return true })
	return s
}

// scanPairs splits a line of key=value pairs. If a key occurs several times, the first pair
// counts, because later values may come from clients.
func (k *jsonScanner) scanPairs(line []byte, spans []Span) LineKind {
	clear(spans)
	at := 0
	if k.front != nil {
		var ok bool
		if at, ok = k.afterPrefix(line, spans); !ok {
			return OtherLine
		}
	} else {
		_, at = tagged(line, 0)
	}
	n := 0
	eachPair(line, at, func(key []byte, value Span) {
		n++
		if member := k.root.members[string(key)]; member != nil && member.field >= 0 && spans[member.field].End == 0 {
			spans[member.field] = value
		}
	})
	if n == 0 && k.front == nil {
		return BadLine
	}
	return k.request(line, spans)
}

// eachPair calls found for each KEY=VALUE in a line from at on. Quoted values may contain
// blanks. An unterminated value continues on the next line.
func eachPair(line []byte, at int, found func(key []byte, value Span)) {
	for at < len(line) {
		if line[at] == ' ' {
			at++
			continue
		}
		from := at
		for at < len(line) && line[at] != ' ' && line[at] != '=' {
			at++
		}
		key := line[from:at]
		if at == len(line) || line[at] == ' ' || len(key) == 0 {
			at++
			continue
		}
		at++
		from = at
		if at < len(line) && (line[at] == '"' || line[at] == '\'') {
			quote := line[at]
			end := bytes.IndexByte(line[at+1:], quote)
			if end < 0 {
				return
			}
			found(key, span(at+1, at+1+end))
			at += end + 2
			continue
		}
		for at < len(line) && line[at] != ' ' {
			at++
		}
		found(key, span(from, at))
	}
}
