package logformat

import "testing"

// TestSyslog: every syslog prefix is removed.
func TestSyslog(t *testing.T) {
	f, err := HAProxy(haproxyHTTP)
	if err != nil {
		t.Fatal(err)
	}
	const line = `10.0.1.2:33317 [21/Nov/2026:08:00:01.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET /a]:%20b HTTP/1.1"`
	for _, before := range []string{
		"", "Nov 21 08:00:01 lb haproxy[14389]: ", "<134>Nov 21 08:00:01 lb haproxy[14389]: ", "2026-11-21T08:00:01.655123+00:00 lb haproxy[14389]: ",
		"haproxy[14389]: ", "lb/haproxy@0[14389]: ", "<134>1 2026-11-21T08:00:01.655123+00:00 lb haproxy 14389 - - ", "<134>1 - - - - - - ", "<6>1 2026-11-21T08:00:01Z lb haproxy 14389 - - \xef\xbb\xbf",
		`<134>1 2026-11-21T08:00:01Z lb haproxy 14389 ID47 [a@32473 iut="3" x="\]\"] 5 "][b c="d"] `,
	} {
		spans := make([]Span, len(f.Fields))
		text := []byte(before + line)
		whole := text
		text, _ = new(Unwrapper).Unwrap(f, text)
		if f.Scan(text, spans) != RequestLine {
			t.Errorf("%q is not read", before)
			continue
		}
		for name, want := range map[string]string{FieldClient: "10.0.1.2", FieldDuration: "109", FieldRequest: "GET /a]:%20b HTTP/1.1"} {
			if got := string(spans[f.Field(name)].Of(text)); got != want {
				t.Errorf("%q: %s is %q, want %q", before, name, got, want)
			}
		}
		if d, err := Detect(append(whole, '\n'), nil); err != nil || d.Name != "HAProxy's HTTP log" {
			t.Errorf("%q: %v, %v", before, d, err)
		}
	}
	for _, none := range []string{"[1]: x", "a b[1]: x", "a[]: x", "a[b]: x", "a[1]:x", "a[1", "a[1]", "10.0.1.2:33317 [21/Nov/2026:08:00:01.655] a[1]: x", "<134>1", "<134>1 2026", "<134>1 - - - - - ", "<134>1 - - - - - [a b=\"c\\", "<134>1 - - - - - -", "<1345>1 - - - - - - x", "<>1 - - - - - - x", "<", "<a>1 - - - - - - x"} {
		if n := afterSyslog([]byte(none)); n > len("<134>") {
			t.Errorf("%q: the message begins at %d", none, n)
		}
	}
}

// TestPuppetLog: supported and unsupported logback patterns.
func TestPuppetLog(t *testing.T) {
	for text, noZone := range map[string]bool{
		`%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %-5p [%t] [%c{2}] %m%n`: false,
		`%d %-5p [%t] [%c{2}] %m%n`:                               true,
		`%date{ISO8601} %level [%thread] [%logger{36}] %msg%n%ex`: true,
	} {
		if f, err := PuppetLog(text); err != nil || f.NoZone != noZone || f.Source != text {
			t.Errorf("%s: %+v, %v", text, f, err)
		}
	}
	for _, text := range []string{"", "%m%n", `%d{HH:mm:ss} %-5p [%t] [%c{2}] %m%n`, `%d %-5p %t [%c{2}] %m%n`, `%d %-5p [%t] [%c{2}`, `%d %-5p [%t] [%c{2}] %X{id} %m%n`} {
		if f, err := PuppetLog(text); err == nil {
			t.Errorf("%s: %+v", text, f)
		}
	}
}
