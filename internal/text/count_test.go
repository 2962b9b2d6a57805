package text

import (
	"math"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"0 nodes": Count(0, "node"), "1 node": Count(1, "node"), "2 nodes": Count(int64(2), "node"), "1 process": Count(1, "process"), "5 processes": Count(5, "process"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want string
	}{
		{"", 10, ""}, {"0123456789", 10, "0123456789"}, {"0123456789a", 10, "0123456..."}, {"012345ü789", 10, "012345..."},
		{strings.Repeat("€", 5), 10, "€€..."},
	} {
		if got := Truncate(tt.text, tt.most); got != tt.want {
			t.Errorf("%q in %d: %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}

func TestSprintf(t *testing.T) {
	for _, c := range []struct {
		want, format string
		arg          any
	}{
		{"12,345 of", "%d of", 12345}, {"-12,345", "%d", int64(-12345)}, {"1,000", "%v", uint64(1000)}, {"12,346", "%.0f", 12345.6}, {"-0.4", "%.1f", -0.4}, {"0", "%.0f", -0.4},
		{" 12345", "%6d", 12345}, {"007", "%03d", 7}, {"3a", "%x", 58}, {"NaN", "%v", math.NaN()}, {"9223372036854775807", "%d", math.MaxInt64}, {"x", "%s", "x"}, {`%!s(int=3)`, "%s", 3},
	} {
		if got := Sprintf(c.format, c.arg); got != c.want {
			t.Errorf("%s of %v: %q, want %q", c.format, c.arg, got, c.want)
		}
	}
}
