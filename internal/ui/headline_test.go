package ui

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestHeadline(t *testing.T) {
	var h Headline
	h.Line("%s, %s, %s fine", h.Count("problems", 1, "problem"), h.Count("warnings", 12000, "warning"), h.Count("passes", 0, ""))
	h.Line("CPU steal %s of %s", h.Figure("cpu_steal_percent", 31.4159, "%"), h.Value("memory_bytes", 2<<30, "2 GiB"))
	var out strings.Builder
	PrintHeadline(&Screen{Out: &out, Format: Table, Width: 30}, &h)
	if want := "1 problem, 12,000 warnings, 0\nfine\nCPU steal 31.4 % of 2 GiB\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	doc, err := json.Marshal(h)
	if want := `{"lines":["1 problem, 12,000 warnings, 0 fine","CPU steal 31.4 % of 2 GiB"],"figures":{"cpu_steal_percent":31.4159,"memory_bytes":2147483648,"passes":0,"problems":1,"warnings":12000}}`; err != nil || string(doc) != want {
		t.Errorf("%s %v, want %s", doc, err, want)
	}
}

func TestWrapKeepsUnits(t *testing.T) {
	got := Wrap("CPU pressure 97.6 % in the last 2 s (limit 50 %)", 34)
	if want := "CPU pressure 97.6 % in the last\n2 s (limit 50 %)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
