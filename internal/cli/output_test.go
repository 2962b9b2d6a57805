package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/ui"
)

// What prints and cannot is a failure, whoever prints: a verb, its data, cobra's
// help.
func TestOutputThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "state")
	const copied = "--root ../../testdata/hosts/kvm-guest.txt "
	for _, line := range []string{
		copied + "facts", copied + "facts --brief", copied + "facts -o json", copied + "facts -o yaml",
		copied + "list", copied + "list plugins", copied + "list -o json", copied + "list -o markdown",
		copied + "show balanced", copied + "recommend", copied + "recommend -o yaml",
		copied + "diff balanced", copied + "diff balanced -o json", copied + "why vm.swappiness", copied + "why vm.swappiness -o json",
		copied + "schedule list", copied + "schedule next -o json",
		"status", "status -o json", "history", "history -o json", "schema", "schema plan",
		"--help", "help", "help tune", "tune --help", "schedule", "import", "completion", "completion bash", "--version",
	} {
		t.Run(line, func(t *testing.T) {
			full, err := os.Open(file) // open for reading: no write succeeds
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			var said strings.Builder
			args := append([]string{"--state-dir", state}, strings.Fields(line)...)
			if code := Main("test", args, full, &said); code != 1 || !strings.Contains(said.String(), "bad file descriptor") {
				t.Errorf("exit code %d, said %q; want 1 and why", code, said.String())
			}
			// The same call succeeds where there is room.
			if code := Main("test", args, io.Discard, &said); code != 0 {
				t.Errorf("exit code %d with an output that can be written", code)
			}
		})
	}
}

// An archive does not take the place of a device.
func TestArchiveOfADevice(t *testing.T) {
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{link: "is a device; want a regular file", filepath.Dir(link): "is a directory", "-": "want a file name"} {
		var said strings.Builder
		code := Main("test", []string{"--root", "../../testdata/hosts/kvm-guest.txt", "facts", "--archive", file}, io.Discard, &said)
		if code != 2 || !strings.Contains(said.String(), want) {
			t.Errorf("--archive %s: exit code %d, said %q; want 2 and %q", file, code, said.String(), want)
		}
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the name is %v now (%v)", st.Mode(), err)
	}
}

// A verb of the table is made under the name by which it is asked for.
func TestTableOfVerbs(t *testing.T) {
	for _, v := range verbs {
		if got := v.command(&app{screen: ui.NewScreen(io.Discard, io.Discard)}).Name(); got != v.name {
			t.Errorf("the table calls %s %s", got, v.name)
		}
	}
}

// None of cobra's own "accepts 1 arg(s)" is left: what is missing, or too much, is named.
func TestWordsAreAskedForInSentences(t *testing.T) {
	sentences(t, Command("test"))
}

func sentences(t *testing.T, c *cobra.Command) {
	t.Helper()
	for n := range 5 {
		if err := c.ValidateArgs(slices.Repeat([]string{"x"}, n)); err != nil && strings.Contains(err.Error(), "arg(s)") {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
	}
	for _, sub := range c.Commands() {
		sentences(t, sub)
	}
}
