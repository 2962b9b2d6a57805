package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/requests/logs"
	internaltext "fettle.dev/fettle/internal/text"
)

// TestLogsFormats: a log whose format the lines do not decide is refused with commands that
// read it; a guess and the share of lines that were not read are in the headline and in JSON.
func TestLogsFormats(t *testing.T) {
	const combined = `192.0.2.1 - - [20/Nov/2026:10:00:%02d +0000] "GET /p HTTP/1.1" 200 9 "-" "A"`
	dir := t.TempDir()
	write := func(name, before, behind string, n int) string {
		path := filepath.Join(dir, name)
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s%s%s%03d\n", before, fmt.Sprintf(combined, i%60), behind, 500+i)
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(b.String()); err != nil {
			t.Fatal(err)
		}
		return path
	}
	uncertain := write("uncertain.log", "", " ", 60)
	_, said, code := mainWith(t, t.TempDir(), "logs", uncertain)
	if code != 4 {
		t.Errorf("exit code %d of a log that several formats read: %s", code, said)
	}
	commands := 0
	for line := range strings.Lines(said) {
		_, text, ok := strings.Cut(line, "--format '")
		text, _, _ = strings.Cut(text, "'  #")
		if !ok {
			continue
		}
		commands++
		if _, said, code := mainWith(t, t.TempDir(), "logs", uncertain, "--format", text); code != 0 {
			t.Errorf("--format %s: exit code %d: %s", text, code, said)
		}
	}
	if commands < 4 {
		t.Errorf("%d commands to choose from: %s", commands, said)
	}

	// The commands are those of the verb that was refused, as sh takes them.
	odd := write("it's $HOME.log", "", " ", 60)
	quoted := internaltext.Quote(odd)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"logs", odd}, "fettle logs " + quoted + " --format 'apache:"},
		{[]string{"logs", "compare", odd, odd}, " logs compare " + quoted + " " + quoted + " --format 'apache:"},
		{[]string{"logs", "export", odd, "--parquet", "new"}, " logs export " + quoted + " --parquet new --format 'apache:"},
		{[]string{"size", "httpd", "--log", odd}, " size httpd --log " + quoted + " --format 'apache:"},
	} {
		_, said, code := mainWith(t, t.TempDir(), c.args...)
		if code != 4 || !strings.Contains(said, c.want) {
			t.Errorf("%q: exit code %d, %s: want %s", c.args, code, said, c.want)
		}
	}

	// A replay takes no duration of it.
	if _, said, code := mainWith(t, t.TempDir(), "load", "http", "--replay", uncertain, "http://127.0.0.1:1"); strings.Contains(said, " --format 'apache:") {
		t.Errorf("exit code %d: %s", code, said)
	}

	turns := write("turns.log", "", "", 0)
	for _, behind := range []string{"", ` "-" rt=0.100 urt="0.100"`} {
		text := strings.Repeat(fmt.Sprintf(combined, 1)+behind+"\n", 50)
		file, err := os.OpenFile(turns, os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	if _, said, code := mainWith(t, t.TempDir(), "load", "http", "--replay", turns, "http://127.0.0.1:1"); code != 4 || !strings.Contains(said, "--replay "+internaltext.Quote(turns)+" http://127.0.0.1:1 --replay-format 'nginx:") {
		t.Errorf("exit code %d: %s", code, said)
	}

	guessed := write("guessed.log", "", " 0.", 60)
	half := write("half.log", "", " 0.", 100)
	write("half.log", "www.example.org ", " 0.", 100)
	for _, c := range []struct {
		path, headline, guessed string
		unread                  uint64
	}{
		{guessed, "guessed: the number with a decimal point is nginx' $request_time, seconds", "that the number with a decimal point is nginx' $request_time, seconds", 0},
		{half, "100 of 200 lines (50 %) not read", "that the number with a decimal point is nginx' $request_time, seconds", 100},
	} {
		args := []string{"logs", c.path, "--slowest", "0"}
		out, said, code := mainWith(t, t.TempDir(), args...)
		headline, _, _ := strings.Cut(out, "\n\n")
		if code != 0 || !strings.Contains(headline, c.headline) {
			t.Errorf("%s: exit code %d, %q, %s", c.path, code, headline, said)
		}
		if out, _, _ := mainWith(t, t.TempDir(), append(args, "--unit", "ms")...); strings.Contains(out, "seconds;") || strings.Contains(out, ", seconds") {
			t.Errorf("%s: --unit ms: %s", c.path, out)
		}
		out, _, _ = mainWith(t, t.TempDir(), append(args, "--output", "json")...)
		var r logs.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if r.Logs[0].Guessed != c.guessed || r.Unread.Lines != c.unread {
			t.Errorf("%s: guessed %q, %d lines not read", c.path, r.Logs[0].Guessed, r.Unread.Lines)
		}
	}
}
