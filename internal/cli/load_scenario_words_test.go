package cli

import (
	"bytes"
	"strings"
	"testing"
)

// TestScenarioWords: a misspelled name or command is suggested, and --dry-run does not pretend to
// have a document.
func TestScenarioWords(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"lst"}, "load scenario list\n"},
		{[]string{"shwo"}, "load scenario show "},
		{[]string{"exmaple"}, "load scenario example\n"},
		{[]string{"quux"}, "fettle load scenario list shows the shipped scenarios"},
		{[]string{"example", "--dry-run", "--output", "json"}, "--dry-run only prints messages; leave out --output json"},
		{[]string{"example", "--ladder", "1..3", "--dry-run", "--output", "yaml"}, "leave out --output yaml"},
	} {
		var out, said bytes.Buffer
		code := Main("test", append([]string{"--state-dir", t.TempDir(), "load", "scenario"}, c.args...), &out, &said)
		if code != 2 || !strings.Contains(out.String()+said.String(), c.says) {
			t.Errorf("%q: exit %d, want 2 and %q:\n%s%s", c.args, code, c.says, out.String(), said.String())
		}
	}
}
