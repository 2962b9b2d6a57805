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

// TestLogsChangedFormat: of a log whose server was given another format meanwhile, the command
// that is named reads the lines that were not read.
func TestLogsChangedFormat(t *testing.T) {
	const line = `192.0.2.1 - - [20/Nov/2026:10:00:05 +0000] "GET /i HTTP/2.0" 200 12 "-" "curl/8"`
	log := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(log, []byte(strings.Repeat(line+"\n", 60)+strings.Repeat(line+" 0.100 0.100\n", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, talk, _ := mainWith(t, t.TempDir(), "logs", log)
	_, text, named := strings.Cut(out, "--format '")
	text, _, _ = strings.Cut(text, "'\n")
	if !strings.Contains(out, "40 of 100 lines (40 %) not read") || !named {
		t.Fatalf("%s%s", out, talk)
	}
	if out, talk, code := mainWith(t, t.TempDir(), "logs", log, "--format", text); code != 0 || !strings.Contains(out, "40 requests") {
		t.Errorf("--format %s: exit %d: %s%s", text, code, out, talk)
	}
	whole := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(whole, []byte(strings.Repeat(line+"\n", 60)+strings.Repeat("nothing\n", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, _ := mainWith(t, t.TempDir(), "logs", whole); strings.Contains(out, "--format") {
		t.Error(out)
	}
}
