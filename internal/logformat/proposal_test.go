package logformat

import "testing"

// A proposal has the fields of the line, and reads it; a line without a request or a
// status has no proposal.
func TestProposal(t *testing.T) {
	for line, want := range map[string]string{
		`192.0.2.1 | 2026-11-21T08:00:00+00:00 | "GET /a HTTP/1.1" | 200 | 17`: `nginx:$remote_addr $value_1 $time_iso8601 $value_2 "$request" $value_3 $status $value_4 $value_5`,
		"hello": "", "a text of 20 words": "", "": "",
	} {
		if got := proposal(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
