package logformat

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// within checks that each field lies within its line.
func within(t *testing.T, f *Format, line []byte, spans []Span) {
	t.Helper()
	for i, s := range spans {
		if s.Start < 0 || s.Start > s.End || int(s.End) > len(line) {
			t.Fatalf("%s: %s of %q is from %d to %d", f.Name, f.Fields[i].Name, line, s.Start, s.End)
		}
	}
}

// valued evaluates the fields of a line.
func valued(f *Format, line []byte, spans []Span) {
	var clock Clock
	for i := range f.Fields {
		field := &f.Fields[i]
		text := field.Escape.Unescape(spans[i].Of(line))
		switch field.Kind {
		case Duration:
			field.Duration(text)
		case Number:
			Int(text)
		case Time:
			field.Time(text, &clock)
		}
		field.Fits(text)
	}
}

// read reads a line in every way of a format.
func read(t *testing.T, f *Format, line []byte) {
	t.Helper()
	spans := make([]Span, len(f.Fields))
	if f.Joined() {
		var j Joiner
		for one := range bytes.SplitSeq(line, []byte("\n")) {
			clear(spans)
			if out, l := j.Add(one, spans); l == RequestLine {
				within(t, f, out, spans)
				valued(f, out, spans)
			}
		}
		return
	}
	f.MayHaveEscapes(line)
	if f.Scan(line, spans) == RequestLine {
		within(t, f, line, spans)
		valued(f, line, spans)
	}
	quickly(t, f, line)
	if f.Rescan(line, spans) == RequestLine {
		within(t, f, line, spans)
		valued(f, line, spans)
		for i, s := range spans {
			if !f.Fields[i].Fits(s.Of(line)) {
				t.Fatalf("%s: %s of %q cannot be %q", f.Name, f.Fields[i].Name, line, s.Of(line))
			}
		}
	}
}

// quickly checks that the fast path and searching split a line in the same way,
// whatever follows it in memory.
func quickly(t *testing.T, f *Format, line []byte) {
	t.Helper()
	slow := *f
	slow.steps = slices.Clone(f.steps)
	for i := range slow.steps {
		slow.steps[i].quick.how = byEnd
	}
	want := make([]Span, len(f.Fields))
	l := slow.Scan(slices.Clip(bytes.Clone(line)), want)
	for _, behind := range []string{"", "\n", strings.Repeat("0123456789", 5), string(line), strings.Repeat(`"] `, 20), strings.Repeat(" ", ahead)} {
		got := make([]Span, len(f.Fields))
		whole := append(append(make([]byte, 0, len(line)+len(behind)), line...), behind...)
		if is := f.Scan(whole[:len(line)], got); is != l {
			t.Fatalf("%s: %q is %d before %q, want %d", f.Name, line, is, behind, l)
		}
		if l != RequestLine {
			continue
		}
		for i, s := range got {
			if s.Start != want[i].Start || s.End != want[i].End {
				t.Fatalf("%s: %s of %q is %q before %q, want %q", f.Name, f.Fields[i].Name, line, s.Of(line), behind, want[i].Of(line))
			}
			if n, ok := s.Int(); ok {
				if is, whole := Int(s.Of(line)); !whole || is != n {
					t.Fatalf("%s: %s of %q is %d", f.Name, f.Fields[i].Name, line, n)
				}
			}
		}
	}
}

var seedLines = []string{
	"", " ", `"`, `\`, "-",
	`192.0.2.1 - - [18/Mar/2012:04:02:25 +0000] "GET /a?b HTTP/1.1" 200 333 42741 "-" "-"`,
	`::1 - - [20/Nov/2026:23:58:28 +0000] "GET / HTTP/1.1" 200 5 "-" "curl" 0.012 0.010, 0.002 : -`,
	`Nov 20 23:58:28 localhost haproxy[14389]: 10.0.1.2:33317 [20/Nov/2026:23:58:28.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`,
	`127.0.0.1 - - [20/Nov/2026:23:58:28 +0000] "PUT /puppet-ca/v1/x HTTP/1.1" 200 0 "-" "Puppet/7.23.0" 1553 1586 -`,
	"2026-11-20T23:58:28.123Z INFO  [qtp1-35] [puppetserver] Puppet Compiled catalog for a in environment b in 0.21 seconds",
	"2026-11-20 23:58:28,123 INFO  [q] [p]  for  in environment  in seconds",
	"2026-11-20T23:58:28 [I|app|a1b2] Started GET \"/api\" for 10.0.0.1 at 2026\n2026-11-20T23:58:28 [I|app|a1b2] Processing by A#b as JSON\n2026-11-20T23:58:29 [I|app|a1b2] Completed 200 OK in 251ms (Views: 100.2ms | ActiveRecord: 50.1ms)",
	"2019-01-01 12:00:00 a1b2 [app] [I] Completed in 1ms",
	`{"time":"2026-11-20T23:58:28+00:00","request":"GET / HTTP/1.1","status":200,"a":{"b":[1,{"c":"\u00e4\\"}]},"request_time":0.012}`,
}

// FuzzCandidates: of the formats that read a line, candidates omits none.
func FuzzCandidates(f *testing.F) {
	for _, l := range seedLines {
		f.Add([]byte(l))
	}
	for _, base := range []string{`192.0.2.1 - - [18/Mar/2012:04:02:25 +0000] "GET / HTTP/1.1" 200 5`, `www.example.com 192.0.2.1 - a [18/Mar/2012:04:02:25 +0000] "GET / HTTP/1.1" 200 - "-" "a \"b" "192.0.2.2"`} {
		for _, tail := range []string{"", " 1", ` "1"`, " 1 2", " 1/2", " 1 2 3", " 1 2 3 4"} {
			f.Add([]byte(base + tail))
		}
	}
	all := map[string]*Format{}
	for _, c := range candidates(nil) {
		all[c.text] = parseCandidate(c.text)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) > 1<<10 || bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		lines := [][]byte{line}
		tried := map[string]bool{}
		for _, c := range candidates(lines) {
			tried[c.text] = true
		}
		for text, one := range all {
			if n, _ := one.reads(lines); n > 0 && !tried[text] {
				t.Errorf("%s reads %q and is not tried", text, line)
			}
		}
	})
}

// FuzzScan: a line in every named format, and in the detected one.
func FuzzScan(f *testing.F) {
	for _, l := range seedLines {
		f.Add([]byte(l))
	}
	var formats []*Format
	for _, make := range Named {
		one, err := make()
		if err != nil {
			f.Fatal(err)
		}
		formats = append(formats, one)
	}
	for _, c := range candidates(nil) {
		one, err := Parse(c.text)
		if err != nil {
			f.Fatal(err)
		}
		formats = append(formats, one)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) > MaxLine {
			return
		}
		for _, one := range formats {
			read(t, one, line)
		}
		if found, err := Detect(line, map[string]int64{"request_time": 1e9}); err == nil {
			for one := range bytes.SplitSeq(line, []byte("\n")) {
				read(t, found, one)
			}
		}
	})
}

// FuzzCompile: formats of all languages, and a line in each.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		puppetApache, `%!200,304>{Referer}i%%\n\t\\ %{%F %T}t.%{usec_frac}t%{%z}t`, `%{begin:msec}t %{end:%d/%B/%Y %I:%M:%S %p %j %s}t %^FB %{x}^ti`, `%{`, `%^F`, `%`,
		NginxCombined, "escape=json {\"a\":\"$b\",\"c\":${d}}", "escape=", "$", "${", "$a$b",
		haproxyHTTP, haproxyCLF, HAProxyFormats["httpslog"], `%{+Q,+E}o %[capture.req.hdr(0),lower] %{-Q}hr %{+Q}hs`, `%[`, `%{`,
		puppetServer, `%-5h{x} %t{yyyy-MM-dd'T'HH:mm:ss,SSSXXX} %n`, "common",
	} {
		f.Add(text, seedLines[5])
	}
	f.Fuzz(func(t *testing.T, text, line string) {
		if len(text) > 4096 || len(line) > 64<<10 {
			return
		}
		for language, compile := range Languages {
			one, err := compile(text)
			if err != nil {
				if r, ok := err.(*FormatError); !ok || r.At < 0 || r.At > len(r.Text) || r.Excerpt() == "" && r.At < len(r.Text) {
					t.Fatalf("%s %q: %v", language, text, err)
				}
				continue
			}
			names := map[string]bool{}
			for _, field := range one.Fields {
				if names[field.Name] {
					t.Fatalf("%s %q: two fields are called %s", language, text, field.Name)
				}
				names[field.Name] = true
			}
			read(t, one, []byte(line))
		}
	})
}

// FuzzPlain: unescaping gives no zero byte, and reverses the escapes of servers.
func FuzzPlain(f *testing.F) {
	f.Add([]byte(`\"\\\x00\u0000\ud83d\ude00#22`), []byte("a\"\\\nä"))
	f.Fuzz(func(t *testing.T, written, sent []byte) {
		for _, e := range []Escape{Verbatim, Backslash, JSONString, Hash, Brackets} {
			if out := e.Unescape(written); bytes.Count(out, []byte{0}) != bytes.Count(written, []byte{0}) {
				t.Fatalf("%d: %q has zero bytes: %q", e, written, out)
			}
		}
		if bytes.IndexByte(sent, 0) >= 0 {
			return
		}
		var apache, nginx, haproxy []byte
		for _, c := range sent {
			switch {
			case c == '"' || c == '\\':
				apache = append(apache, '\\', c)
			case c == '\n':
				apache = append(apache, `\n`...)
			case c < 32 || c > 126:
				apache = append(apache, '\\', 'x', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
			default:
				apache = append(apache, c)
			}
			if c < 32 || c > 126 || c == '"' || c == '\\' {
				nginx = append(nginx, '\\', 'x', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
			} else {
				nginx = append(nginx, c)
			}
			if c < 32 || c > 126 || c == '"' || c == '#' {
				haproxy = append(haproxy, '#', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
			} else {
				haproxy = append(haproxy, c)
			}
		}
		for _, w := range []struct {
			e    Escape
			text []byte
		}{{Backslash, apache}, {Backslash, nginx}, {Hash, haproxy}} {
			if got := w.e.Unescape(w.text); !bytes.Equal(got, sent) {
				t.Fatalf("%q is read as %q, was %q", w.text, got, sent)
			}
		}
	})
}
