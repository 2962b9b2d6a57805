package logformat

import (
	"errors"
	"strings"
	"testing"
)

// TestSeveralFormatsInTurn: a log with two formats in equal parts is rejected,
// and the error does not claim that one line has both.
func TestSeveralFormatsInTurn(t *testing.T) {
	const combined = `192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /p HTTP/1.1" 200 9 "-" "A/1"`
	const timed = combined + ` "-" rt=0.100 urt="0.100"`
	const haproxy = `192.0.2.1:40000 [20/Nov/2026:10:00:00.123] fe be/s1 0/0/0/1/2 200 9 - - ---- 1/1/0/0/0 0/0 "GET /p HTTP/1.1"`
	for name, log := range map[string]string{
		"changed":      strings.Repeat(combined+"\n", 50) + strings.Repeat(timed+"\n", 50),
		"changed back": strings.Repeat(timed+"\n", 50) + strings.Repeat(combined+"\n", 50),
		"two servers":  strings.Repeat("web-1  | "+combined+"\nlb-1  | "+haproxy+"\n", 50),
	} {
		_, err := Detect([]byte(log), nil)
		several := (*AmbiguousError)(nil)
		if !errors.As(err, &several) || len(several.Choices) != 2 || strings.Contains(several.What, "these lines") || !strings.Contains(several.What, "50 of") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := Detect([]byte(strings.Repeat(combined+" 52000\n", 50)), nil)
	if several := (*AmbiguousError)(nil); !errors.As(err, &several) || !strings.Contains(several.What, "these lines") {
		t.Errorf("one number: %v", err)
	}
}
