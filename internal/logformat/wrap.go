package logformat

import "bytes"

// wrap is the text that another program adds around each line of a log: a syslog daemon,
// container runtime, docker compose, log shipper. It is removed before a line is parsed.
type wrap struct {
	name string
	// from returns the start of the wrapped line, or -1 if it is not wrapped.
	from func(line []byte) int
	// quoted reports whether the line is a JSON string.
	quoted bool
	// parts reports whether the program splits long lines, so that the parts have to be joined.
	parts bool
	// inner reports whether the wrapped line may also have a syslog prefix: HAProxy in a
	// container with "log stdout format short".
	inner bool
}

var wraps = []wrap{
	{name: "syslog's prefix", from: afterSyslog},
	{name: "a timestamp", from: afterISO},
	{name: "the container runtime's prefix (CRI)", from: afterCRI, parts: true, inner: true},
	{name: "docker's JSON (json-file)", from: afterDocker, quoted: true, parts: true, inner: true},
	{name: "docker compose's prefix", from: afterCompose, inner: true},
	{name: "docker compose's prefix and a timestamp", from: func(line []byte) int { return composed(line, afterCompose, afterISO) }},
	{name: "the prefix of kubectl logs --prefix", from: afterPod, inner: true},
	{name: "the prefix of kubectl logs --prefix --timestamps", from: func(line []byte) int { return composed(line, afterPod, afterISO) }},
	{name: "stern's prefix", from: afterStern, inner: true},
	{name: "stern's prefix and a timestamp", from: func(line []byte) int { return composed(line, afterStern, afterISO) }},
	{name: "journalctl's JSON (-o json)", from: func(line []byte) int { return inMember(line, "MESSAGE") }, quoted: true, inner: true},
	{name: "a log shipper's JSON (message)", from: func(line []byte) int { return inMember(line, "message") }, quoted: true, inner: true},
	{name: "a log shipper's JSON (log)", from: func(line []byte) int { return inMember(line, "log") }, quoted: true, inner: true},
	{name: "logcli's JSON (line)", from: func(line []byte) int { return inMember(line, "line") }, quoted: true, inner: true},
	{name: "Google Cloud's JSON (textPayload)", from: func(line []byte) int { return inMember(line, "textPayload") }, quoted: true, inner: true},
}

// Unwrapper removes the wrap of lines and joins the parts of split lines. The zero value is
// ready. It is not safe for concurrent use.
type Unwrapper struct {
	room    []byte
	pending [2]pendingParts // for stdout and stderr
}

// pendingParts holds the parts read so far of a split line.
type pendingParts struct {
	text []byte
	n    int
}

// wrapState is the result of removing the wrap of a line.
type wrapState uint8

const (
	bareLine  wrapState = iota // not wrapped
	wholeLine                  // complete, with its earlier parts
	partLine                   // the rest is on a later line
)

// Unwrap returns the line without its wrap, joined with its earlier parts. part reports
// whether the line continues later. A line without a wrap is returned unchanged.
func (u *Unwrapper) Unwrap(f *Format, line []byte) (out []byte, part bool) {
	if f.wrap == nil {
		return line, false
	}
	out, what := u.line(f.wrap, line)
	return out, what == partLine
}

// TakeUnjoined drops the parts of incomplete lines and returns their number.
func (u *Unwrapper) TakeUnjoined() (n int) {
	for i := range u.pending {
		n += u.pending[i].n
		u.pending[i].n, u.pending[i].text = 0, u.pending[i].text[:0]
	}
	return n
}

// PartDetector returns a function that reports whether a line is a part that continues later.
// It returns nil if the format's lines are never split.
func (f *Format) PartDetector() func(line []byte) bool {
	if f.wrap == nil || !f.wrap.parts {
		return nil
	}
	return func(line []byte) bool {
		_, what := (&Unwrapper{}).line(f.wrap, bytes.TrimSuffix(line, []byte("\r")))
		return what == partLine
	}
}

func (u *Unwrapper) line(w *wrap, line []byte) (out []byte, what wrapState) {
	at := w.from(line)
	if at < 0 {
		return line, bareLine
	}
	out = line[at:]
	part, stderr := false, false
	switch {
	case w.quoted:
		end := stringEnd(line, at-1)
		if end < 0 {
			return line, bareLine
		}
		whole := false
		out, whole = bytes.CutSuffix(line[at:end-1], []byte(`\n`))
		out = bytes.TrimSuffix(out, []byte(`\r`))
		if bytes.IndexByte(out, '\\') >= 0 {
			out = u.copyLine(JSONString.Unescape(out))
		}
		part, stderr = !whole, bytes.Contains(line[end:], []byte(`"stderr"`))
	case w.parts: // "stdout F " precedes the line
		part, stderr = line[at-2] == 'P', line[at-6] == 'e'
	}
	if w.parts {
		var over bool
		if out, over = u.join(&u.pending[index(stderr)], out, part); !over {
			return nil, partLine
		}
	}
	if w.inner {
		if at := afterSyslog(out); at > 0 {
			out = out[at:]
		}
	}
	return out, wholeLine
}

func index(second bool) int {
	if second {
		return 1
	}
	return 0
}

// join appends a part to the earlier parts. over reports whether the line is complete.
func (u *Unwrapper) join(h *pendingParts, text []byte, part bool) (whole []byte, over bool) {
	switch {
	case part && len(h.text) <= MaxLine: // longer lines are not read
		h.text = append(h.text, text...)
		fallthrough
	case part:
		h.n++
		return nil, false
	case h.n > 0:
		text = u.copyLine(append(h.text, text...))
		h.n, h.text = 0, h.text[:0]
	}
	return text, true
}

// copyLine copies a line into a buffer with room for scanQuick (see ahead). It does not
// overwrite earlier copies, because several lines are in use at a time.
func (u *Unwrapper) copyLine(line []byte) []byte {
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

func composed(line []byte, first, second func([]byte) int) int {
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

// afterISO returns the position after an ISO 8601 time and a blank, or -1. HAProxy's "format
// iso" and docker logs --timestamps write it.
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

// afterCRI returns the position after "TIME stdout F " (kubelet, CRI logging), or -1. P
// instead of F marks a part that continues.
func afterCRI(line []byte) int {
	at := afterISO(line)
	if at < 0 {
		return -1
	}
	rest := line[at:]
	const n = len("stdout F ")
	if len(rest) < n || string(rest[:6]) != "stdout" && string(rest[:6]) != "stderr" || rest[6] != ' ' || rest[7] != 'F' && rest[7] != 'P' || rest[8] != ' ' {
		return -1
	}
	return at + n
}

// afterDocker returns the position of the string in {"log":"..., or -1.
func afterDocker(line []byte) int {
	const begins = `{"log":`
	if !bytes.HasPrefix(line, []byte(begins)) {
		return -1
	}
	at := space(line, len(begins)) // other programs write a blank
	if at == len(line) || line[at] != '"' {
		return -1
	}
	return at + 1
}

// afterCompose returns the position after "NAME | ", or -1.
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

// afterPod returns the position after "[pod/NAME/CONTAINER] ", or -1.
func afterPod(line []byte) int {
	if !bytes.HasPrefix(line, []byte("[pod/")) {
		return -1
	}
	n := bytes.Index(line[:min(len(line), maxSyslogPrefix)], []byte("] "))
	if n < 0 {
		return -1
	}
	return n + 2
}

// afterStern returns the position after "POD CONTAINER ", or "NAMESPACE POD CONTAINER " of
// stern -A, or -1 (stern, cmd/cmd.go, generateTemplate). Pod names contain a -. Container
// names have no dot: a word with a dot is a virtual host.
func afterStern(line []byte) int {
	at := 0
	var words [3][]byte
	var ends [3]int
	n := 0
	for ; n < len(words); n++ {
		end := bytes.IndexByte(line[at:min(len(line), at+maxAddress)], ' ')
		if end <= 0 || !dnsWord(line[at:at+end]) || isAddress(line[at:at+end]) {
			break
		}
		words[n] = line[at : at+end]
		at += end + 1
		ends[n] = at
	}
	is := func(pod, container int) bool {
		return container < n && bytes.IndexByte(words[pod], '-') > 0 && bytes.IndexByte(words[container], '.') < 0
	}
	switch {
	case is(1, 2):
		return ends[2]
	case is(0, 1):
		return ends[1]
	}
	return -1
}

// inMember returns the position of the string in a top-level member, or -1.
func inMember(line []byte, name string) int {
	at := space(line, 0)
	if at == len(line) || line[at] != '{' {
		return -1
	}
	var k jsonScanner
	for at = space(line, at+1); at < len(line) && line[at] == '"'; at = space(line, at+1) {
		end := stringEnd(line, at)
		if end < 0 {
			return -1
		}
		is := string(line[at+1:end-1]) == name
		if at = space(line, end); at == len(line) || line[at] != ':' {
			return -1
		}
		at = space(line, at+1)
		if is {
			if at == len(line) || line[at] != '"' {
				return -1
			}
			return at + 1
		}
		if at = k.value(line, at, nil, nil, depth); at < 0 {
			return -1
		}
		if at = space(line, at); at == len(line) || line[at] != ',' {
			return -1
		}
	}
	return -1
}

// plainWord reports whether a text consists of letters, digits, -, _, /, . and @.
func plainWord(text []byte) bool { return plainWordEnd(text) == len(text) }

// plainWordEnd returns the length of the plain word at the beginning of a text.
func plainWordEnd(text []byte) int {
	for i, c := range text {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '/', c == '.', c == '@':
		default:
			return i
		}
	}
	return len(text)
}

// dnsWord reports whether a text consists of lower-case letters, digits, - and ., like names
// in Kubernetes.
func dnsWord(text []byte) bool {
	for _, c := range text {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return len(text) > 0 && text[0] != '-' && text[0] != '.'
}
