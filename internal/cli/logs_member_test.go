package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogsMemberThatIsNotThere: of JSON lines whose duration is misspelt it is told what they
// have, and nothing of another sort of log.
func TestLogsMemberThatIsNotThere(t *testing.T) {
	log := filepath.Join(t.TempDir(), "app.json")
	line := `{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/a","status":200,"spent":5}` + "\n"
	if err := os.WriteFile(log, []byte(strings.Repeat(line, 5)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, talk, code := mainWith(t, t.TempDir(), "logs", "--duration", "tok", "--unit", "ms", log)
	all := out + talk
	for _, want := range []string{`none of them has "tok", which should be the duration: they have method, path, spent, status, time`, "--duration MEMBER --unit ms names the member of JSON lines that would"} {
		if !strings.Contains(all, want) {
			t.Errorf("exit %d: %q is not in\n%s", code, want, all)
		}
	}
	if strings.Contains(all, "Apache") {
		t.Error(all)
	}
}
