package spell_test

import (
	"testing"

	"fettle.dev/fettle/internal/spell"
)

func TestSuggest(t *testing.T) {
	known := []string{"sysctl", "sysfs", "cpu", "disk", "vm", "energy_performance_preference"}
	for word, want := range map[string]string{
		"sysctls": ` (did you mean "sysctl"?)`, "sysf": ` (did you mean "sysfs"?)`, "cpus": ` (did you mean "cpu"?)`, "dsk": ` (did you mean "disk"?)`,
		"energy_performance_prefs": "", "banana": "", "CPU": ` (did you mean "cpu"?)`, "": "", "x": "",
		"energy_perfomance_preferense": ` (did you mean "energy_performance_preference"?)`,
	} {
		if got := spell.Suggest(word, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := spell.Suggest("s13", []string{"E13", "S13", "S1"}); got != ` (did you mean "S13"?)` {
		t.Error(got)
	}
}
