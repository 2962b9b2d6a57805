package ui

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

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
