// Package calls tests the error messages for invalid calls: each must print a valid call. The
// tests of both programs use it, each with its own command tree.
package calls

import (
	"bytes"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Program is a program whose rejected calls are tested.
type Program struct {
	Name string                             // as typed: kubectl fettle
	Tree func(args []string) *cobra.Command // a new tree of the commands that a call needs; all without args
	Main func(version string, args []string, out, errw io.Writer) int
	// Free are the options whose text has no invalid form before the command runs: file names,
	// hosts and the like. All other text options must reject invalid text.
	Free []string
}

// run makes a call.
func (p Program) run(args []string) (code int, printed, said string) {
	var out, errw bytes.Buffer
	code = p.Main("test", args, &out, &errw)
	return code, out.String(), errw.String()
}

// Refusals makes invalid calls of every command, one per option. It expects exit code 2, and a
// printed call that parses without an error.
func (p Program) Refusals(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() != "help" && !c.IsAdditionalHelpTopicCommand() && !strings.Contains(c.CommandPath(), "completion") && !strings.HasPrefix(c.Name(), "__") {
			p.command(t, c)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(p.Tree(nil))
}

// command makes the invalid calls of one command.
func (p Program) command(t *testing.T, c *cobra.Command) {
	if c.DisableFlagParsing {
		return // its options are those of another program
	}
	path := strings.Fields(strings.TrimPrefix(c.CommandPath(), p.Name))
	if own, _, err := p.Tree(path).Find(path); err == nil && c.HasParent() {
		own.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, completes := own.GetFlagCompletionFunc(f.Name); completes {
				t.Errorf("%s --%s: cobra keeps the command of a flag that completes: register it in the full tree only", c.CommandPath(), f.Name)
			}
		})
	}
	base := path
	if c.HasSubCommands() {
		// Use its example as the valid call.
	} else {
		base = append(slices.Clip(base), cliutil.ExampleWords(c)...)
	}
	p.refused(t, c, false, path...)
	p.refused(t, c, false, append(slices.Clip(base), strings.Fields(strings.Repeat("surplus ", 9))...)...)
	p.refused(t, c, true, append(slices.Clip(base), "--no-such-option")...)
	p.refused(t, c, true, append(slices.Clip(base), "--no-such-option=5")...)
	if c.HasSubCommands() && !c.HasParent() {
		p.refused(t, c, true, "no-such-verb")
	}
	for _, set := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == "version" || c.HasParent() && set != c.LocalFlags() && c.Parent().HasParent() {
				return
			}
			p.refused(t, c, true, append(slices.Clip(base), "--"+f.Name+"x")...)
			if f.NoOptDefVal == "" {
				p.refused(t, c, true, append(slices.Clip(base), "--"+f.Name)...)
			}
			if slices.Contains(p.Free, f.Name) {
				return
			}
			p.refused(t, c, true, append(slices.Clip(base), "--"+f.Name+"=!")...)
			p.refused(t, c, false, append(slices.Clip(base), "--"+f.Name+"=-1")...)
		})
	}
}

// refused makes a call and checks its error message. If must is set, an error is required.
func (p Program) refused(t *testing.T, c *cobra.Command, must bool, args ...string) {
	t.Helper()
	if cliutil.Parse(p.Tree(args), args) == nil {
		if must {
			t.Errorf("%s %s: it is taken", p.Name, strings.Join(args, " "))
		}
		return
	}
	code, _, said := p.run(args)
	call := Printed(p.Name, said)
	for _, fault := range Figures(said) {
		t.Errorf("%s %s: %s", p.Name, strings.Join(args, " "), fault)
	}
	if code != ui.Usage || call == nil {
		t.Errorf("%s %s: exit code %d and no call: %s", p.Name, strings.Join(args, " "), code, said)
		return
	}
	root := p.Tree(call)
	if err := cliutil.Parse(root, call); err != nil {
		t.Errorf("%s %s: %q is printed, and is not taken: %v", p.Name, strings.Join(args, " "), call, err)
	}
	if meant, _, err := root.Find(call); err != nil || args[0] != "no-such-verb" && meant.CommandPath() != c.CommandPath() {
		t.Errorf("%s %s: %q is printed, which is another command", p.Name, strings.Join(args, " "), call)
	}
}

// Printed returns the call in a message, split as by a shell, or nil.
func Printed(program, said string) []string {
	for line := range strings.Lines(said) {
		line = strings.TrimPrefix(strings.TrimSpace(line), program+": ")
		for _, before := range []string{"run: ", "for example: ", "run again: "} {
			if _, call, ok := strings.Cut(line, before+program+" "); ok {
				return Split(call)
			}
		}
	}
	return nil
}

// plain matches calls without characters that are special in a shell.
var plain = internaltext.LazyRegexp(`^[\w ./:=,@%+-]+$`)

// Split splits a call into words as a shell does. It returns nil if the shell reports an error.
func Split(call string) []string {
	if plain().MatchString(call) {
		return strings.Fields(call)
	}
	out, err := exec.Command("sh", "-c", "set -f; for w in "+call+`; do printf '%s\n' "$w"; done`).Output()
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}
