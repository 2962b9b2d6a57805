package satellite

import (
	"bytes"
	"strings"
	"testing"
)

// Whatever a machine's files say, reading them ends, and lines are within them.
func FuzzEntries(f *testing.F) {
	for _, s := range []string{"a: 1\na: 2\nb:\n  c: [x, y]\n", "&a [*a]", "a: &x\n  b: *x\n", ":concurrency: 5\n", "---\n# c\n", "a: {b: {c: "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := entries(text)
		if err != nil {
			return
		}
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029") + 1
		for key, e := range all {
			if e.line < 0 || e.line > lines {
				t.Errorf("%q is on line %d of %d", key, e.line, lines)
			}
		}
	})
}

func FuzzDirectives(f *testing.F) {
	for _, s := range []string{"<IfModule x>\nServerLimit 64\n</IfModule>\n", "A \"b \\\" c\" 'd\n", "A \\\n\\\nB\n", "</x>\n</y>\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range directives(text) {
			if d.line < 1 || d.line > strings.Count(text, "\n")+1 || d.name != strings.ToLower(d.name) {
				t.Errorf("%+v", d)
			}
		}
	})
}

func FuzzLogs(f *testing.F) {
	f.Add("DATABASES = {\"default\": {\"HOST\": \"localhost\"}}\n")
	f.Add(":'pull-mqtt'")
	f.Add("h - - [d] \"GET /\\\" HTTP/1.1\" 503 1\nOut of memory: Killed\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range signs {
			c := counter{match: k.match}
			for line := range bytes.Lines([]byte(text)) {
				c.line(line)
			}
			n, newest := c.n, c.newest
			if lines := strings.Count(text, "\n") + 1; n > lines || newest > lines || (n == 0) != (newest == 0) {
				t.Errorf("%s: %d, newest %d of %d lines", k.name, n, newest, lines)
			}
		}
		if n, last, err := pending(text); err == nil && (n < 0 || (n == 0) != (last == 0)) {
			t.Errorf("%d tasks, the last on line %d", n, last)
		}
		df(text, "/")
		if host, line := pulpDatabase(text); line < 0 || line > strings.Count(text, "\n")+1 || line == 0 && host != "" {
			t.Errorf("Pulp's database %q on line %d", host, line)
		}
		if s := symbol(text); !strings.Contains(text, s) {
			t.Errorf("%q is no part of %q", s, text)
		}
	})
}
