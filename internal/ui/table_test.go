package ui

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// On a terminal no line exceeds its width and no word is lost; elsewhere each
// row is one line.
func TestGridFitsTheTerminal(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("a profile for many purposes ", 12))
	for _, width := range []int{0, 60, 80, 200} {
		var out strings.Builder
		s := &Screen{Out: &out, Format: Table, Width: width}
		g := Grid{Head: []string{"", "profile", "summary", "from"}, Rows: [][]string{{"*", "throughput-performance", long, "fettle"}, {"", "x", "short", "installed"}}}
		g.Write(s)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, l := range lines {
			if n := len([]rune(l)); width > 0 && n > width {
				t.Errorf("width %d: a line of %d: %q", width, n, l)
			}
		}
		if width == 0 && len(lines) != 3 {
			t.Errorf("no terminal: %d lines, want 3", len(lines))
		}
		if got := strings.Count(out.String(), "purposes"); got != 12 {
			t.Errorf("width %d: the summary has %d of its 12 parts", width, got)
		}
	}
}

// YAML 1.1 readers do not take an unquoted on or 190:20:30 for text.
func TestYAMLForOldReaders(t *testing.T) {
	text := []string{
		"on", "off", "y", "N", "yes", "No", "TRUE", "null", "~", "", "=", "<<", "12", "-1", "+1", "0x1f", "0b1", "017", "1_000",
		"190:20:30", "1:1", "1e3", "1.5", ".5", ".inf", "-.inf", ".NaN", "2026-11-21", "2026-11-21T08:00:00Z", "2026-11-21 08:00:00 +1",
	}
	plain := []string{"vm.swappiness", "only", "yesterday", "sda", "none", "/sys/block"}
	doc := map[string]any{}
	for _, s := range slices.Concat(text, plain) {
		doc[s] = s
	}
	var out strings.Builder
	if err := Data(&Screen{Out: &out, Format: YAML}, doc, 0); err != nil {
		t.Fatal(err)
	}
	for _, s := range text {
		if want := `"` + s + `": "` + s + `"`; !strings.Contains("\n"+out.String(), "\n"+want+"\n") {
			t.Errorf("no line %s in\n%s", want, out.String())
		}
	}
	for _, s := range plain {
		if want := s + ": " + s; !strings.Contains("\n"+out.String(), "\n"+want+"\n") {
			t.Errorf("no line %s in\n%s", want, out.String())
		}
	}
	var back map[string]any
	if err := yaml.Unmarshal([]byte(out.String()), &back); err != nil || back["190:20:30"] != "190:20:30" || back["exit_code"] != 0 {
		t.Errorf("read back: %v %v", err, back)
	}
}

// A cell is one line, also without a width.
func TestGridIsOneLineARow(t *testing.T) {
	var out strings.Builder
	s := NewScreen(&out, &out)
	g := Grid{Rows: [][]string{{"  a", "x\ny\x1b[1m\r\x00\x01\x02\x03\x04\x05\x06", "f:1"}, {"  b", "2", "f:2"}}}
	g.Write(s)
	if n := strings.Count(out.String(), "\n"); n != 2 || strings.ContainsAny(out.String(), "\x1b\x00\r") {
		t.Errorf("%d lines: %q", n, out.String())
	}
}
