package systemd

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Parsing ends for any input and returns only assignments.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"[Service]\nA=1 \\\n# c\n2\n", "[S]\nA=\"x\\\n", "\ufeff[S]\nA=%i%%\n[", "A=1\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range parse("f", []byte(text)) {
			if l.section == "" || strings.ContainsAny(l.key, "\n=") || strings.Contains(l.value, "\n") || !utf8.ValidString(l.value) || l.number < 1 {
				t.Errorf("%+v", l)
			}
			u := &Unit{Name: "a@b.service"}
			for _, w := range u.assignments(l.value) {
				if !assignment().MatchString(w) {
					t.Errorf("%q is no assignment", w)
				}
			}
			_, _ = ParseLimit(l.value)
		}
		_, _ = parseLimits(text, "Max open files")
	})
}

func FuzzEnvironmentFile(f *testing.F) {
	for _, s := range []string{"A=1\nB='x\ny'\n", "#\\\n", "A=\"\\\"\n", "A=\\", "=\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for _, a := range EnvironmentFile(text) {
			if a.Line <= last && last > 0 && a.Line < last || !assignment().MatchString(a.Name+"=") {
				t.Errorf("%+v after line %d", a, last)
			}
			last = a.Line
		}
	})
}
