package cli

import (
	"strings"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestCheckCommands runs every command of fettle that an audit of the recorded machines prints,
// on the machine for which it was printed: check --explain as it is, fix with --write, and of
// tune the preview. The audit fits on a screen of 40 lines.
func TestCheckCommands(t *testing.T) {
	ran := map[string]bool{}
	for _, host := range recordedMachines(t) {
		var out, said strings.Builder
		if code := Main("test", []string{"check", "--root", host}, &out, &said); code != 0 {
			t.Errorf("%s: exit code %d: %s", host, code, &said)
		}
		if n := strings.Count(out.String(), "\n"); n > 40 {
			t.Errorf("%s: %d lines", host, n)
		}
		for line := range strings.Lines(out.String()) {
			command, ok := strings.CutPrefix(strings.Replace(strings.TrimSuffix(line, "\n"), "on that machine: ", "", 1), "    fettle ")
			words := strings.Fields(command)
			if !ok || ran[words[0]+words[len(words)-1]] {
				continue
			}
			ran[words[0]+words[len(words)-1]] = true
			switch words[0] {
			case "fix":
				words = append(words, "--root", host, "--write", t.TempDir())
			case "tune":
				words = []string{"diff", words[1], "--root", host}
			}
			var out, said strings.Builder
			if code := Main("test", words, &out, &said); code != 0 || out.Len() == 0 {
				t.Errorf("%s: %q: exit code %d: %s", host, words, code, &said)
			}
		}
	}
	if len(ran) < testkitroot.Sample(20) {
		t.Errorf("only %d commands", len(ran))
	}
}
