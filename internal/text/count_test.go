package text

import (
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
