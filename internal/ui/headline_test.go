package ui

import (
	"bytes"
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

// The lines of a bullet after the first one stand below its text.
func TestBullets(t *testing.T) {
	var out bytes.Buffer
	PrintLine(&Screen{Out: &out, Width: 20}, "  - one two three four five")
	if want := "  - one two three\n    four five\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

// The calls that a text names use the state directory of this call.
func TestOwn(t *testing.T) {
	s := &Screen{State: "--state-dir '/a $1'"}
	if got, want := s.Own("fettle runs list shows all; fettle list shows profiles"), "fettle --state-dir '/a $1' runs list shows all; fettle list shows profiles"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
