package calls

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	internaltext "fettle.dev/fettle/internal/text"
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
			help := print(append(path, "--help"))
			p.once(t, c, help)
			p.page(t, c, docs, help)
			p.examples(t, c)
			p.finite(t, c)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	whole := p.Tree(nil)
	walk(whole)
	p.released(t, p.Tree([]string{"--wide"}))
	for _, c := range whole.Commands() {
		p.released(t, p.Tree([]string{c.Name()}))
	}
	p.overview(t, print([]string{})) // not nil, for which cobra takes those of the test
}

// released checks that nothing keeps the tree of a call after its end: cobra keeps each flag that
// has a completion, and so the whole tree, until the program ends.
func (p Program) released(t *testing.T, c *cobra.Command) {
	for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if _, kept := c.GetFlagCompletionFunc(f.Name); kept {
				t.Errorf("%s: the tree of a call has a completion of --%s", c.CommandPath(), f.Name)
			}
		})
	}
	for _, sub := range c.Commands() {
		p.released(t, sub)
	}
}

func (p Program) short(t *testing.T, c *cobra.Command) {
	if n := utf8.RuneCountInString(c.Short); n == 0 || n > 60 || strings.HasSuffix(c.Short, ".") && !strings.HasSuffix(c.Short, "...") {
		t.Errorf("%s: want a short text of at most 60 characters without a full stop, got %d: %q", c.CommandPath(), n, c.Short)
	}
}

// manual matches the line of a help that names a page.
var manual = internaltext.LazyRegexp(`(?m)^Manual: docs/(\S+)$`)

// once checks that the description says more than the short text, which the help prints above it,
// and that no default is a number that means no value.
func (p Program) once(t *testing.T, c *cobra.Command, help string) {
	if _, short, _ := strings.Cut(c.Short, " "); strings.Contains(c.Long, " "+short+".\n") {
		t.Errorf("%s --help repeats its short text: %q", c.CommandPath(), c.Short)
	}
	if strings.Contains(help, "(default -1)") {
		t.Errorf("%s --help: the default -1 means no value; leave it out", c.CommandPath())
	}
}

func (p Program) page(t *testing.T, c *cobra.Command, docs, help string) {
	for line := range strings.Lines(help) {
		line = strings.TrimSuffix(line, "\n")
		command := strings.HasPrefix(line, "  "+p.Name+" ") || strings.HasPrefix(line, "    --")
		if n := utf8.RuneCountInString(line); n > 80 && !command {
			t.Errorf("%s --help: a line of %d columns: %s", c.CommandPath(), n, line)
		}
	}
	switch m := manual().FindStringSubmatch(help); {
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
var shellPart = internaltext.LazyRegexp(` (>|;|&&|\|) .*`)

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
		words := Split(strings.TrimSpace(shellPart().ReplaceAllString(args, "")))
		if !ok {
			t.Errorf("%s: the example %q is no call of %s", c.CommandPath(), call, p.Name)
		} else if err := cliutil.Parse(p.Tree(words), words); err != nil {
			t.Errorf("%s: the example %q: %v", c.CommandPath(), call, err)
		}
	}
}

// finite checks that each flag with a finite set of values, by its type or its text, completes
// them, and that a command without arguments does not complete file names.
func (p Program) finite(t *testing.T, c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		few := len(cliutil.Choices(f)) > 0 || strings.Contains(f.Value.Type(), "|") || slices.Contains([]string{"string", "stringArray", "stringSlice", "text", "list"}, f.Value.Type()) && listed().MatchString(f.Usage) && !f.Hidden && !open[f.Name]
		if _, completed := c.GetFlagCompletionFunc(f.Name); few && !completed {
			t.Errorf("%s --%s: its values are not completed: %s", c.CommandPath(), f.Name, f.Usage)
		}
	})
	if strings.HasSuffix(c.UseLine(), c.CommandPath()+" [flags]") && c.Runnable() && !c.HasSubCommands() {
		if out := p.complete(c, ""); !strings.HasSuffix(out, ":4\n") {
			t.Errorf("%s has no arguments, and completes %q", c.CommandPath(), out)
		}
	}
}

// complete returns what the shell gets as completions of a word after a command.
func (p Program) complete(c *cobra.Command, words ...string) string {
	path := strings.Fields(strings.TrimPrefix(c.CommandPath(), p.Name))
	_, out, _ := p.run(slices.Concat([]string{cobra.ShellCompRequestCmd}, path, words))
	return out
}

// listed matches texts of flags with a finite set of values: "tail or all", "hooks, watchers, jobs",
// or what the program can list: releases, formats, rules, methods, objects of a cluster.
var listed = internaltext.LazyRegexp(`(^|: |default )[a-z0-9][\w-]*(, [a-z0-9][\w-]*)*( \([^)]*\))?,? or [a-z0-9][\w-]*($|[;( ])|: [a-z0-9][\w-]*(, ?[a-z0-9][\w-]*)+($|;)|` +
	`\b[Vv]ersion of [A-Z]|\bOpenShift version|\bto this release\b|\bformat of the log|\blog format(,| of )|\brule( with this ID)?:|\bby its ID\b|\bcontext of the|^namespace|\bname of the node\b|\bthis method\b|\bHTTP method\b|: a profile\b|\bthese platforms\b`)

// open are flags whose text only looks like a list of all values: a file, and a metric.
var open = map[string]bool{"log-config": true, "covariate": true}

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
	for _, c := range p.Tree(nil).Commands() {
		if name := c.Name(); !c.Hidden && name != "help" && !c.IsAdditionalHelpTopicCommand() && !regexp.MustCompile(`\b`+name+`\b`).MatchString(text) {
			t.Errorf("%s does not name the verb %s", p.Name, name)
		}
	}
}
