package cliutil

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/ui"
)

// Guide is what the help of a command shows in addition to its flags.
type Guide struct {
	// Page is the file below docs that describes the command; "" is that of its parent.
	Page string
	// Calls are examples without the command itself. The first begins with the arguments:
	// errors about missing arguments propose it.
	Calls []string
}

// Entry places a verb in the help of its program.
type Entry struct {
	Name, Group string
	// Rare verbs have no line of their own in the overview.
	Rare bool
}

// Help prints the help of a program. Entries are in the order in which people work.
type Help struct {
	Screen  *ui.Screen
	Entries []Entry
	// Start ends the overview: the first commands to try.
	Start string
}

// pageOf is the annotation of a command with its page of the manual.
const pageOf = "page"

// Install groups the commands of a tree, and makes them print this help. The program alone
// prints the overview.
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

// width returns the width of the terminal in columns: 80 without one, and at most 120, because
// longer lines are hard to read.
func (h *Help) width() int { return min(cmp.Or(h.Screen.Width, 80), 120) }

// groups calls f for each group with those of its commands that the tree has.
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

// Overview returns what the program is, and its verbs by group, on one screen of 80x24.
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
	flags(&b, "Flags", c.LocalFlags(), c, width)
	if c.HasParent() {
		flags(&b, "Global flags", c.InheritedFlags(), c, width)
	}
	if page := page(c); page != "" {
		fmt.Fprintf(&b, "\nManual: docs/%s\n", page)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help explains a command.\n", c.CommandPath())
	}
	return b.String()
}

// commands writes the subcommands of a command, those of the program by group.
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

// usageLine returns the form of a call: "fettle runs COMMAND", "fettle diff [PROFILE...] [flags]".
func usageLine(c *cobra.Command) string {
	line := c.UseLine()
	if c.HasAvailableSubCommands() && c.Args != nil && len(words(c.Use)) == 0 {
		line = c.CommandPath() + " COMMAND [flags]"
	}
	return line
}

// page returns the page of the manual about a command, or "".
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
		if kind := typeOf(f); kind != "" {
			name += " " + kind
		}
		text := f.Usage
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

// typeOf returns the type of a flag's value for people; "" for a switch.
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

// defaultOf returns the default value of a flag as the flag accepts it; "" for none.
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

// columns writes names with wrapped explanations next to them. A name that is too long for its
// column has the explanation on the next line.
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

// paragraphs wraps a text whose paragraphs are separated by empty lines. Those with an indented
// line are kept as they are.
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

// wrap writes the words of a text after a head, in lines that fit a width in columns. Further
// lines are indented.
func wrap(head, text string, indent, width int) string {
	wrapped := ui.Wrap(strings.Join(strings.Fields(text), " "), width-indent)
	return strings.TrimRight(head+strings.ReplaceAll(wrapped, "\n", "\n"+strings.Repeat(" ", indent)), " ") + "\n"
}
