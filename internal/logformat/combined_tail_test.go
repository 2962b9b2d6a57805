package logformat

import (
	"errors"
	"strings"
	"testing"
)

// TestLabels: a labeled number after the combined log is a duration if the
// label says so, in the label's unit; without a unit the log is ambiguous.
func TestLabels(t *testing.T) {
	const line = `192.0.2.1 - - [20/Nov/2026:10:00:05 +0000] "GET /i HTTP/2.0" 200 12 "-" "curl/8"`
	for _, c := range []struct {
		tail    string
		us      int64 // -1: no duration
		refused int   // choices
		guessed bool
	}{
		{" D=106269", 106269, 0, true},
		{" D:106269 host=www", 106269, 0, true},
		{" T=0 D=106269", 106269, 0, true},
		{" D=1106269 T=1", 1106269, 0, true},
		{" T=3", 3e6, 0, true},
		{" cs=HIT time_us=12", 12, 0, true},
		{" request_time_ms=12", 12e3, 0, true},
		{" time=12", -1, 3, false},
		{" rt=12", -1, 3, false},
		{` duration="12"`, -1, 3, false},
		{" rt=0.100", 100e3, 0, false},
		{" time=0.100 urt=0.050", 100e3, 0, true},
		{" x=5", -1, 0, false},
		{" _=5", -1, 0, false},
	} {
		f, err := Detect([]byte(line+c.tail+"\n"), nil)
		if several := (*AmbiguousError)(nil); errors.As(err, &several) {
			if len(several.Choices) != c.refused {
				t.Errorf("%s: %v", c.tail, err)
			}
			continue
		}
		if err != nil || c.refused > 0 {
			t.Errorf("%s: %v, %+v", c.tail, err, f)
			continue
		}
		spans, us := make([]Span, len(f.Fields)), int64(-1)
		l := f.Scan([]byte(line+c.tail), spans)
		if d := f.Field(FieldDuration); d >= 0 && l == RequestLine {
			us, _ = f.Fields[d].Duration(spans[d].Of([]byte(line + c.tail)))
		}
		if l != RequestLine || us != c.us || (f.Guessed != "") != c.guessed {
			t.Errorf("%s: %d, %d µs, guessed %q", c.tail, l, us, f.Guessed)
		}
	}
}

// The format that an error proposes has no name that the lines contradict: an
// upstream cannot take longer than its request.
func TestRefusedTail(t *testing.T) {
	line := `::1 - - [20/Nov/2026:23:58:28 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/7.88.1" 0.050 0.100`
	_, err := Detect([]byte(line+"\n"+line+"\n"), nil)
	var u *UnknownError
	if !errors.As(err, &u) || !strings.HasSuffix(u.Text, `"$http_user_agent" $value_1 $value_2`) {
		t.Errorf("%v: %+v", err, u)
	}
}
