package logformat

import (
	"fmt"
	"strings"
)

// apacheNames lists the formats that Debian and Red Hat configure under Apache's nicknames.
// They are used for logs without their configuration.
var apacheNames = []struct{ name, format string }{
	{"Apache's vhost_combined log", `%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"`},
	{"the combined log", `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`},
	{"the common log", ApacheCommon},
}

// ApacheCommon is the default format without a LogFormat, and the format with the nickname CLF
// (mod_log_config.c, DEFAULT_LOG_FORMAT).
const ApacheCommon = `%h %l %u %t "%r" %>s %b`

// apacheDirectives are the directives of Apache httpd 2.4 without an argument
// (mod_log_config, "Custom Log Formats"; %I, %O, %S of mod_logio).
var apacheDirectives = map[byte]Field{
	'a': {Name: FieldClient, Kind: Address}, 'A': {Name: "server_address"}, 'B': {Name: FieldBytes, Kind: Number}, 'b': {Name: FieldBytes, Kind: Number},
	'D': {Name: FieldDuration, Kind: Duration, Unit: 1e3, Digits: true}, 'f': {Name: "file"}, 'h': {Name: FieldClient, Kind: Address, Names: true}, 'H': {Name: FieldProtocol},
	'k': {Name: "keepalive_requests", Kind: Number}, 'l': {Name: "ident", Kind: Ident}, 'L': {Name: "error_log_id"}, 'm': {Name: FieldMethod},
	'p': {Name: "port", Kind: Number}, 'P': {Name: "pid"}, 'q': {Name: FieldQuery}, 'r': {Name: FieldRequest, Kind: Request}, 'R': {Name: "handler"},
	's': {Name: FieldStatus, Kind: Number}, 'T': {Name: FieldDuration, Kind: Duration, Unit: 1e9, Digits: true},
	'u': {Name: FieldUser}, 'U': {Name: FieldPath}, 'v': {Name: FieldHost, Kind: Host}, 'V': {Name: FieldHost, Kind: Host}, 'X': {Name: "connection_end"},
	'I': {Name: "bytes_in", Kind: Number}, 'O': {Name: FieldBytes, Kind: Number}, 'S': {Name: "bytes_both", Kind: Number},
}

// apacheArguments are the directives that take a name in braces, with the
// prefix of the field's name.
var apacheArguments = map[string]string{
	"C": "cookie", "e": "env", "i": "in", "n": "note", "o": "out", "x": "ssl", "c": "ssl", "^ti": "trailer_in", "^to": "trailer_out",
}

// Apache compiles a LogFormat of httpd 2.4 (mod_log_config). text is the format without the
// outer quotes and without the backslashes before inner quotes.
func Apache(text string) (*Format, error) {
	const what = "LogFormat"
	var pieces []piece
	for i := 0; i < len(text); {
		switch {
		case text[i] == '\\' && i+1 < len(text) && strings.IndexByte(`\rnt`, text[i+1]) >= 0:
			c := "\\\r\n\t"[strings.IndexByte(`\rnt`, text[i+1])]
			pieces, i = append(pieces, piece{lit: string(c), at: i}), i+2
			continue
		case text[i] != '%':
			pieces, i = append(pieces, piece{lit: text[i : i+1], at: i}), i+1
			continue
		case strings.HasPrefix(text[i:], "%%"):
			pieces, i = append(pieces, piece{lit: "%", at: i}), i+2
			continue
		}
		d, n, err := parseApacheDirective(text[i:])
		if err != nil {
			return nil, formatError(what, text, i, err.Error())
		}
		field, before, after, err := d.field()
		if err != nil {
			return nil, formatError(what, text, i, err.Error())
		}
		field.Source, field.Escape = text[i:i+n], Backslash
		if before != "" {
			pieces = append(pieces, piece{lit: before, at: i})
		}
		pieces = append(pieces, piece{field: &field, at: i})
		if after != "" {
			pieces = append(pieces, piece{lit: after, at: i})
		}
		i += n
	}
	return compile(&Format{Name: "Apache's LogFormat"}, what, text, joinTimes(pieces))
}

// apacheDirective is one directive, such as %!200,304>{Referer}i.
type apacheDirective struct {
	last     bool // >: the final request after internal redirects
	argument string
	letter   string // may be ^ti, ^to or ^FB
}

func parseApacheDirective(text string) (d apacheDirective, n int, err error) {
	for n = 1; n < len(text); n++ {
		switch c := text[n]; {
		case c == '<':
			d.last = false
		case c == '>':
			d.last = true
		case c == '!' || c == ',' || c >= '0' && c <= '9': // logged only for these statuses; otherwise -
		case c == '{':
			end := strings.IndexByte(text[n:], '}')
			if end < 0 {
				return d, n, fmt.Errorf("{ is not closed")
			}
			d.argument = text[n+1 : n+end]
			n += end
		case c == '^':
			if n+2 >= len(text) {
				return d, n, fmt.Errorf("nothing follows ^")
			}
			d.letter = text[n : n+3]
			return d, n + 3, nil
		default:
			d.letter = string(c)
			return d, n + 1, nil
		}
	}
	return d, n, fmt.Errorf("the letter of the directive is missing after %%")
}

// field returns the field of a directive, and the texts that the server writes before and
// after it.
func (d apacheDirective) field() (f Field, before, after string, err error) {
	word := strings.ToLower(d.argument)
	switch d.letter {
	case "^FB": // time to the first byte of the response, with LogIOTrackTTFB
		return Field{Name: "first_byte", Kind: Duration, Unit: 1e3, Digits: true}, "", "", nil
	case "a", "h":
		if d.argument == "c" { // address of the connection, not from X-Forwarded-For
			return Field{Name: "peer", Kind: Address, Names: d.letter == "h"}, "", "", nil
		}
	case "p":
		switch word {
		case "canonical", "local", "remote":
			return Field{Name: name("port", word), Kind: Number}, "", "", nil
		case "":
		default:
			return f, "", "", fmt.Errorf("%%{...}p must be canonical, local or remote")
		}
	case "P":
		switch word {
		case "pid", "tid", "hextid":
			return Field{Name: word}, "", "", nil
		case "":
		default:
			return f, "", "", fmt.Errorf("%%{...}P must be pid, tid or hextid")
		}
	case "T":
		unit, ok := map[string]int64{"": 1e9, "s": 1e9, "ms": 1e6, "us": 1e3}[word]
		if !ok {
			return f, "", "", fmt.Errorf("%%{...}T must be s, ms or us")
		}
		return Field{Name: FieldDuration, Kind: Duration, Unit: unit, Digits: true}, "", "", nil
	case "t":
		return d.timeField()
	}
	if kind, ok := apacheArguments[d.letter]; ok {
		if d.argument == "" {
			return f, "", "", fmt.Errorf("%%%s requires a name in braces before it", d.letter)
		}
		n := name(kind, d.argument)
		switch kind + " " + word {
		case "in referer", "in referrer":
			n = "referer"
		case "in user-agent":
			n = "user_agent"
		case "in x-forwarded-for":
			n = "forwarded_for"
		case "ssl ssl_client_s_dn_cn":
			n = "certname"
		}
		return Field{Name: n}, "", "", nil
	}
	if len(d.letter) == 1 {
		if f, ok := apacheDirectives[d.letter[0]]; ok {
			if d.letter == "s" && !d.last {
				f.Name = "status_first"
			}
			return f, "", "", nil
		}
	}
	return f, "", "", fmt.Errorf("unknown directive for Apache httpd 2.4 (mod_log_config, mod_logio, mod_ssl)")
}

// clf is the strftime pattern of %t, without the brackets.
const clf = "%d/%b/%Y:%H:%M:%S %z"

// timeField returns the field of %t or %{FORMAT}t. FORMAT is a strftime pattern, sec,
// msec, usec, msec_frac or usec_frac, optionally with the prefix begin: or end:.
func (d apacheDirective) timeField() (f Field, before, after string, err error) {
	argument, end := d.argument, false
	if rest, ok := strings.CutPrefix(argument, "begin"); ok && (rest == "" || rest[0] == ':') {
		argument = strings.TrimPrefix(rest, ":")
	} else if rest, ok := strings.CutPrefix(argument, "end"); ok && (rest == "" || rest[0] == ':') {
		argument, end = strings.TrimPrefix(rest, ":"), true
	}
	f = Field{Name: FieldTime, Kind: Time, atEnd: end}
	var p pattern
	switch argument {
	case "":
		argument, before, after = clf, "[", "]"
	case "sec":
		argument = "%s"
	case "msec":
		f.Layout, f.Unit = Unix, 1e6
		return f, "", "", nil
	case "usec":
		f.Layout, f.Unit = Unix, 1e3
		return f, "", "", nil
	case "msec_frac":
		p.add(item{letter: 'f'})
	case "usec_frac":
		p.add(item{letter: 'F'})
	}
	if p.items == nil {
		var ok bool
		if p, ok = strftime(argument); !ok {
			return f, "", "", fmt.Errorf("%%{...}t must be a strftime(3) format, sec, msec, usec, msec_frac or usec_frac")
		}
	}
	f.asTime(&p)
	return f, before, after, nil
}

// asTime makes the field a time with a pattern. Without a date or a minute in the pattern it
// remains text.
func (f *Field) asTime(p *pattern) {
	f.Layout, f.pattern = Strftime, p
	if !p.hasMinute() {
		f.Kind, f.Name = Text, "time_part"
		return
	}
	f.Kind, f.Name = Time, FieldTime
	if c, _ := strftime(clf); p.same(&c) { // most logs: the fast path
		f.Layout = CLF
	}
}

func (p *pattern) same(q *pattern) bool {
	if len(p.items) != len(q.items) {
		return false
	}
	for i := range p.items {
		if p.items[i] != q.items[i] {
			return false
		}
	}
	return true
}

// joinTimes merges the parts of a time that several directives write, with at most a few bytes
// between them: %{%F %T}t.%{msec_frac}t%{%z}t.
func joinTimes(pieces []piece) []piece {
	out := pieces[:0:0]
	for _, p := range pieces {
		out = append(out, p)
		if p.field == nil || p.field.pattern == nil {
			continue
		}
		i, between := len(out)-2, ""
		for ; i >= 0 && out[i].field == nil && len(between) < 4; i-- {
			between = out[i].lit + between
		}
		if i < 0 || out[i].field == nil || strings.Contains(between, `"`) {
			continue
		}
		first := out[i].field
		if first.pattern == nil || first.atEnd != p.field.atEnd || first.pattern.has&p.field.pattern.has != 0 || first.pattern.hasMinute() && p.field.pattern.hasMinute() {
			continue
		}
		joined := pattern{}
		joined.join(*first.pattern)
		if between != "" {
			joined.add(item{lit: between})
		}
		joined.join(*p.field.pattern)
		one := *first
		one.Source += between + p.field.Source
		one.asTime(&joined)
		out = append(out[:i], piece{field: &one, at: out[i].at})
	}
	return out
}
