package logformat

import (
	"testing"
	"time"
)

// TestTimes: times as servers write them, and their values.
func TestTimes(t *testing.T) {
	const at = "2012-03-18T04:02:25Z"
	apache := map[string][]string{ // LogFormat to the lines that mean at
		`%t`:                                    {"[18/Mar/2012:04:02:25 +0000]", "[18/Mar/2012:06:02:25 +0200]"},
		`%{begin}t`:                             {"[18/Mar/2012:04:02:25 +0000]"},
		`%{sec}t`:                               {"1332043345"},
		`%{msec}t`:                              {"1332043345000"},
		`%{end:usec}t`:                          {"1332043345000000"},
		`%{sec}t.%{usec_frac}t`:                 {"1332043345.000000"},
		`%{%F %T}t.%{msec_frac}t%{%z}t`:         {"2012-03-18 03:02:25.000-0100"},
		`%t %{usec_frac}t`:                      {"[18/Mar/2012:04:02:25 +0000] 000000"},
		`%{%d/%b/%Y %I:%M:%S %p %Z}t`:           {"18/Mar/2012 04:02:25 AM UTC", "18/Mar/2012 04:02:25 AM +00"},
		`%{%a %b %e %H:%M:%S %Y}t`:              {"Sun Mar 18 04:02:25 2012"},
		`%{%c}t`:                                {"Sun Mar 18 04:02:25 2012"},
		`%{%A, %d. %B %y, %k:%M:%S}t`:           {"Sunday, 18. March 12,  4:02:25"},
		`%{%Y %j %R}t:25`:                       nil, // without the seconds
		`%{%D %r}t`:                             {"03/18/12 04:02:25 AM"},
		`%{%s}t`:                                {"1332043345"},
		`%{begin:%Y-%m-%d}t %{begin:%H:%M:%S}t`: {"2012-03-18 04:02:25"},
	}
	want, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	check := func(f *Format, line string) {
		t.Helper()
		spans := make([]Span, len(f.Fields))
		i := f.Field(FieldTime)
		if i < 0 || f.Scan([]byte(line), spans) != RequestLine {
			t.Errorf("%s does not read %q", f.Source, line)
			return
		}
		if us, ok := f.Fields[i].Time(spans[i].Of([]byte(line)), nil); !ok || us != want.UnixMicro() {
			t.Errorf("%s: %q is %s (%v)", f.Source, line, time.UnixMicro(us).UTC(), ok)
		}
	}
	for text, lines := range apache {
		f, err := Apache(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, line := range lines {
			check(f, line)
		}
	}
	for text, line := range map[string]string{
		`%t`: "18/Mar/2012:04:02:25 +0000", `%t{ISO8601}`: "2012-03-18 04:02:25,000", `%date{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}`: "2012-03-18T05:02:25.000+01:00",
		`%t{"dd/MMM/yyyy:HH:mm:ss Z", "UTC"}`: "18/Mar/2012:04:02:25 +0000", `%t{yyyy-MM-dd HH:mm:ssXXX}`: "2012-03-18 04:02:25Z",
	} {
		f, err := Logback(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		check(f, line)
	}
	for text, noZone := range map[string]bool{`%t`: false, `%{%F %T}t`: true, `%{%F %T}t %{%z}t`: false, `%{sec}t`: false, `%{%c}t`: true} {
		if f, err := Apache(text); err != nil || f.NoZone != noZone {
			t.Errorf("%s: no zone is %v, %v", text, f.NoZone, err)
		}
	}
	for text, end := range map[string]bool{`%t %{end:msec}t`: false, `%{end}t`: true, `%{end:%F}t %{end:%T}t`: true, `%{end:usec}t %{sec}t`: false} {
		if f, err := Apache(text); err != nil || f.TimeIsEnd != end {
			t.Errorf("%s: the end is %v, %v", text, f.TimeIsEnd, err)
		}
	}
	for _, text := range []string{`%{%Q}t`, `%{%}t`, `%{%E}t`} {
		if f, err := Apache(text); err == nil {
			t.Errorf("%s is taken: %+v", text, f.Fields)
		}
	}
	f, err := Apache(`%h %{%F %T}t`)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"2012-02-29 04:02:60", "2012-13-01 00:00:00", "2012-03-18 24:00:00", "2012-03-18  4:02:25", "2012-03-18 04:02:2", "2012-03-18 04:02:251", ""} {
		us, ok := f.Fields[1].Time([]byte(text), nil)
		if ok != (text == "2012-02-29 04:02:60") {
			t.Errorf("%q is %s, %v", text, time.UnixMicro(us).UTC(), ok)
		}
	}
}

// TestChosen: which of several fields with the same meaning is used.
func TestChosen(t *testing.T) {
	for _, c := range []struct{ format, name, asked string }{
		{`%h %s`, FieldStatus, "%s"}, {`%h %s %>s`, FieldStatus, "%>s"}, {`%h %s %>s`, "status_first", "%s"},
		{`%T/%D`, FieldDuration, "%D"}, {`%D/%T`, FieldDuration, "%D"}, {`%T/%D`, "duration_2", "%T"}, {`%{ms}T %T %{US}T`, FieldDuration, "%{US}T"},
		{`%t %{msec}t`, FieldTime, "%{msec}t"}, {`%{end:usec}t %t`, FieldTime, "%t"}, {`%b %O`, FieldBytes, "%b"},
		{`%m %U%q %H`, FieldURL, "%U%q"}, {`%{Remote}p %p`, "port_remote", "%{Remote}p"}, {`%{SSL_CLIENT_S_DN_CN}x %h`, "certname", "%{SSL_CLIENT_S_DN_CN}x"},
	} {
		f, err := Apache(c.format)
		if err != nil {
			t.Errorf("%s: %v", c.format, err)
			continue
		}
		if i := f.Field(c.name); i < 0 || f.Fields[i].Source != c.asked {
			t.Errorf("%s: %s is %+v", c.format, c.name, f.Fields)
		}
	}
	f, err := HAProxy("%ci %Tt %Tr")
	if err != nil || f.Fields[f.Field(FieldDuration)].Source != "%Tt" {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestRefused: what is wrong is named by its place.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		language, format string
		at               int
	}{
		{"apache", `%h %Z`, 3}, {"apache", `%h%u`, 2}, {"apache", `%h %{x`, 3}, {"apache", `%h %`, 3}, {"apache", `%h %^F`, 3}, {"apache", `%h %^zz`, 3}, {"apache", "combined", 0}, {"apache", `%h %{min}T`, 3},
		{"apache", `%h %i`, 3}, {"apache", `%h %{a}p`, 3}, {"apache", `%h %{a}P`, 3},
		{"nginx", `$a ${b`, 3}, {"nginx", `$a $ x`, 3}, {"nginx", `x`, 0}, {"nginx", `escape=x $a`, 7}, {"nginx", `$a$b`, 2},
		{"haproxy", `%ci %XX`, 4}, {"haproxy", `%ci %[x`, 4}, {"haproxy", `%ci%cp`, 3}, {"haproxy", `%ci %{+Q`, 4},
		{"logback", `%h %x`, 3}, {"logback", `%h %t{QQ}`, 3}, {"logback", `%h %i{x`, 3},
	} {
		_, err := Languages[c.language](c.format)
		r, ok := err.(*FormatError)
		if !ok || r.At != c.at {
			t.Errorf("%s %s: %v", c.language, c.format, err)
		}
	}
}

// TestHAProxy: what src/log.c of HAProxy 2.6 puts in quotes, and where it leaves blanks out.
func TestHAProxy(t *testing.T) {
	f, err := HAProxy(haproxyCLF)
	if err != nil {
		t.Fatal(err)
	}
	got := fields(t, f, `haproxy[7]: 192.0.2.1 - - [18/Mar/2012:04:02:25 +0000] "GET /a#22b HTTP/1.1" 200 5 "" "" 4711 025 "web" "app" "s1" 1 2 3 4 10 ---- 1 1 0 0 0 0 0 "-" "" "x" "y"`)
	for name, want := range map[string]string{"client": "192.0.2.1", "request": "GET /a#22b HTTP/1.1", "status": "200", "duration": "10", "frontend": "web", "server": "s1", "captured_out": "y", "cookie_in": "-"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q: %q", name, got[name], want, got)
		}
	}
	if f, err = HAProxy(haproxyHTTP); err != nil {
		t.Fatal(err)
	}
	got = fields(t, f, `10.0.1.2:33317 [20/Nov/2026:23:58:28.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {Mozilla/5.0 (X; "Y|a#7Db} {text/html; x} "GET / HTTP/1.1"`)
	if got["captured_in"] != `{Mozilla/5.0 (X; "Y|a#7Db}` || got["captured_out"] != "{text/html; x}" || got["request"] != "GET / HTTP/1.1" {
		t.Errorf("%q", got)
	}
	f, err = HAProxy("  %ci   %{+Q}hr %hs  %ST")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{`::1 "{a b|c}" {d} 200`: `"{a b|c}"`, "::1 {d} 200": "", `::1 "{a}" 200`: `"{a}"`, "::1 200": ""} {
		if got := fields(t, f, line); got["captured_in"] != want || got["status"] != "200" {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// TestForemanForgets: what begins and never ends does not fill the memory.
func TestForemanForgets(t *testing.T) {
	var j Joiner
	spans := make([]Span, foremanFields)
	url := make([]byte, 20<<10)
	for i := range url {
		url[i] = 'a'
	}
	const n = 100_000
	for i := range n {
		id := []byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/26/26%26), 'a' + byte(i/26/26/26%26)}
		line := append([]byte("2026-11-20T23:58:28 [I|app|"), id...)
		line = append(line, "] Started GET \""...)
		line = append(append(line, url...), "\" for ::1 at x"...)
		if _, l := j.Add(line, spans); l != OtherLine {
			t.Fatalf("line %d is %d", i, l)
		}
		if j.size > maxOpenBytes || len(j.open) > maxOpen {
			t.Fatalf("%d bytes of %d requests are held", j.size, len(j.open))
		}
	}
	if j.Open() != n {
		t.Errorf("%d have begun, want %d", j.Open(), n)
	}
	held := 0
	for id, s := range j.open {
		held += len(id) + s.size()
	}
	if held != j.size {
		t.Errorf("%d bytes are held, %d counted", held, j.size)
	}
}

// TestDays: a day that its month does not have is no time.
func TestDays(t *testing.T) {
	for layout, ways := range map[string][2]string{
		"%t":                 {"[29/Feb/2012:04:02:25 +0000]", "[31/Feb/2012:04:02:25 +0000]"},
		"%{%d/%b/%Y %H:%M}t": {"29/Feb/2012 04:02", "30/Feb/2012 04:02"},
		"%{%Y-%m-%d %T}t":    {"2012-04-30 04:02:25", "2012-04-31 04:02:25"},
	} {
		f, err := Apache(layout)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range ways {
			field := &f.Fields[f.Field(FieldTime)]
			spans := make([]Span, len(f.Fields))
			if f.Scan([]byte(line), spans) != RequestLine {
				t.Fatalf("%s does not read %s", layout, line)
			}
			if _, ok := field.Time(spans[f.Field(FieldTime)].Of([]byte(line)), new(Clock)); ok != (i == 0) {
				t.Errorf("%s: %s: %v", layout, line, ok)
			}
		}
	}
}

// TestDurationsHaveNames: what is said of a log names the duration.
func TestDurationsHaveNames(t *testing.T) {
	for name, parse := range Named {
		f, err := parse()
		if err != nil {
			t.Fatal(err)
		}
		if d := f.Field(FieldDuration); d >= 0 && f.Fields[d].Source == "" {
			t.Errorf("%s: its duration has no name", name)
		}
	}
}

// FuzzISO: the cached minute changes no time.
func FuzzISO(f *testing.F) {
	for _, text := range []string{
		"2012-03-18T04:02:25Z", "2012-03-18T04:02:59.5Z", "2012-03-18T04:02:60Z", "2012-03-18 04:02:25.123456789+01:00", "2012-03-18T04:02:25.1234567890Z", "2012-03-18T04:02:25.Z",
		"2012-03-18T04:02:25-23:59", "2012-03-18T04:02:25+24:00", "2012-03-18T04:02:25+0100", "2012-03-18T04:02:25,123Z", "2012/03/18 04:02:25.12345", "2012-02-31T04:02:25Z", "1969-12-31T23:59:59.999999999Z", "0000-01-01T00:00:00Z", "2012-03-18T04:02:2xZ",
	} {
		f.Add([]byte(text), []byte("2012-03-18T04:02:25+00:00"))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var c Clock
		for _, text := range [][]byte{a, b, a, b} {
			want, ok := iso(text)
			if got, is := c.iso(text); is != ok || ok && got != want {
				t.Fatalf("%q is %d, %v; want %d, %v", text, got, is, want, ok)
			}
		}
	})
}
