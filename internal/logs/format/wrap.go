package format

import "bytes"

// wrap is what another program writes around each line of a log: a syslog daemon, a
// container runtime, docker compose. It is removed before a line is read as any format.
type wrap struct {
	name string
	// from is where the line begins behind it, or -1 without it.
	from func(line []byte) int
	// quoted says that the line is a JSON string from there on.
	quoted bool
	// inner says that the line may have what syslog writes, too: HAProxy in a container
	// with "log stdout format short".
	inner bool
}

// wraps are the ways in which lines are wrapped. A line may also stand alone.
var wraps = []wrap{
	{name: "what syslog writes", from: afterSyslog},
	{name: "a time", from: afterISO},
	{name: "what the container runtime writes (CRI)", from: afterCRI, inner: true},
	{name: "what docker writes (json-file)", from: afterDocker, quoted: true, inner: true},
	{name: "what docker compose writes", from: afterCompose, inner: true},
	{name: "what docker compose writes and a time", from: func(line []byte) int { return both(line, afterCompose, afterISO) }},
	{name: "what kubectl logs --prefix writes", from: afterPod, inner: true},
	{name: "what kubectl logs --prefix --timestamps writes", from: func(line []byte) int { return both(line, afterPod, afterISO) }},
}

// Unwrapper removes what is around the lines of a format. One is used by one goroutine;
// the zero value is ready.
type Unwrapper struct{ room []byte }

// Line is the line without what is around it. A line without that is itself.
func (u *Unwrapper) Line(f *Format, line []byte) []byte {
	if f.wrap == nil {
		return line
	}
	out, _ := u.line(f.wrap, line)
	return out
}

func (u *Unwrapper) line(w *wrap, line []byte) (out []byte, ok bool) {
	at := w.from(line)
	if at < 0 {
		return line, false
	}
	out = line[at:]
	if w.quoted {
		end := stringEnd(line, at-1)
		if end < 0 {
			return line, false
		}
		whole := false
		if out, whole = bytes.CutSuffix(line[at:end-1], []byte(`\n`)); !whole {
			return nil, true // a part of a line that was too long for docker
		}
		out = bytes.TrimSuffix(out, []byte(`\r`))
		if bytes.IndexByte(out, '\\') >= 0 {
			out = u.keep(JSONString.Plain(out))
		}
	}
	if w.inner {
		if at := afterSyslog(out); at > 0 {
			out = out[at:]
		}
	}
	return out, true
}

// keep copies a line to where it can be read quickly (see ahead). The copy stays valid, since
// several lines are in use at a time.
func (u *Unwrapper) keep(line []byte) []byte {
	const many = 64 << 10
	need := len(line) + ahead
	if need > len(u.room) {
		u.room = make([]byte, max(many, need))
	}
	out := u.room[:len(line):need]
	copy(out, line)
	u.room = u.room[need:]
	return out
}

func both(line []byte, first, second func([]byte) int) int {
	at := first(line)
	if at < 0 {
		return -1
	}
	n := second(line[at:])
	if n < 0 {
		return -1
	}
	return at + n
}

// afterISO is behind a time as ISO 8601 has it and a blank: HAProxy's "format iso", docker
// logs --timestamps.
func afterISO(line []byte) int {
	if len(line) < 21 || line[4] != '-' || line[10] != 'T' {
		return -1
	}
	n := bytes.IndexByte(line[:min(len(line), 42)], ' ')
	if n < 0 {
		return -1
	}
	if _, ok := iso(line[:n]); !ok {
		return -1
	}
	return n + 1
}

// afterCRI is behind "TIME stdout F " (kubelet, CRI logging). A part of a line that was too
// long for it (P) is left as it is, and no format reads it.
func afterCRI(line []byte) int {
	at := afterISO(line)
	if at < 0 {
		return -1
	}
	rest := line[at:]
	for _, stream := range []string{"stdout F ", "stderr F "} {
		if bytes.HasPrefix(rest, []byte(stream)) {
			return at + len(stream)
		}
	}
	return -1
}

// afterDocker is within the string of {"log":"...
func afterDocker(line []byte) int {
	const begins = `{"log":`
	if !bytes.HasPrefix(line, []byte(begins)) {
		return -1
	}
	at := space(line, len(begins)) // other programs that write it have a blank
	if at == len(line) || line[at] != '"' {
		return -1
	}
	return at + 1
}

// afterCompose is behind "NAME  | ".
func afterCompose(line []byte) int {
	n := bytes.Index(line[:min(len(line), 128)], []byte(" | "))
	if n <= 0 {
		return -1
	}
	if name := bytes.TrimRight(line[:n], " "); len(name) == 0 || !plainWord(name) {
		return -1
	}
	return n + len(" | ")
}

// afterPod is behind "[pod/NAME/CONTAINER] ".
func afterPod(line []byte) int {
	if !bytes.HasPrefix(line, []byte("[pod/")) {
		return -1
	}
	n := bytes.Index(line[:min(len(line), syslogMost)], []byte("] "))
	if n < 0 {
		return -1
	}
	return n + 2
}

// plainWord reports whether a text is letters, digits, -, _, /, . and @.
func plainWord(text []byte) bool {
	for _, c := range text {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && bytes.IndexByte([]byte("-_/.@"), c) < 0 {
			return false
		}
	}
	return true
}
