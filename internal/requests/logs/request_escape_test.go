package logs

import (
	"testing"

	"fettle.dev/fettle/internal/logformat"
)

// TestEscaped tests that conditions and groups use the text that the client sent, however the
// server wrote it.
func TestEscaped(t *testing.T) {
	for _, c := range []struct {
		language, format, line string
	}{
		{"apache", `%h %t "%r" %>s "%{User-Agent}i"`, `::1 [18/Mar/2012:04:02:25 +0200] "GET /a\"b?x=\xc3\xa4 HTTP/1.1" 200 "q\"\\ \xe4"`},
		{"nginx", `$remote_addr [$time_local] "$request" $status "$http_user_agent"`, `::1 [18/Mar/2012:04:02:25 +0200] "GET /a\x22b?x=\xC3\xA4 HTTP/1.1" 200 "q\x22\x5C \xE4"`},
		{"nginx", `escape=json $remote_addr [$time_local] "$request" $status "$http_user_agent"`, `::1 [18/Mar/2012:04:02:25 +0200] "GET /a\"b?x=ä HTTP/1.1" 200 "q\"\\ ` + "\xe4" + `"`},
	} {
		f, err := logformat.Languages[c.language](c.format)
		if err != nil {
			t.Fatal(err)
		}
		r := read(t, f, c.line)
		for name, want := range map[string]string{"path": `/a"b`, "query": "x=ä", "parameter:x": "ä", "user_agent": "q\"\\ \xe4", "url": `/a"b?x=ä`, "method": "GET"} {
			d, err := Named(f, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.Of(r)); got != want {
				t.Errorf("%s: %s is %q, want %q", c.line, name, got, want)
			}
		}
		w, err := ParseWhere(f, `user_agent startsWith "q\"\\" and path == "/a\"b" and query matches "^x=[äöü]$"`, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !w(r) {
			t.Errorf("%s does not fulfil the condition", c.line)
		}
	}
	f := logformat.JSON([][]byte{[]byte(`{"time":"2026-11-20T00:00:00Z","request_uri":"/","status":200}`)}, nil)
	r := read(t, f, `{"time":"2026-11-20T00:00:00Z","request_uri":"\/puppet\/v3\/catalog\/a\u002eb?environment=\u00e4","status":200}`)
	if p := r.Puppet(); string(p.Certname()) != "a.b" || string(p.Environment) != "ä" {
		t.Errorf("%q, %q", p.Certname(), p.Environment)
	}
}

// TestQueryOfBlock tests that a block without "?" has no query, except with an escaped one.
func TestQueryOfBlock(t *testing.T) {
	apache, err := logformat.Languages["apache"](`%h %t "%r" %>s`)
	if err != nil {
		t.Fatal(err)
	}
	const head = `::1 [18/Mar/2012:04:02:25 +0200] `
	for _, c := range []struct {
		f                        *logformat.Format
		block, line, path, query string
	}{
		{apache, "", head + `"GET /a HTTP/1.1" 200`, "/a", ""},
		{apache, "", head + `"GET /a?b=1 HTTP/1.1" 200`, "/a", "b=1"},
		{apache, "", head + `"GET /a\x3fb=1 HTTP/1.1" 200`, "/a", "b=1"},
		{apache, head + `"GET /?b=1 HTTP/1.1" 200` + "\n", head + `"GET /a HTTP/1.1" 200`, "/a", ""},
		{logformat.JSON([][]byte{[]byte(`{"time":"2026-11-20T00:00:00Z","request_uri":"/","status":200}`)}, nil), "",
			`{"time":"2026-11-20T00:00:00Z","request_uri":"\/a\u003fb=1","status":200}`, "/a", "b=1"},
	} {
		d, r := NewReader(c.f), &Request{}
		d.Block([]byte(c.block + c.line))
		if l := d.Read([]byte(c.line), r); l != logformat.RequestLine || string(r.Path) != c.path || string(r.Query) != c.query {
			t.Errorf("%s: %v, path %q, query %q", c.line, l, r.Path, r.Query)
		}
	}
}
