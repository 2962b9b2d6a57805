package format

import "testing"

// TestRailsTags: a tag that requests have in common (config.log_tags = [:host]) names none of
// them: who made a request is found by the process and the times, or is unknown.
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
			if out, l := j.Join([]byte(line), spans); l == Whole {
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
		if names([]byte(tags)) != want {
			t.Errorf("%q names one request: %v", tags, !want)
		}
	}
}
