package cli

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/cliutil"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestFindingCommands looks at the command of every finding of the recorded machines. Those of
// fettle are accepted for the machine, and fix and tune are run as a preview; those of other
// programs are valid for a shell, and have no words to fill in.
func TestFindingCommands(t *testing.T) {
	toFill := regexp.MustCompile(`(^| )[A-Z]{3,}( |$)`)
	ran := map[string]bool{}
	for _, root := range recordedMachines(t) {
		r, _ := checked(t, "--all", "--root", root)
		for _, f := range r.Findings {
			commands := []string{"fettle check --explain " + f.ID, f.Ask}
			if f.Fix != nil {
				commands = append(commands, f.Fix.Command)
				if len(f.Fix.Changes) > 0 {
					commands = append(commands, "fettle fix "+f.ID)
				}
			}
			for _, c := range commands {
				words := strings.Fields(c)
				if c == "" || ran[c] {
					continue
				}
				ran[c] = true
				switch {
				case toFill.MatchString(c):
					t.Errorf("%s: %q has a word to fill in", f.ID, c)
				case words[0] != "fettle":
					if out, err := exec.Command("sh", "-n", "-c", c).CombinedOutput(); err != nil {
						t.Errorf("%s: %q: %v: %s", f.ID, c, err, out)
					}
				default:
					preview(t, root, words[1:])
				}
			}
		}
	}
	if len(ran) < testkitroot.Sample(100) {
		t.Errorf("only %d commands", len(ran))
	}
}

// preview parses a call, and runs it for a copy if it is one of fix or tune, without a change.
func preview(t *testing.T, root string, words []string) {
	t.Helper()
	if err := cliutil.Parse(tree("test", words), words); err != nil {
		t.Errorf("%s: %q is not taken: %v", root, words, err)
		return
	}
	args := append(words, "--root", root)
	switch words[0] {
	case "fix":
		args = append(args, "--write", t.TempDir())
	case "tune":
		args[0] = "diff"
	default:
		return // check --explain is run in TestCheckCommands, measurements are not
	}
	var out, said strings.Builder
	if code := Main("test", args, &out, &said); code != 0 || out.Len() == 0 {
		t.Errorf("%q: exit code %d: %s", args, code, &said)
	}
}
