package logs

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/logformat"
)

func combined(t *testing.T) *logformat.Format {
	t.Helper()
	f, err := logformat.Apache(`%h %l %u %t "%r" %>s %b %D "%{X-Forwarded-For}i"`)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func line(client, request, status, took, forwarded string) string {
	return client + ` - - [18/Mar/2012:04:02:25 +0200] "` + request + `" ` + status + ` 5 ` + took + ` "` + forwarded + `"`
}

func read(t *testing.T, f *logformat.Format, text string) *Request {
	t.Helper()
	var r Request
	if l := NewReader(f).Read([]byte(text), &r); l != logformat.RequestLine {
		t.Fatalf("%q is %d", text, l)
	}
	return &r
}

// TestDimensions tests both generations of Puppet's URLs, and the requestor behind a proxy.
func TestDimensions(t *testing.T) {
	f := combined(t)
	for _, c := range []struct {
		line string
		want string // dimension=text ...
	}{
		{line("192.0.2.1", "GET /environment1/file_metadata/modules/logrotate/etc/logrotate.conf HTTP/1.1", "200", "42741", "-"),
			"method=GET environment=environment1 indirector=file_metadata resource=file_metadata/modules/logrotate/etc/logrotate.conf requestor=192.0.2.1 path:2=/environment1/file_metadata protocol=HTTP/1.1 class=2xx status=200"},
		{line("127.0.0.1", "POST /puppet/v3/catalog/agent1.test?environment=production&x=1 HTTP/1.1", "503", "-", "192.0.2.9"),
			"method=POST environment=production indirector=catalog resource=catalog/agent1.test requestor=agent1.test class=5xx parameter:x=1 query=environment=production&x=1"},
		{line("127.0.0.1", "GET /puppet/v3/file_metadata/modules/a/b?environment=dev HTTP/1.1", "200", "1", "192.0.2.9, 10.0.0.1"),
			"environment=dev indirector=file_metadata resource=file_metadata/modules/a/b requestor=192.0.2.9"},
		{line("127.0.0.1", "GET /puppet-ca/v1/certificate_revocation_list/ca HTTP/1.0", "200", "1", "-"), "indirector=certificate_revocation_list requestor=127.0.0.1 environment="},
		{line("::1", "GET /index.html HTTP/1.1", "200", "1", "-"), "indirector= environment= resource= path=/index.html requestor=::1"},
		{line("::1", "-", "408", "1", "-"), "method= url=- status=408"},
		{line("::1", `\x16\x03\x01`, "400", "1", "-"), "method= url=\x16\x03\x01"},
	} {
		r := read(t, f, c.line)
		for w := range strings.FieldsSeq(c.want) {
			name, want, _ := strings.Cut(w, "=")
			d, err := Named(f, name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.Of(r)); got != want {
				t.Errorf("%s: %s is %q, want %q", c.line, name, got, want)
			}
		}
	}
	r := read(t, f, line("::1", "GET / HTTP/1.1", "200", "42741", "-"))
	if r.Time != 1332036145e6 || r.Duration != 42741 || r.Status != 200 {
		t.Errorf("time %d, duration %d, status %d", r.Time, r.Duration, r.Status)
	}
	for _, name := range []string{"statuss", "path:0", "controller", "parameter:"} {
		if _, err := Named(f, name, nil); err == nil {
			t.Errorf("%s is a dimension", name)
		}
	}
}

func TestWhere(t *testing.T) {
	f := combined(t)
	r := read(t, f, line("192.0.2.1", "GET /puppet/v3/catalog/agent1?environment=production HTTP/1.1", "503", "1500000", "-"))
	for text, want := range map[string]bool{
		`status >= 500 and indirector == "catalog"`:                    true,
		`status < 500 or duration > "1s"`:                              true,
		`duration > 1.5`:                                               false,
		`duration >= 1.5 && not (method == "PUT")`:                     true,
		`status in [500, 503]`:                                         true,
		`requestor in ["a", "b"]`:                                      false,
		`path startsWith "/puppet/v3/" and resource endsWith "agent1"`: true,
		`query contains "prod" and path matches "^/[a-z]+/v\\d/"`:      true,
		`bytes != 5`: false,
	} {
		w, err := ParseWhere(f, text, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if w(r) != want {
			t.Errorf("%s is %v", text, !want)
		}
	}
	for text, want := range map[string]string{
		`status`:              "want a condition",
		`500 < status`:        "column 1 (500): want the name of a dimension",
		`statsu == 5`:         `did you mean "status"?`,
		`method > "a"`:        "is a string; want ==",
		`method == 5`:         "in quotes",
		`duration > "a"`:      "is a duration",
		`status contains "5"`: "is a number",
		`path matches "("`:    "missing closing",
		`status >= `:          "the condition ends too early",
		`status = 200`:        "column 8 (=): use == to compare",
		`path ~ "x"`:          "use matches",
		`status > 1 foo`:      "column 12 (foo): want a condition",
		`status in 5`:         "want a list",
		`len(method) > 2`:     "want the name of a dimension",
		`all([1], # > 0)`:     "want a condition",
	} {
		if _, err := ParseWhere(f, text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestTimeOfNoYear tests that a time in another unit than the format's is rejected, because a
// report could not represent it.
func TestTimeOfNoYear(t *testing.T) {
	f, err := logformat.Apache(`%h %{end:sec}t %D`)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]logformat.LineKind{
		"::1 1332043345 1": logformat.RequestLine, "::1 1332043345000 1": logformat.BadLine, "::1 999999999999 1": logformat.BadLine, "::1 253402300799 1": logformat.RequestLine,
	} {
		var r Request
		if l := NewReader(f).Read([]byte(text), &r); l != want {
			t.Errorf("%s is %d", text, l)
		}
	}
	if f, err = logformat.Nginx(`$remote_addr [$time_local] $request_time`); err != nil {
		t.Fatal(err)
	}
	var r Request
	if l := NewReader(f).Read([]byte("::1 [01/Jan/0001:00:00:00 +0000] 1.000"), &r); l != logformat.BadLine {
		t.Errorf("a second before the year 1 is %d", l)
	}
}
