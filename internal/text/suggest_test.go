package text_test

import (
	"testing"

	"fettle.dev/fettle/internal/text"
)

func TestSuggest(t *testing.T) {
	known := []string{"sysctl", "sysfs", "cpu", "disk", "vm", "energy_performance_preference"}
	for word, want := range map[string]string{
		"sysctls": ` (did you mean "sysctl"?)`, "sysf": ` (did you mean "sysfs"?)`, "cpus": ` (did you mean "cpu"?)`, "pcu": ` (did you mean "cpu"?)`, "dsk": ` (did you mean "disk"?)`,
		"energy_performance_prefs": "", "banana": "", "CPU": ` (did you mean "cpu"?)`, "": "", "x": "",
		"energy_perfomance_preferense": ` (did you mean "energy_performance_preference"?)`,
	} {
		if got := text.Suggest(word, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := text.Suggest("s13", []string{"E13", "S13", "S1"}); got != ` (did you mean "S13"?)` {
		t.Error(got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"run", "run", 0}, {"rnu", "run", 1}, {"foo", "pod", 2}, {"inr", "inner", 2}, {"exceute", "execute", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"abcd", "badc", 2}} {
		if got := text.EditDistance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
