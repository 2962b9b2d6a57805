package logformat

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func fields(t *testing.T, f *Format, line string) map[string]string {
	t.Helper()
	spans := make([]Span, len(f.Fields))
	text, _ := new(Unwrapper).Unwrap(f, []byte(line))
	var l LineKind
	if f.joined {
		var j Joiner
		for one := range strings.SplitSeq(line, "\n") {
			text, l = j.Add([]byte(one), spans)
		}
	} else {
		l = f.Scan(text, spans)
	}
	if l != RequestLine {
		t.Fatalf("%s: %q is %d", f.Name, line, l)
	}
	out := map[string]string{}
	for i, field := range f.Fields {
		out[field.Name] = string(spans[i].Of(text))
	}
	return out
}

// TestDetect: lines as the products wrote them ("Puppetmaster Performance
// Tuning with mod_mem_cache"; Puppet Server 7.9.5, HAProxy 2.6, nginx 1.22,
// Apache 2.4, Foreman 3), and the detected values.
func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      map[string]string
	}{
		{"Apache with %D, Puppet URLs", `192.0.2.1 - - [18/Mar/2012:04:02:25 +0000] "GET /environment1/file_metadata/modules/logrotate/etc/logrotate.conf HTTP/1.1" 200 333 42741 "-" "-"`,
			map[string]string{"client": "192.0.2.1", "duration": "42741", "status": "200", "bytes": "333"}},
		{"Puppet Server's access log", `127.0.0.1 - - [20/Nov/2026:23:58:28 +0000] "PUT /puppet-ca/v1/certificate_request/agent1.test HTTP/1.1" 200 0 "-" "Puppet/7.23.0 Ruby/3.1.2-p20 (x86_64-linux-gnu)" 1553 1586 -
127.0.0.1 - - [20/Nov/2026:23:58:29 +0000] "GET /puppet/v3/file_metadata/modules/a/b?environment=production HTTP/1.1" 200 0 "-" "Puppet/7.23.0" 15 - ` + "\n",
			map[string]string{"duration": "1553", "user_agent": "Puppet/7.23.0 Ruby/3.1.2-p20 (x86_64-linux-gnu)", "jruby_borrow_time": "-"}},
		{"HAProxy's HTTP log", `Nov 20 23:58:28 localhost haproxy[14389]: 10.0.1.2:33317 [20/Nov/2026:23:58:28.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`, nil},
		{"HAProxy's HTTP log", `10.0.1.2:33317 [20/Nov/2026:23:58:28.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0  "GET /index.html HTTP/1.1"`, nil},
		{"the combined log", `::1 - john doe [20/Nov/2026:23:58:28 +0000] "GET /a\"b HTTP/1.1" 200 5 "-" "x \" y"`,
			map[string]string{"user": "john doe", "user_agent": `x \" y`}},
		{"nginx' combined log followed by further fields", `::1 - - [20/Nov/2026:23:58:28 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/7.88.1" 0.012`, map[string]string{"duration": "0.012"}},
		{"nginx' combined log followed by further fields", `::1 - - [20/Nov/2026:23:58:28 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/7.88.1" 1795168800.123`, map[string]string{}},
		{"nginx' combined log followed by further fields", `::1 - - [20/Nov/2026:23:58:28 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/7.88.1" 0.012 1795168800.123`, map[string]string{"duration": "0.012"}},
		{"nginx' combined log followed by further fields", `::1 - - [20/Nov/2026:23:58:28 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/7.88.1" 0.012 0.010, 0.002`, map[string]string{"upstream_duration": "0.010, 0.002"}},
		{"the combined log with X-Forwarded-For at the end (nginx' main)", `::1 - - [20/Nov/2026:23:58:28 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/7.88.1" "-"`,
			map[string]string{"user_agent": "curl/7.88.1", "forwarded_for": "-"}}, // no proxy in front: always -
		{"the common log", `::1 - - [20/Nov/2026:23:58:28 +0000] "GET / HTTP/1.1" 200 5`, nil},
		{"Apache's vhost_combined log", `www.example.com:443 ::1 - - [20/Nov/2026:23:58:28 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"`, map[string]string{"host": "www.example.com", "port": "443"}},
		{"JSON lines", `{"time_iso8601":"2026-11-20T23:58:28+00:00","remote_addr":"::1","request":"GET / HTTP/1.1","status":200,"request_time":0.012,"upstream":{"zone":"a"}}`,
			map[string]string{"duration": "0.012", "upstream_zone": "a", "request": "GET / HTTP/1.1"}},
		{"JSON lines", `{"@timestamp":"2026-11-20T23:58:28Z","http.request.method":"GET","url":{"path":"/a"},"http":{"response.status_code":404},"event.duration":1200000}`,
			map[string]string{"method": "GET", "url": "/a", "status": "404", "duration": "1200000"}},
		{"Puppet Server's own log", "2026-11-20T23:58:28.123Z INFO  [qtp1-35] [puppetserver] Puppet Compiled catalog for agent1.test in environment production in 0.21 seconds\njava.lang.Exception: x\n\tat a.b.c",
			map[string]string{"duration": "0.21", "requestor": "agent1.test", "environment": "production", "indirector": "Compiled catalog"}},
		{"Foreman's production.log", `2026-11-20T23:58:28 [I|app|a1b2] Started GET "/api/v2/hosts?per_page=20" for 10.0.0.1 at 2026-11-20 23:58:28 +0000
2026-11-20T23:58:28 [I|app|a1b2] Processing by Api::V2::HostsController#index as JSON
2026-11-20T23:58:28 [I|app|a1b2]   Parameters: {"per_page"=>"20"}
2026-11-20T23:58:29 [I|app|a1b2] Completed 200 OK in 251ms (Views: 100.2ms | ActiveRecord: 50.1ms | Allocations: 1234)`,
			map[string]string{"duration": "251", "controller": "Api::V2::HostsController", "action": "index", "client": "10.0.0.1", "views": "100.2", "active_record": "50.1", "url": "/api/v2/hosts?per_page=20", "status": "200"}},
		{"Foreman's production.log", `2019-01-01 12:00:00 a1b2 [app] [I] Started POST "/rhsm/consumers" for 10.0.0.1 at 2019-01-01 12:00:00 +0100
2019-01-01 12:00:00 a1b2 [app] [I] Processing by Katello::Api::Rhsm::CandlepinProxiesController#consumer_create as JSON
2019-01-01 12:00:09 a1b2 [app] [I] Completed 500 Internal Server Error in 9251ms (ActiveRecord: 50.1ms)`,
			map[string]string{"duration": "9251", "action": "consumer_create", "views": "-", "status": "500", "method": "POST"}},
	} {
		f, err := Detect([]byte(c.log), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if f.Name != c.name {
			t.Errorf("%s: taken for %s (%s)", c.name, f.Name, f.Why)
			continue
		}
		first, _, _ := strings.Cut(c.log, "\n")
		if f.joined {
			first = c.log
		}
		got := fields(t, f, first)
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got[name], want)
			}
		}
	}
}

// TestMemberThatIsNotThere: a member that the user named as duration but no
// line has is not reported as the duration.
func TestMemberThatIsNotThere(t *testing.T) {
	head := []byte(`{"status":200,"took":5}` + "\n")
	for member, want := range map[string]string{"took": `; "took" is the duration, in milliseconds`, "tok": `; --duration tok: no line has this member; members found: status, took`} {
		f, err := Detect(head, map[string]int64{member: 1e6})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f.Why, want) {
			t.Errorf("%s: %s", member, f.Why)
		}
	}
}

// TestUncertain: rejected logs: ambiguous ones with the formats to choose from,
// and unknown ones with a format that would match.
func TestUncertain(t *testing.T) {
	const combined = `192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /p HTTP/1.1" 200 9 "-" "curl/8"`
	for behind, want := range map[string][]string{
		" 52000":               {"%D", "%{ms}T", "%T", "%I", "%O"},
		" 0":                   {"%D", "%{ms}T", "%T"},
		` "52000"`:             {`"%D"`, `"%{ms}T"`, `"%T"`},
		` "203.0.113.1" 52000`: {`"%{X-Forwarded-For}i" %D`, `"%{X-Forwarded-For}i" %{ms}T`, `"%{X-Forwarded-For}i" %T`},
		" 52000 150 3400":      {"%D %I %O", "%{ms}T %I %O", "%T %I %O"},
	} {
		_, err := Detect([]byte(combined+behind+"\n"), nil)
		var several *AmbiguousError
		if !errors.As(err, &several) {
			t.Errorf("%s: %v", behind, err)
			continue
		}
		for _, w := range want {
			if !slices.ContainsFunc(several.Choices, func(c Choice) bool {
				f, err := Parse(c.Text)
				if err != nil {
					t.Fatal(err)
				}
				n, _ := f.Reads([]byte(combined + behind + "\n"))
				return n == 1 && strings.HasSuffix(c.Text, "i\" "+w)
			}) {
				t.Errorf("%s: %s is not one of %v", behind, w, several.Choices)
			}
		}
	}
	var u *UnknownError
	const odd = combined + ` 52000 "web@docker" [x]` + "\n"
	if _, err := Detect([]byte(odd), nil); !errors.As(err, &u) {
		t.Fatal(err)
	}
	f, err := Parse(u.Text)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := f.Reads([]byte(odd)); n != 1 {
		t.Errorf("%s does not read %s", u.Text, odd)
	}
}

// TestNotText: a binary file is named as such; a log with a format of its own is not.
func TestNotText(t *testing.T) {
	for head, want := range map[string]bool{
		"\x7fELF\x02\x01\x01\x00\x00": true, "PK\x03\x04\n": true, "text\nfd7zXZ\x00\x00\x04\n": true,
		"\x00\x00\x00some words\n": false, "\x1b[31mred\x1b[0m words\n": false, "a\tb\r\n": false, "\xff\xfe\n": false,
	} {
		if _, err := Detect([]byte(head), nil); err == nil || errors.Is(err, ErrNotText) != want {
			t.Errorf("%q: %v", head, err)
		}
	}
}

// TestMostLinesWin: lines without a known format are not read, and half of the
// lines decide.
func TestMostLinesWin(t *testing.T) {
	lines := strings.Repeat(`192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /p HTTP/1.1" 200 9 "-" "A"`+"\n"+`192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /p HTTP/1.1" 200 9 "-" "A" x"y`+"\n", 50)
	f, err := Detect([]byte(lines), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, all := f.Reads([]byte(lines)); n != 50 || all != 100 {
		t.Errorf("%d of %d", n, all)
	}
}
