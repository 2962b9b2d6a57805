package logformat

import (
	"strings"
	"testing"
)

// TestBrackets: the brackets around IPv6 addresses in some formats are not part
// of the client, which is the same in each format.
func TestBrackets(t *testing.T) {
	for name, line := range map[string]string{
		"istio":  `[2026-11-20T10:00:00.401Z] "GET /i HTTP/1.1" 200 - via_upstream - "-" 0 12 978 977 "-" "A/1" "0f7c" "www.example.org" "10.0.0.2:8080" inbound|8080|| 127.0.0.6:40226 10.0.0.2:8080 [2001:db8::17]:5226 outbound default`,
		"alb":    `http 2026-11-20T10:00:00.144000Z app/lb/50dc6c495c0c9188 [2001:db8::17]:5000 10.0.0.66:9000 0.000 0.009 0.000 200 200 34 12 "GET http://www.example.org:80/i HTTP/1.1" "A/1" - - arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/t/73e2d6bc24d8a067 "Root=1-58337364-23a8c76965a2ef7629b185e3" "-" "-" 0 2026-11-20T10:00:00.135000Z "forward" "-" "-"`,
		"apache": `[2001:db8::17] - - [20/Nov/2026:10:00:00 +0000] "GET /i HTTP/1.1" 200 9 "-" "A/1"`,
		"bare":   `2001:db8::17 - - [20/Nov/2026:10:00:00 +0000] "GET /i HTTP/1.1" 200 9 "-" "A/1"`,
		"marked": "\ufeff" + `2001:db8::17 - - [20/Nov/2026:10:00:00 +0000] "GET /i HTTP/1.1" 200 9 "-" "A/1"`, // a byte order mark
	} {
		f := detected(t, strings.Repeat(line+"\n", 9)+line)
		spans := make([]Span, len(f.Fields))
		if f.Scan([]byte(line), spans) != RequestLine {
			t.Errorf("%s: not read", name)
		} else if got := string(spans[f.Field(FieldClient)].Of([]byte(line))); got != "2001:db8::17" {
			t.Errorf("%s: the client is %s", name, got)
		}
	}
}
