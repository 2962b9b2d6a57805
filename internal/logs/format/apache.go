package format

import (
	"fmt"
	"strings"
)

// apacheNames are Apache's nicknames for its formats as Debian's and Red Hat's
// configuration define them, for a log without its configuration.
var apacheNames = []struct{ name, format string }{
	{"Apache's vhost_combined log", `%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"`},
	{"the combined log", `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`},
	{"the common log", `%h %l %u %t "%r" %>s %b`},
}

// plain are the directives of Apache httpd 2.4 without an argument (mod_log_config,
// "Custom Log Formats"; %I, %O, %S of mod_logio).
var plain = map[byte]Field{
	'a': {Name: FieldClient}, 'A': {Name: "server_address"}, 'B': {Name: FieldBytes, Kind: Number}, 'b': {Name: FieldBytes, Kind: Number},
	'D': {Name: FieldDuration, Kind: Duration, Unit: 1e3}, 'f': {Name: "file"}, 'h': {Name: FieldClient}, 'H': {Name: FieldProtocol},
	'k': {Name: "keepalive_requests", Kind: Number}, 'l': {Name: "ident"}, 'L': {Name: "error_log_id"}, 'm': {Name: FieldMethod},
	'p': {Name: "port", Kind: Number}, 'P': {Name: "pid"}, 'q': {Name: FieldQuery}, 'r': {Name: FieldRequest, Kind: Request}, 'R': {Name: "handler"},
	's': {Name: FieldStatus, Kind: Number}, 't': {Name: FieldTime, Kind: Time}, 'T': {Name: FieldDuration, Kind: Duration, Unit: 1e9},
	'u': {Name: FieldUser}, 'U': {Name: FieldPath}, 'v': {Name: FieldHost}, 'V': {Name: FieldHost}, 'X': {Name: "connection_end"},
	'I': {Name: "bytes_in", Kind: Number}, 'O': {Name: FieldBytes, Kind: Number}, 'S': {Name: "bytes_both", Kind: Number},
}

// named are what stands behind {NAME}.
var named = map[string]string{
	"C": "cookie", "e": "env", "i": "in", "n": "note", "o": "out", "x": "ssl", "c": "ssl", "^ti": "trailer_in", "^to": "trailer_out",
}

// Apache compiles a LogFormat of httpd 2.4 (mod_log_config): its text without the outer
// quotes, with \" and \t as httpd reads them.
func Apache(text string) (*Format, error) {
	return apache(&Format{Name: "Apache's LogFormat"}, text, map[string]int64{"": 1e9, "s": 1e9, "ms": 1e6, "us": 1e3}, plain)
}

func apache(f *Format, text string, units map[string]int64, plain map[byte]Field) (*Format, error) {
	const what = "LogFormat"
	var pieces []piece
	for i := 0; i < len(text); {
		if text[i] == '\\' && i+1 < len(text) {
			c := text[i+1]
			switch c {
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			}
			pieces, i = append(pieces, piece{lit: string(c), at: i}), i+2
			continue
		}
		if text[i] != '%' {
			pieces, i = append(pieces, piece{lit: text[i : i+1], at: i}), i+1
			continue
		}
		d, n, err := directive(text[i:])
		if err != nil {
			return nil, refuse(what, text, i, err.Error())
		}
		if d.letter == "%" {
			pieces, i = append(pieces, piece{lit: "%", at: i}), i+n
			continue
		}
		field, before, after, err := d.field(units, plain)
		if err != nil {
			return nil, refuse(what, text, i, err.Error())
		}
		field.Asked = text[i : i+n]
		if before != "" {
			pieces = append(pieces, piece{lit: before, at: i})
		}
		pieces = append(pieces, piece{field: &field, at: i})
		if after != "" {
			pieces = append(pieces, piece{lit: after, at: i})
		}
		i += n
	}
	f, err := compile(f, what, text, pieces)
	if err != nil {
		return nil, err
	}
	// %{begin:...}t is the default: when the request came.
	for i := range f.Fields {
		if f.Fields[i].Name == FieldTime && strings.Contains(f.Fields[i].Asked, "{end:") {
			f.TimeIsEnd = true
		}
	}
	return f, nil
}

// asked is one directive: %!200,304>{Referer}i.
type asked struct {
	first    bool // <: of the first request, where there was an internal redirect
	last     bool // >
	argument string
	braces   bool
	letter   string // with ^ti, ^to and ^FB as they are
}

func directive(text string) (d asked, n int, err error) {
	for n = 1; n < len(text); n++ {
		switch c := text[n]; {
		case c == '<':
			d.first = true
		case c == '>':
			d.last = true
		case c == '!' || c == ',' || c >= '0' && c <= '9': // for these statuses only; else -
		case c == '{':
			end := strings.IndexByte(text[n:], '}')
			if end < 0 {
				return d, n, fmt.Errorf("{ without }")
			}
			d.argument, d.braces = text[n+1:n+end], true
			n += end
		case c == '^':
			if n+2 >= len(text) {
				return d, n, fmt.Errorf("ends after ^")
			}
			d.letter = text[n : n+3]
			return d, n + 3, nil
		default:
			d.letter = string(c)
			return d, n + 1, nil
		}
	}
	return d, n, fmt.Errorf("%% without a letter")
}

// field is what a directive stands for, and what the server writes around it.
func (d asked) field(units map[string]int64, plain map[byte]Field) (f Field, before, after string, err error) {
	if d.letter == "^FB" { // microseconds until the first byte of the answer
		return Field{Name: "first_byte", Kind: Duration, Unit: 1e3}, "", "", nil
	}
	if d.braces {
		switch d.letter {
		case "a":
			if d.argument == "c" {
				return Field{Name: "peer"}, "", "", nil // of the connection, not of X-Forwarded-For
			}
		case "h":
			if d.argument == "c" {
				return Field{Name: "peer"}, "", "", nil
			}
		case "p":
			return Field{Name: name("port", d.argument)}, "", "", nil
		case "P":
			return Field{Name: name(d.argument)}, "", "", nil
		case "T":
			unit, ok := units[d.argument]
			if !ok {
				return f, "", "", fmt.Errorf("%%{%s}T is s, ms or us", d.argument)
			}
			return Field{Name: FieldDuration, Kind: Duration, Unit: unit}, "", "", nil
		case "t":
			return d.time()
		}
		if kind, ok := named[d.letter]; ok {
			n := name(kind, d.argument)
			switch strings.ToLower(kind + " " + d.argument) {
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
	}
	if len(d.letter) == 1 {
		if f, ok := plain[d.letter[0]]; ok {
			if d.letter == "s" && !d.last {
				f.Name = "status_first"
			}
			if d.letter == "t" && f.Kind == Time && f.Layout == CLF && !d.braces {
				return f, "[", "]", nil
			}
			return f, "", "", nil
		}
	}
	return f, "", "", fmt.Errorf("no directive of Apache httpd 2.4 is written so")
}

// time is %{FORMAT}t: the formats that are one time by themselves.
func (d asked) time() (f Field, before, after string, err error) {
	argument := d.argument
	for _, p := range []string{"begin:", "end:"} {
		argument = strings.TrimPrefix(argument, p)
	}
	f = Field{Name: FieldTime, Kind: Time}
	switch argument {
	case "sec":
		f.Layout, f.Unit = Unix, 1e9
	case "msec":
		f.Layout, f.Unit = Unix, 1e6
	case "usec":
		f.Layout, f.Unit = Unix, 1e3
	case "msec_frac", "usec_frac":
		return Field{Name: "time_fraction"}, "", "", nil
	case "%d/%b/%Y:%H:%M:%S %z", "%d/%b/%Y:%T %z":
	case "[%d/%b/%Y:%H:%M:%S %z]", "[%d/%b/%Y:%T %z]":
		return f, "[", "]", nil
	case "%Y-%m-%dT%H:%M:%S%z", "%FT%T%z", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%F %T", "%FT%T", "%Y-%m-%d %T", "%Y-%m-%dT%T", "%Y-%m-%d %H:%M:%S %z", "%F %T %z":
		f.Layout = ISO
	case "%s":
		f.Layout, f.Unit = Unix, 1e9
	default:
		return Field{Name: name("time", argument)}, "", "", nil
	}
	return f, "", "", nil
}
