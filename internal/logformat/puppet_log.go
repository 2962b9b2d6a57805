package logformat

import (
	"bytes"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// puppetLog returns the format of puppetserver.log, Puppet Server's own log, as configured in
// its logback.xml (%d %-5p [%t] [%c{2}] %m%n). A request is a line with the duration of an
// action, such as "Puppet Compiled catalog for NODE in environment ENV in 0.21 seconds".
func puppetLog() *Format {
	return &Format{Name: "Puppet Server's own log", Source: "puppetserver.log", TimeIsEnd: true, NoZone: true, scan: scanPuppetLog, Fields: []Field{
		{Name: FieldTime, Kind: Time, Layout: ISO},
		{Name: "level"},
		{Name: "thread"},
		{Name: "indirector"}, // the action: Compiled catalog
		{Name: "requestor"},
		{Name: "environment"},
		{Name: FieldDuration, Source: "Compiled catalog ... in", Kind: Duration, Unit: 1e9},
	}}
}

// PuppetLog returns the format of puppetserver.log for a logback pattern. The pattern must
// begin like the packaged one: an ISO 8601 date, the level, the thread and logger in brackets,
// and the message.
func PuppetLog(text string) (*Format, error) {
	const what = "pattern"
	want := []struct{ before, words string }{{"", "d date"}, {" ", "p le level"}, {" [", "t thread"}, {"] [", "c lo logger C class"}, {"] ", "m msg message"}}
	f := puppetLog()
	f.Source = text
	at := 0
	for i, w := range want {
		m := puppetWord().FindStringSubmatch(text[at:])
		if m == nil || m[1] != w.before || !slices.Contains(strings.Fields(w.words), m[2]) {
			return nil, formatError(what, text, at, "must begin as in puppetserver.log: %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %-5p [%t] [%c{2}] %m%n")
		}
		if date := strings.Trim(m[3], `{}"`); i == 0 {
			if date != "" && date != "ISO8601" && !isoDate().MatchString(date) {
				return nil, formatError(what, text, at, "the date must be yyyy-MM-dd'T'HH:mm:ss")
			}
			f.NoZone = !strings.ContainsAny(date, "XZ")
		}
		at += len(m[0])
	}
	return f, nil
}

var (
	puppetWord = text.LazyRegexp(`^([^%]*)%(?:-?\d*(?:\.-?\d+)?)([a-zA-Z]+)(\{[^}]*\})?`)
	isoDate    = text.LazyRegexp(`^yyyy-MM-dd(?:'T'| )HH:mm:ss(?:[.,]S+)?(?:X+|Z|'Z')?$`)
)

func scanPuppetLog(line []byte, spans []Span) LineKind {
	level := bytes.IndexByte(line, ' ')
	if level == 10 { // a space instead of T
		if n := bytes.IndexByte(line[11:], ' '); n >= 0 {
			level = 11 + n
		}
	}
	if level < 19 {
		if len(line) > 0 && (line[0] == '\t' || line[0] == ' ') || bytes.HasPrefix(line, []byte("Caused by")) || javaName(line) {
			return OtherLine // part of a stack trace
		}
		return BadLine
	}
	if _, ok := iso(line[:level]); !ok {
		if javaName(line) {
			return OtherLine
		}
		return BadLine
	}
	spans[0] = span(0, level)
	at := level + 1
	end := bytes.IndexByte(line[at:], ' ')
	if end < 0 {
		return BadLine
	}
	spans[1] = span(at, at+end)
	open := bytes.IndexByte(line[at:], '[')
	shut := bytes.Index(line[at:], []byte("] ["))
	if open < 0 || shut < open {
		return OtherLine
	}
	spans[2] = span(at+open+1, at+shut)
	rest, ok := bytes.CutSuffix(line, []byte(" seconds"))
	in := bytes.LastIndex(rest, []byte(" in "))
	if in < 0 || !ok {
		return OtherLine
	}
	env := bytes.LastIndex(line[:in], []byte(" in environment "))
	if env < 0 {
		return OtherLine
	}
	node := bytes.LastIndex(line[:env], []byte(" for "))
	what := bytes.LastIndex(line[:max(node, 0)], []byte("] "))
	if node < 0 || what < 0 {
		return OtherLine
	}
	what += 2
	if bytes.HasPrefix(line[what:node], []byte("Puppet ")) {
		what += len("Puppet ")
	}
	spans[3] = span(what, node)
	spans[4] = span(node+len(" for "), env)
	spans[5] = span(env+len(" in environment "), in)
	spans[6] = span(in+len(" in "), len(line)-len(" seconds"))
	return RequestLine
}

// javaName reports whether a line begins with a Java class name, like lines of stack traces.
func javaName(line []byte) bool {
	n := bytes.IndexAny(line, ": ")
	if n < 0 {
		n = len(line)
	}
	return bytes.Count(line[:n], []byte(".")) >= 2 && !bytes.ContainsAny(line[:n], "/[\"")
}
