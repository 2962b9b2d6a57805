package ui

import (
	"bytes"
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

// TestSeries: each document of a series has a line of its own, and the messages since the last one.
func TestSeries(t *testing.T) {
	for format, want := range map[Format]string{
		JSON: `{"schema":"a","exit_code":0,"messages":["first"]}` + "\n" + `{"schema":"b","exit_code":7,"messages":[]}` + "\n",
		YAML: "---\nschema: a\nexit_code: 0\nmessages:\n  - first\n---\nschema: b\nexit_code: 7\nmessages: []\n",
	} {
		var out bytes.Buffer
		s := NewScreen(&out, &out)
		s.Format, s.Series, s.Messages = format, true, []string{"first"}
		for i, name := range []string{"a", "b"} {
			if err := Data(s, map[string]string{"schema": name}, 7*i); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != want {
			t.Errorf("%s: %q, want %q", format, out.String(), want)
		}
	}
}
