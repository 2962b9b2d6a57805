package logformat

import (
	"strconv"
	"strings"
	"testing"
)

// detected returns the format of lines.
func detected(t *testing.T, lines string) *Format {
	t.Helper()
	f, err := Detect([]byte(lines+"\n"), nil)
	if err != nil {
		t.Fatalf("%s: %v", lines, err)
	}
	return f
}

// TestJSONDuration: the unit of a duration is that of the product, the name or
// the value, or unknown; it is never assumed.
func TestJSONDuration(t *testing.T) {
	const line = `{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/a","status":200,`
	for _, c := range []struct {
		members string
		unknown string // the member with an unknown unit
		us      int64  // -1: no duration
	}{
		{`"duration":0.5}`, "duration", -1},
		{`"duration":5}`, "duration", -1},
		{`"Duration":5}`, "Duration", -1},
		{`"DURATION":5.5}`, "DURATION", -1},
		{`"latency":5}`, "latency", -1},
		{`"elapsed":5}`, "elapsed", -1},
		{`"took":5}`, "took", -1},
		{`"resp_time":0.250}`, "resp_time", -1},
		{`"responseTime":5}`, "responseTime", -1},
		{`"response_time":"5"}`, "response_time", -1},
		{`"request_time":0.1}`, "request_time", -1}, // nginx writes 0.100
		{`"request_time":0.100}`, "request_time", -1},
		{`"remote_addr":"192.0.2.1","request_time":0.100}`, "", 100_000},
		{`"remote_addr":"192.0.2.1","request_time":0.1}`, "request_time", -1},
		{`"time_iso8601":"2026-11-20T10:00:00+00:00","body_bytes_sent":3,"request_time":0.1}`, "", 100_000}, // rewritten by a log shipper
		{`"time_iso8601":"2026-11-20T10:00:00+00:00","body_bytes_sent":3,"request_time":0.1234}`, "request_time", -1},
		{`"time_iso8601":"2026-11-20T10:00:00+00:00","body_bytes_sent":3,"request_time":600.000}`, "", 600_000_000},
		{`"time_iso8601":"2026-11-20T10:00:00+00:00","body_bytes_sent":3,"request_time":0.000}`, "", 0},
		{`"time_iso8601":"2026-11-20T10:00:00+00:00","body_bytes_sent":3,"request_time":12}`, "request_time", -1},
		{`"http":{"duration":7}}`, "http.duration", -1},
		{`"duration":"5ms"}`, "", 5000},
		{`"duration":"1.2s"}`, "", 1_200_000},
		{`"duration":"4m3s"}`, "", 243_000_000},
		{`"duration":"350µs"}`, "", 350},
		{`"duration":"1h0m2.5s"}`, "", 3602_500_000},
		{`"duration":"12 ms"}`, "", 12_000},
		{`"duration":"0.25 seconds"}`, "", 250_000},
		{`"duration_ms":5}`, "", 5000},
		{`"durationMs":5.25}`, "", 5250},
		{`"duration_us":"77"}`, "", 77},
		{`"latency_ns":1500}`, "", 2},
		{`"elapsedSeconds":1.5e-3}`, "", 1500},
		{`"response_time_s":2E+0}`, "", 2_000_000},
		{`"took":{"ms":9}}`, "", 9000},
		{`"duration":5,"duration_ms":5}`, "", 5000},
		{`"upstream_response_time":5}`, "", -1}, // another program's
		{`"queue_time_ms":5}`, "", -1},          // a part
		{`"duration":"soon"}`, "", -1},
		{`"duration":true}`, "", -1},
		{`"duration":null}`, "", -1},
		{`"duration":[1,2]}`, "", -1},
		{`"duration":""}`, "", -1},
		{`"controller":"hosts","action":"show","duration":58.33}`, "", 58_330},
		{`"latency":3065,"latency_human":"3.065µs","uri":"/a"}`, "", 3},
	} {
		f := detected(t, line+c.members)
		if f.UnitUnknown != c.unknown {
			t.Errorf("%s: unit unknown of %q, want %q (%s)", c.members, f.UnitUnknown, c.unknown, f.Why)
		}
		d, us := f.Field(FieldDuration), int64(-1)
		spans := make([]Span, len(f.Fields))
		if l := f.Scan([]byte(line+c.members), spans); l != RequestLine {
			t.Errorf("%s: %d", c.members, l)
		}
		if d >= 0 {
			var ok bool
			if us, ok = f.Fields[d].Duration(spans[d].Of([]byte(line + c.members))); !ok {
				us = -1
			}
		}
		if us != c.us {
			t.Errorf("%s: %d µs, want %d (%s)", c.members, us, c.us, f.Why)
		}
	}
}

// TestJSONProductContradicted: numbers in another form than the product's mean
// another configuration, so its unit does not apply.
func TestJSONProductContradicted(t *testing.T) {
	for _, line := range []string{
		`{"ts":1795168800.5,"request":{"remote_ip":"192.0.2.1","proto":"HTTP/1.1","method":"GET","uri":"/"},"duration":92967,"size":1,"status":200}`,
		`{"DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/","Duration":0.25,"StartUTC":"2026-11-20T10:00:00Z"}`,
		`{"start_time":"2026-11-20T10:00:00Z","method":"GET","path":"/","response_code":200,"response_flags":"-","duration":0.25}`,
	} {
		if f := detected(t, line); f.Field(FieldDuration) >= 0 || f.UnitUnknown == "" {
			t.Errorf("%s: %s", line, f.Why)
		}
	}
}

// TestJSONRoles: name and values together give a member its role.
func TestJSONRoles(t *testing.T) {
	for _, c := range []struct {
		line string
		want map[string]string // field texts; "-": no such field
	}{
		{`{"time":"2026-11-20T10:00:00Z","request":"req-7","method":"GET","uri":"/x","status":500}`, map[string]string{FieldRequest: "-", FieldMethod: "GET", FieldURL: "/x", "member_request": "req-7"}},
		{`{"time":"2026-11-20T10:00:00Z","request":"GET /x HTTP/1.1","method":"GET","uri":"/x","status":500}`, map[string]string{FieldRequest: "GET /x HTTP/1.1"}},
		{`{"time":"2026-11-20T10:00:00Z","request":"/x?a=b","method":"GET","status":500}`, map[string]string{FieldRequest: "-", FieldMethod: "GET", FieldURL: "/x?a=b"}},
		{`{"time":"2026-11-20T10:00:00Z","request":"/x","uri":"/y","status":500}`, map[string]string{FieldURL: "/y"}},
		{`{"ts":1795168800.5,"request_uri":"/a?x=1","path":"/srv/www/a.php","method":"GET","status":200}`, map[string]string{FieldURL: "/a?x=1", FieldPath: "-", "member_path": "/srv/www/a.php"}},
		{`{"ts":1795168800,"url":"/a","method":"HostsController.show","status":200}`, map[string]string{FieldMethod: "-", "member_method": "HostsController.show"}},
		{`{"ts":1795168800,"url":"/a","status":"E7"}`, map[string]string{FieldStatus: "-", "member_status": "E7"}},
		{`{"ts":1795168800,"url":"/a","code":"E7","status_code":404}`, map[string]string{FieldStatus: "404"}},
		{`{"ts":1795168800,"url":"/a","status":"204"}`, map[string]string{FieldStatus: "204"}},
		{`{"ts":1795168800,"url":"/a","status":200.0}`, map[string]string{FieldStatus: "200"}},
		{`{"ts":1795168800,"url":"/a","status":200,"bytes":1.0E+3,"client":"cart-3"}`, map[string]string{FieldBytes: "1.0E+3", FieldClient: "-", "member_client": "cart-3"}},
		{`{"ts":1795168800,"url":"/a","status":200,"client":"192.0.2.1:5123"}`, map[string]string{FieldClient: "192.0.2.1"}},
		{`{"ts":1795168800,"url":"/a","status":200,"client":"[2001:db8::1]:5123"}`, map[string]string{FieldClient: "2001:db8::1"}},
		{`{"ts":1795168800,"url":"/a","status":200,"client":"2001:db8::1"}`, map[string]string{FieldClient: "2001:db8::1"}},
		{`{"time":12,"timestamp":"2026-11-20T10:00:00Z","url":"/a","status":200}`, map[string]string{FieldTime: "2026-11-20T10:00:00Z", "member_time": "12"}},
		{`{"date":"2026-11-20","time":"10:00:00","url":"/a","status":200}`, map[string]string{FieldTime: `2026-11-20","time":"10:00:00`}},
		{`{"time":"10:00:00","url":"/a","status":200}`, map[string]string{FieldTime: "-", "member_time": "10:00:00"}},
		{`{"ts":1.7951688005E+09,"url":"/a","status":200}`, map[string]string{FieldTime: "1.7951688005E+09"}},
		{`{"request_time":"2026-11-20T10:00:00Z","url":"/a","status":200}`, map[string]string{FieldTime: "2026-11-20T10:00:00Z", FieldDuration: "-"}},
		{`{"ts":1795168800,"url":"/a","status":200,"class":"A","route":"web","host":"a b"}`, map[string]string{"class": "-", "member_class": "A", "member_route": "web", FieldHost: "-", "member_host": "a b"}},
	} {
		f := detected(t, c.line)
		spans := make([]Span, len(f.Fields))
		if l := f.Scan([]byte(c.line), spans); l != RequestLine {
			t.Errorf("%s: %d", c.line, l)
			continue
		}
		for name, want := range c.want {
			got := "-"
			if i := f.Field(name); i >= 0 {
				got = string(spans[i].Of([]byte(c.line)))
			}
			if got != want {
				t.Errorf("%s: %s is %q, want %q (%s)", c.line, name, got, want, f.Why)
			}
		}
		if i := f.Field(FieldTime); i >= 0 {
			if us, ok := f.Fields[i].Time(spans[i].Of([]byte(c.line)), nil); !ok || us/1e6 < 1795168799 || us/1e6 > 1795168801 {
				t.Errorf("%s: the time is %d", c.line, us)
			}
		}
	}
}

// TestJSONTimeIsEnd: a time that a logger writes after the response is not the
// start, and a member with the start is.
func TestJSONTimeIsEnd(t *testing.T) {
	for line, want := range map[string]bool{
		`{"time_iso8601":"2026-11-20T10:00:00+00:00","request":"GET / HTTP/1.1","status":200,"request_time":1.000}`:                                               true,
		`{"msec":"1795168800.250","time_iso8601":"2026-11-20T10:00:00+00:00","request":"GET / HTTP/1.1","status":200,"request_time":1.000}`:                       true,
		`{"DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/","Duration":25,"StartUTC":"2026-11-20T10:00:00Z","time":"2026-11-20T10:00:01Z"}`:          false,
		`{"DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/","Duration":25,"time":"2026-11-20T10:00:01Z"}`:                                            true,
		`{"start_time":"2026-11-20T10:00:00Z","time":"2026-11-20T10:00:01Z","method":"GET","path":"/","status":200,"duration_ms":5}`:                              false,
		`{"level":"info","msg":"request","time":"2026-11-20T10:00:01Z","method":"GET","path":"/","status":200,"duration_ms":5}`:                                   true,
		`{"time":"2026-11-20T10:00:01Z","method":"GET","path":"/","status":200}`:                                                                                  false, // without a duration it makes no difference
		`{"start_time":"2026-11-20T10:00:00.000Z","method":"GET","path":"/x","response_code":503,"duration":5,"upstream_cluster":"a","x":"2026-11-20T10:00:09Z"}`: false,
	} {
		if f := detected(t, line); f.TimeIsEnd != want || f.Field(FieldTime) < 0 {
			t.Errorf("%s: %v, %s", line, f.TimeIsEnd, f.Why)
		}
	}
}

// TestJSONNoRequests: objects that are not requests are recognized.
func TestJSONNoRequests(t *testing.T) {
	for _, lines := range []string{
		`{"level":"info","msg":"started","time":"2026-11-20T10:00:00Z"}`,
		`{"log":"started\n","stream":"stdout","time":"2026-11-20T10:00:00.5Z"}`,
		`{"a":1}`, `{}`, `{"time":"2026-11-20T10:00:00Z","user":"x"}`,
	} {
		if f, err := Detect([]byte(strings.Repeat(lines+"\n", 5)), nil); err == nil {
			t.Errorf("%s: taken for %s (%s)", lines, f.Name, f.Why)
		}
	}
}

// TestJSONBehindBanner: start-up messages do not hide the lines after them.
func TestJSONBehindBanner(t *testing.T) {
	line := `{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/a","status":200,"duration_ms":5}` + "\n"
	for _, banner := range []string{"[1] Puma starting\n", strings.Repeat("x\n", 250), "\n\n# {\n", "a\n\n{not one\n"} {
		f, err := Detect([]byte(banner+strings.Repeat(line, 60)), nil)
		if err != nil {
			t.Errorf("%.40q: %v", banner, err)
			continue
		}
		if f.Name != JSONLines || f.Field(FieldDuration) < 0 {
			t.Errorf("%.40q: %s", banner, f.Why)
		}
	}
}

// TestJSONAmongOthers: container logs contain other messages too, as docker stores them.
func TestJSONAmongOthers(t *testing.T) {
	line := `{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/a","status":200,"duration_ms":5}`
	for _, log := range []string{
		strings.Repeat(line+"\nstarting\nwaiting\nstill waiting\n", 20),
		strings.Repeat(`{"log": `+strconv.Quote(line+"\n")+`, "stream": "stdout", "time": "2026-11-20T10:00:00.1Z"}`+"\n"+strings.Repeat(`{"log":"starting\n","stream":"stdout","time":"2026-11-20T10:00:00.1Z"}`+"\n", 3), 20),
		"\ufeff" + line + "\r\n" + line + "\r\n",
	} {
		f := detected(t, log)
		n, _ := f.reads([][]byte{[]byte(strings.TrimSuffix(strings.Split(log, "\n")[0], "\r"))})
		if f.Name != JSONLines || f.Field(FieldDuration) < 0 || n == 0 && f.wrap == nil {
			t.Errorf("%.100q: %s", log, f.Why)
		}
	}
}

// TestNumbers: JSON numbers are parsed as by strconv.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"200": "200", "200.0": "200", "2e2": "200", "2.5E+1": "25", "9.2e-05": "0.000092", "0.5": "0.5", "1.7951688005241024e+09": "1795168800.5241024", "0e9": "0", "10e-1": "1", "007": "7", "0.10": "0.10",
		"": "", "-1": "", "e5": "", "1e": "", "1e999": "", "1.2.3": "", "1x": "", ".": "", "0x1p-2": "", "Infinity": "", "1e-99999999999999999999": "",
	} {
		d, ok := parseDecimal([]byte(text))
		got := ""
		if ok {
			got = string(d.plain())
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
