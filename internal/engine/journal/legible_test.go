package journal

import (
	"fmt"
	"strings"
	"testing"
)

func TestLegible(t *testing.T) {
	var many strings.Builder
	for n := range maxLegible + 3 {
		fmt.Fprintf(&many, `{"n":%d,"setting":"sysctl:a.%d"},`, n, n)
	}
	for line, want := range map[string]string{
		"":                      "",
		`xx {"seq":2,"begin":{`: "",
		`{"setting":"sysctl:a.one","before":"1"},{"se\x00ting":"sysctl:b"},{"setting":"sysfs:/sys/x"`: " (it seems to have held sysctl:a.one, sysfs:/sys/x)",
		`{"setting":"sysctl:a"},{"setting":"sysctl:a"}`:                                               " (it seems to have held sysctl:a)",
		`{"setting":"sysctl:cut off`:                                                                  "",
		"{\"setting\":\"sysctl:a\x1b[2J\"}":                                                           "",
		`{"setting":"file:/x","before":"a \"setting\":\"sysctl:no\""}`:                                " (it seems to have held file:/x)",
	} {
		if got := legible([]byte(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := legible([]byte(many.String())); !strings.HasSuffix(got, "sysctl:a.49 and 3 more)") {
		t.Errorf("many: %q", got)
	}
}
