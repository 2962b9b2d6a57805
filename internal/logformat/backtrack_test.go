package logformat

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// TestScanBacktrack: lines that the fast path splits incorrectly.
func TestScanBacktrack(t *testing.T) {
	for _, c := range []struct {
		format, line string
		want         map[string]string // nil: not in the format
	}{
		// Apache escapes quotes.
		{`%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D`, `::1 - john doe [18/Mar/2012:04:02:25 +0000] "GET /" x" 200 5 "a" "b" 17`, nil},
		{`%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`, `::1 - - [18/Mar/2012:04:02:25 +0000] "GET / HTTP/1.1" 200 5 "a" "b" "c"`, nil},
		{`%v:%p %h %s`, `::1:80:443 192.0.2.1 200`, map[string]string{"host": "::1:80", "port": "443"}},
		{`%h %s %b`, `a 200 x`, nil},
		{`%h %s %b`, `a b c 200 -`, nil},
		{`%u %s %b`, `a b c 200 -`, map[string]string{"user": "a b c", "bytes": "-"}},
		{`%{%d/%B/%Y %I:%M %p}t %h %s`, `01/September/2012 11:05 PM ::1 200`, map[string]string{"time": "01/September/2012 11:05 PM"}},
	} {
		f, err := Apache(c.format)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == nil {
			if l := f.Rescan([]byte(c.line), make([]Span, len(f.Fields))); l != BadLine {
				t.Errorf("%s reads %q", c.format, c.line)
			}
			continue
		}
		got := rescanned(t, f, c.line)
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s, %s: %s is %q, want %q", c.format, c.line, name, got[name], want)
			}
		}
	}
	f, err := Nginx(`$remote_addr $upstream_response_time $request_time $status`)
	if err != nil {
		t.Fatal(err)
	}
	got := rescanned(t, f, "::1 0.010, 0.002 : 0.1, - 0.120 200")
	if got["upstream_duration"] != "0.010, 0.002 : 0.1, -" || got["duration"] != "0.120" {
		t.Errorf("%q", got)
	}
}

func rescanned(t *testing.T, f *Format, line string) map[string]string {
	t.Helper()
	spans := make([]Span, len(f.Fields))
	if l := f.Rescan([]byte(line), spans); l != RequestLine {
		t.Fatalf("%s: %q is %d", f.Source, line, l)
	}
	out := map[string]string{}
	for i, field := range f.Fields {
		out[field.Name] = string(spans[i].Of([]byte(line)))
	}
	return out
}

// TestScanBacktrackIsLinear: lines of separators, which require trying every
// split, take linear time. With quadratic time these took hours.
func TestScanBacktrackIsLinear(t *testing.T) {
	formats := map[string]func() (*Format, error){
		"upstreams": func() (*Format, error) {
			return Nginx(`$remote_addr $upstream_response_time $upstream_connect_time $upstream_header_time $request_time $status`)
		},
		"texts":   func() (*Format, error) { return Apache(`%h %u %{a}i %{b}i %{c}i %{d}i %{e}i %{f}i %s`) },
		"numbers": func() (*Format, error) { return Apache(`%s %b %B %I %O %S %D %{ms}T %k %h`) },
		"times":   func() (*Format, error) { return Apache(`%{%H}t %{%d/%b/%Y %T}t %h %{end:%A %B %d %Y %T}t %s`) },
	}
	maps.Copy(formats, Named)
	const size = 128 << 10
	for name, compile := range formats {
		f, err := compile()
		if err != nil {
			t.Fatal(err)
		}
		if f.Joined() {
			continue
		}
		for _, unit := range []string{" ", `" `, "1 ", "1, ", "1:", "0.1 : ", "- ", `" "`, "[", `\`, `\"`, "a ", "{ ", "18/Mar/2012:04:02:25 +0000 ", `1 "`} {
			head := ""
			if strings.HasPrefix(name, "haproxy") {
				head = "haproxy[1]: "
			}
			line := []byte(head + strings.Repeat(unit, size/len(unit)+1)[:size-len(head)-1] + "\x01")
			begin := time.Now()
			f.Scan(line, make([]Span, len(f.Fields)))
			f.Rescan(line, make([]Span, len(f.Fields)))
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("%s: %d bytes of %q took %s", name, size, unit, took)
			}
		}
	}
}
