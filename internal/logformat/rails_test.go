package logformat

import (
	"testing"
	"time"
)

// TestRailsTags: a tag that requests share (config.log_tags = [:host]) does not
// identify a request: process and times do, or the requester is unknown.
func TestRailsTags(t *testing.T) {
	for tags, want := range map[string][2]string{
		"":                   {"192.0.2.1", "192.0.2.2"},
		"[www.example.org] ": {"192.0.2.1", "192.0.2.2"},
		"[10.0.0.1] ":        {"192.0.2.1", "192.0.2.2"},
	} {
		f := rails()
		j := f.Joiner()
		at := func(time string) string { return "I, [2026-11-20T10:00:" + time + " #77]  INFO -- : " + tags }
		var clients []string
		for _, line := range []string{
			at("00.000000") + `Started GET "/slow" for 192.0.2.1 at 2026-11-20 10:00:00 +0000`,
			at("00.001000") + `Processing by SlowController#show as HTML`,
			at("00.980000") + `Started GET "/fast" for 192.0.2.2 at 2026-11-20 10:00:00 +0000`,
			at("00.981000") + `Processing by FastController#show as HTML`,
			at("01.001000") + `Completed 200 OK in 1000ms (Views: 1.0ms)`,
			at("01.031000") + `Completed 200 OK in 50ms (Views: 1.0ms)`,
		} {
			spans := make([]Span, len(f.Fields))
			if out, l := j.Add([]byte(line), spans); l == RequestLine {
				clients = append(clients, string(spans[f.Field(FieldClient)].Of(out)))
			}
		}
		if len(clients) != 2 || [2]string(clients) != want || j.Lost != 0 {
			t.Errorf("%q: clients %q, %d lost", tags, clients, j.Lost)
		}
	}
	for tags, want := range map[string]bool{
		"[0f7c1f6e-1111-4222-8333-0123456789ab] ": true, "[127.0.0.1] [6e2b4c9f] ": true, "[Root1-58337364-23a8c76965a2ef7629b185e3] ": true,
		"[www.example.org] ": false, "[10.0.0.1] ": false, "[2001:db8::17] ": false, "[req-5] ": false, "": false,
	} {
		if hasRequestID([]byte(tags)) != want {
			t.Errorf("%q names one request: %v", tags, !want)
		}
	}
}

// TestStartedZone: the time zone in Started lines applies to the lines' times, also for
// a request without a logged beginning; without one times are in the server's zone.
func TestStartedZone(t *testing.T) {
	const a, b = "2024-03-20T23:58:28 [I|app|0123456a] ", "2024-03-20T23:58:29 [I|app|0123456b] "
	for _, c := range []struct {
		at, want, lost string
		noZone         bool
	}{
		{"2024-03-20 23:58:28 +0200", "2024-03-20T21:58:28Z", "2024-03-20T21:58:29Z", false},
		{"2024-03-20 23:58:28 -0330", "2024-03-21T03:28:28Z", "2024-03-21T03:28:29Z", false},
		{"2024-03-20 23:58:28 +0000", "2024-03-20T23:58:28Z", "2024-03-20T23:58:29Z", false},
		{"2024-03-20 23:58:28 UTC", "2024-03-20T23:58:28Z", "2024-03-20T23:58:29Z", false},
		{"2024-03-20 23:58:28", "2024-03-20T23:58:28Z", "2024-03-20T23:58:29Z", true},
		{"2024-03-21 01:58:28 +0200", "2024-03-20T23:58:28Z", "2024-03-20T23:58:29Z", false}, // the logger's clock is UTC
	} {
		log := []byte(a + `Started GET "/x" for 192.0.2.1 at ` + c.at + "\n" + a + "Processing by XController#show as HTML\n" + a + "Completed 200 OK in 11ms\n" + b + "Completed 200 OK in 11ms\n")
		f, err := Detect(log, nil)
		if err != nil {
			t.Fatal(err)
		}
		j := f.Joiner()
		var got []string
		for _, line := range lines(log) {
			spans := make([]Span, len(f.Fields))
			if out, l := j.Add(line, spans); l == RequestLine {
				us, _ := f.Fields[foremanTime].Time(spans[foremanTime].Of(out), nil)
				got = append(got, time.UnixMicro(us).UTC().Format(time.RFC3339))
			}
		}
		if f.NoZone != c.noZone || len(got) != 2 || got[0] != c.want || got[1] != c.lost {
			t.Errorf("%s: %q, no zone %v; want %s and %s", c.at, got, f.NoZone, c.want, c.lost)
		}
	}
}
