package product

import (
	"slices"
	"testing"
	"time"

	"fettle.dev/fettle/internal/logformat"
)

// LogLine compares the fields that a format reads from a real server's line with the expected
// values, which are strings or func(string) bool. Times must not precede begun, nor durations
// exceed the time since. It returns the number of times and durations.
func LogLine(t testing.TB, f *logformat.Format, line string, want map[string]any, begun time.Time) (times, durations int) {
	t.Helper()
	spans := make([]logformat.Span, len(f.Fields))
	if f.Scan([]byte(line), spans) != logformat.RequestLine {
		t.Fatalf("not read by %s: %s", f.Source, line)
	}
	for i := range f.Fields {
		field := &f.Fields[i]
		raw := spans[i].Of([]byte(line))
		got := string(field.Escape.Unescape(raw))
		switch w := want[field.Source].(type) {
		case string:
			if got != w {
				t.Errorf("%s is %q, want %q: %s", field.Source, got, w, line)
			}
		case func(string) bool:
			if !w(got) {
				t.Errorf("%s is %q: %s", field.Source, got, line)
			}
		}
		switch field.Kind {
		case logformat.Duration:
			durations++
			if us, ok := field.Duration(raw); got != "-" && (!ok || us < 0 || us > time.Since(begun).Microseconds()) {
				t.Errorf("%s is %q", field.Source, got)
			}
		case logformat.Time: // within the second that it may leave out; Debian's test root is in UTC
			times++
			us, ok := field.Time(raw, nil)
			if at := time.UnixMicro(us); !ok || at.Before(begun.Add(-2*time.Second)) || at.After(time.Now().Add(time.Second)) {
				t.Errorf("%s is %q: %s, it is %s", field.Source, got, at, begun)
			}
		default:
		}
	}
	return times, durations
}

// LogFields expects a format to have fields.
func LogFields(t testing.TB, f *logformat.Format, want map[string]any) {
	t.Helper()
	for source := range want {
		if !slices.ContainsFunc(f.Fields, func(f logformat.Field) bool { return f.Source == source }) {
			t.Errorf("no field is %s", source)
		}
	}
}
