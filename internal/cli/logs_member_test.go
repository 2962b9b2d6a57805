package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogsMemberThatIsNotThere: a duration that is misspelt, or named of lines without members,
// is refused, and the refusal names commands that read the log.
func TestLogsMemberThatIsNotThere(t *testing.T) {
	const (
		objects  = `{"time":"2026-11-20T10:00:00Z","method":"GET","path":"/a","status":200,"spent":5}`
		timed    = `192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /p HTTP/1.1" 200 9 "-" "A" 0.012 0.010`
		combined = `192.0.2.1 - - [20/Nov/2026:10:00:00 +0000] "GET /p HTTP/1.1" 200 9 "-" "A"`
	)
	for _, c := range []struct {
		line, hint string
		repaired   []string // flags that read it
	}{
		{objects, "--duration spent --unit ms", []string{"--duration", "spent", "--unit", "ms"}},
		{timed, "\n  fettle logs ", nil},
		{combined, "--format 'apache:... %D'", nil},
	} {
		log := filepath.Join(t.TempDir(), "app.log")
		if err := os.WriteFile(log, []byte(strings.Repeat(c.line+"\n", 5)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, talk, code := mainWith(t, t.TempDir(), "logs", "--duration", "tok", "--unit", "ms", log)
		if code != 2 || out != "" || !strings.Contains(talk, strings.TrimLeft(c.hint, "\n ")) {
			t.Errorf("exit %d: %q is not in\n%s%s", code, c.hint, out, talk)
		}
		if _, talk, code := mainWith(t, t.TempDir(), append([]string{"logs", log}, c.repaired...)...); code != 0 {
			t.Errorf("%q: exit %d: %s", c.repaired, code, talk)
		}
	}
}
