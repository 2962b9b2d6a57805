package calls

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
)

// Help checks the help of every command: a short line, examples that parse, lines of at most 80
// columns, a page of the manual that exists in docs, and completion of flags with few values.
func (p Program) Help(t *testing.T, docs string) {
	print := func(args []string) string {
		code, out, said := p.run(args)
		if code != 0 {
			t.Errorf("%q: exit code %d: %s", args, code, said)
		}
		return out
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		p.short(t, c)
		if !strings.Contains(c.CommandPath(), " completion") { // cobra's own
			path := strings.Fields(strings.TrimPrefix(c.CommandPath(), p.Name))
			p.page(t, c, docs, print(append(path, "--help")))
			p.examples(t, c)
			finite(t, c)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(p.Tree())
	p.overview(t, print(nil))
}

func (p Program) short(t *testing.T, c *cobra.Command) {
	if n := utf8.RuneCountInString(c.Short); n == 0 || n > 60 || strings.HasSuffix(c.Short, ".") && !strings.HasSuffix(c.Short, "...") {
		t.Errorf("%s: want a short text of at most 60 characters without a full stop, got %d: %q", c.CommandPath(), n, c.Short)
	}
}

// manual matches the line of a help that names a page.
var manual = regexp.MustCompile(`(?m)^Manual: docs/(\S+)$`)

func (p Program) page(t *testing.T, c *cobra.Command, docs, help string) {
	for line := range strings.Lines(help) {
		line = strings.TrimSuffix(line, "\n")
		command := strings.HasPrefix(line, "  "+p.Name+" ") || strings.HasPrefix(line, "    --")
		if n := utf8.RuneCountInString(line); n > 80 && !command {
			t.Errorf("%s --help: a line of %d columns: %s", c.CommandPath(), n, line)
		}
	}
	switch m := manual.FindStringSubmatch(help); {
	case m != nil:
		if _, err := os.Stat(filepath.Join(docs, m[1])); err != nil {
			t.Errorf("%s --help names a page: %v", c.CommandPath(), err)
		}
		p.indexed(t, c, docs, m[1])
	case c.HasParent():
		t.Errorf("%s --help names no page of the manual", c.CommandPath())
	}
}

// indexed checks that the index of the manual has a row for a verb, and a link to its page.
func (p Program) indexed(t *testing.T, c *cobra.Command, docs, page string) {
	index, err := os.ReadFile(filepath.Join(docs, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(index), "]("+page+")") {
		t.Errorf("docs/README.md has no link to %s, the page of %s", page, c.CommandPath())
	}
	verb := "`" + strings.TrimPrefix(c.CommandPath(), "fettle ") + "`"
	if c.Parent() == c.Root() && !c.Hidden && !c.IsAdditionalHelpTopicCommand() && !strings.Contains(string(index), verb) {
		t.Errorf("docs/README.md has no row for %s", verb)
	}
}

// shellPart matches what follows a call in an example: a redirection or a further command.
var shellPart = regexp.MustCompile(` (>|;|&&|\|) .*`)

func (p Program) examples(t *testing.T, c *cobra.Command) {
	if !c.Runnable() || !c.HasParent() {
		return
	}
	text := strings.ReplaceAll(c.Example, "\\\n", "")
	calls := strings.Split(strings.TrimSpace(text), "\n")
	if least := map[bool]int{true: 1, false: 2}[c.HasSubCommands()]; len(calls) < least && c.Name() != "worker" { // which another fettle starts
		t.Errorf("%s: want %d examples, got %q", c.CommandPath(), least, calls)
	}
	for _, call := range calls {
		if call == "" {
			continue
		}
		args, ok := strings.CutPrefix(strings.TrimSpace(call), p.Name)
		words := Split(strings.TrimSpace(shellPart.ReplaceAllString(args, "")))
		if !ok {
			t.Errorf("%s: the example %q is no call of %s", c.CommandPath(), call, p.Name)
		} else if err := cliutil.Parse(p.Tree(), words); err != nil {
			t.Errorf("%s: the example %q: %v", c.CommandPath(), call, err)
		}
	}
}

// finite checks that flags with a few values are completed.
func finite(t *testing.T, c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		few := len(cliutil.Choices(f)) > 0 || strings.Contains(f.Value.Type(), "|")
		if _, completed := c.GetFlagCompletionFunc(f.Name); few && !completed {
			t.Errorf("%s --%s: its values are not completed", c.CommandPath(), f.Name)
		}
	})
}

// overview checks the output of the program alone: it fits a terminal of 80x24 with a prompt,
// and names each verb.
func (p Program) overview(t *testing.T, text string) {
	if n := strings.Count(text, "\n"); n > 23 {
		t.Errorf("%s prints %d lines, want at most 23", p.Name, n)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%s: a line of %d columns: %s", p.Name, n, line)
		}
	}
	for _, c := range p.Tree().Commands() {
		if name := c.Name(); !c.Hidden && name != "help" && !c.IsAdditionalHelpTopicCommand() && !regexp.MustCompile(`\b`+name+`\b`).MatchString(text) {
			t.Errorf("%s does not name the verb %s", p.Name, name)
		}
	}
}
