package cliutil

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/ui"
)

// Guide is what a command's help contains in addition to flags.
type Guide struct {
	// Page is the file below docs that describes the command; "" means the parent command's page.
	Page string
	// Calls are examples without the command itself. The first one begins with the arguments:
	// errors about missing arguments suggest it.
	Calls []string
}

// Entry is a verb in its program's help.
type Entry struct {
	Name, Group string
	// Rare verbs are not listed in the overview.
	Rare bool
}

// Help prints a program's help. Its entries are in the order of a typical workflow.
type Help struct {
	Screen  *ui.Screen
	Entries []Entry
	// Start is the end of the overview: the first commands to try.
	Start string
}

// pageOf is the annotation for a command's manual page.
const pageOf = "page"

// Install groups the commands of a tree and makes them print this help. The program without a
// verb prints the overview.
func (h *Help) Install(root *cobra.Command) {
	for _, e := range h.Entries {
		if !root.ContainsGroup(e.Group) {
			root.AddGroup(&cobra.Group{ID: e.Group, Title: e.Group})
		}
		for _, c := range root.Commands() {
			if c.Name() == e.Name {
				c.GroupID = e.Group
			}
		}
	}
	root.RunE = func(c *cobra.Command, _ []string) error {
		_, err := fmt.Fprint(c.OutOrStdout(), h.Overview(c))
		return err
	}
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprint(c.OutOrStdout(), h.Text(c))
	})
}

// width returns the terminal's width in columns: 80 without a terminal, and at most 120,
// because longer lines are hard to read.
func (h *Help) width() int { return min(cmp.Or(h.Screen.Width, 80), 120) }

// groups calls f for each group with the group's commands in the tree.
func (h *Help) groups(root *cobra.Command, f func(group string, verbs []*cobra.Command, rare []string)) {
	for _, g := range root.Groups() {
		var verbs []*cobra.Command
		var rare []string
		for _, e := range h.Entries {
			at := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == e.Name })
			if e.Group != g.ID || at < 0 {
				continue
			}
			verbs = append(verbs, root.Commands()[at])
			if e.Rare {
				rare = append(rare, e.Name)
			}
		}
		f(g.Title, verbs, rare)
	}
}

// Overview describes the program and lists its verbs by group, on a screen of 80x24.
func (h *Help) Overview(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", root.DisplayName(), root.Short)
	var also []string
	h.groups(root, func(group string, verbs []*cobra.Command, rare []string) {
		also = append(also, rare...)
		for _, c := range verbs {
			if slices.Contains(rare, c.Name()) {
				continue
			}
			fmt.Fprintf(&b, "%-9s%-10s%s\n", group, c.Name(), c.Short)
			group = ""
		}
	})
	b.WriteString(wrap("Also: ", strings.Join(also, ", "), 6, h.width()))
	b.WriteString(h.Start + "\n")
	return b.String()
}

// Text returns the whole help of a command.
func (h *Help) Text(c *cobra.Command) string {
	var b strings.Builder
	width := h.width()
	b.WriteString(wrap("", c.Short, 0, width))
	if c.Long != "" {
		b.WriteString("\n" + paragraphs(c.Long, width))
	}
	if c.Runnable() || c.HasSubCommands() {
		b.WriteString("\nUsage:\n" + wrap("  ", usageLine(c), 6, width))
	}
	if c.HasExample() {
		b.WriteString("\nExamples:\n" + strings.TrimRight(c.Example, "\n") + "\n")
	}
	h.commands(&b, c, width)
	topic := c.HasParent() && !c.Runnable() && !c.HasSubCommands() // only a text
	if !topic {
		flags(&b, "Flags", c.LocalFlags(), c, width)
	}
	if c.HasParent() && !topic {
		flags(&b, "Global flags", c.InheritedFlags(), c, width)
	}
	if page := page(c); page != "" {
		fmt.Fprintf(&b, "\nManual: %s\n", manualPath(page))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help explains a command.\n", c.CommandPath())
	}
	return b.String()
}

// commands writes the subcommands of a command. It groups the program's verbs.
func (h *Help) commands(b *strings.Builder, c *cobra.Command, width int) {
	list := func(title string, subs []*cobra.Command) {
		var lines [][2]string
		for _, sub := range subs {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				lines = append(lines, [2]string{"  " + sub.Name(), sub.Short})
			}
		}
		columns(b, title, lines, width)
	}
	if c.HasParent() {
		list("Commands", c.Commands())
		return
	}
	h.groups(c, func(group string, verbs []*cobra.Command, _ []string) { list(group, verbs) })
}

// usageLine returns the syntax of a call: "fettle diff [PROFILE...] [flags]".
func usageLine(c *cobra.Command) string {
	line := c.UseLine()
	if c.HasAvailableSubCommands() && c.Args != nil && len(words(c.Use)) == 0 {
		line = c.CommandPath() + " COMMAND [flags]"
	}
	return line
}

// manualPath returns where a page of the manual is: the file that a package or make install has put
// next to the program (PREFIX/share/doc/PROGRAM, possibly compressed), or else docs/ of the source.
func manualPath(page string) string {
	program, err := os.Executable()
	if err != nil {
		return "docs/" + page
	}
	installed := filepath.Join(filepath.Dir(program), "../share/doc", filepath.Base(program), page)
	for _, file := range []string{installed, installed + ".gz"} {
		if _, err := os.Stat(file); err == nil { //nolint:forbidigo // of this program, not of the machine that --root names
			return file
		}
	}
	return "docs/" + page
}

// page returns the manual page of a command, or "".
func page(c *cobra.Command) string {
	for ; c != nil; c = c.Parent() {
		if p := c.Annotations[pageOf]; p != "" {
			return p
		}
	}
	return ""
}

// flags writes the visible flags of a set under a title.
func flags(b *strings.Builder, title string, set *pflag.FlagSet, c *cobra.Command, width int) {
	var lines [][2]string
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		name := "      --" + f.Name
		if f.Shorthand != "" {
			name = "  -" + f.Shorthand + ", --" + f.Name
		}
		kind, text := typeOf(f), f.Usage
		if strings.Contains(text, "`") { // the usage names the value
			kind, text = pflag.UnquoteUsage(f)
		}
		if kind != "" {
			name += " " + kind
		}
		if more := strings.Fields(c.Annotations[MoreFormats]); f.Name == "output" && len(more) > 0 {
			text = "format: " + strings.Join(append(ui.FormatNames(), more...), ", ")
		}
		if d := defaultOf(f); d != "" && !strings.Contains(text, "(default") {
			text += " (default " + d + ")"
		}
		lines = append(lines, [2]string{name, text})
	})
	columns(b, title, lines, width)
}

// typeOf returns the type of a flag's value for people, or "" for a switch.
func typeOf(f *pflag.Flag) string {
	switch kind := f.Value.Type(); kind {
	case "bool":
		return ""
	case "string", "stringArray":
		return "text"
	case "strings", "stringSlice", "intSlice", "ints":
		return "list"
	case "int", "int64", "uint", "uint64", "count":
		return "count"
	case "float64", "float":
		return "number"
	case "duration":
		return "time"
	default:
		return kind
	}
}

// defaultOf returns a flag's default as the flag accepts it, or "".
func defaultOf(f *pflag.Flag) string {
	d := strings.Trim(f.DefValue, "[]")
	switch d {
	case "", "0", "0s", "false":
		if f.Value.Type() != "count" {
			return ""
		}
	}
	if f.Value.Type() == "duration" {
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(d, zero) {
				d = d[:len(d)-2]
			}
		}
	}
	return d
}

// columns writes names next to wrapped explanations. If a name is too long for its column, the
// explanation is on the next line.
func columns(b *strings.Builder, title string, lines [][2]string, width int) {
	if len(lines) == 0 {
		return
	}
	const gap, most = 2, 30
	indent := 0
	for _, l := range lines {
		if n := utf8.RuneCountInString(l[0]) + gap; n <= most {
			indent = max(indent, n)
		}
	}
	indent = cmp.Or(indent, 8)
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, l := range lines {
		name, text := l[0], l[1]
		if n := utf8.RuneCountInString(name) + gap; n > indent {
			b.WriteString(strings.TrimRight(name, " ") + "\n")
			name = ""
		}
		b.WriteString(wrap(fmt.Sprintf("%-*s", indent, name), text, indent, width))
	}
}

// paragraphs wraps the paragraphs of a text, which are separated by empty lines. It does not
// change paragraphs with an indented line.
func paragraphs(text string, width int) string {
	var out []string
	for p := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			out = append(out, p+"\n")
			continue
		}
		out = append(out, wrap("", p, 0, width))
	}
	return strings.Join(out, "\n")
}

// wrap writes a text after head in lines of at most width columns, all but the first indented.
func wrap(head, text string, indent, width int) string {
	wrapped := ui.Wrap(strings.Join(strings.Fields(text), " "), width-indent)
	return strings.TrimRight(head+strings.ReplaceAll(wrapped, "\n", "\n"+strings.Repeat(" ", indent)), " ") + "\n"
}
