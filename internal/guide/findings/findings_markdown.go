package findings

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// Markdown writes an audit for a ticket. Bad findings are in full. The others are counted, and
// listed if all is true.
func Markdown(out io.Writer, a *Audit, all bool) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "# Audit of %s\n\n%s\n\n", MarkdownText(a.Machine), a.Time.UTC().Format("2006-01-02 15:04 UTC"))
	for _, l := range a.Headline.Lines {
		fmt.Fprintf(w, "%s\n\n", MarkdownText(l))
	}
	for _, l := range a.mended() {
		fmt.Fprintf(w, "- %s\n", MarkdownText(l))
	}
	if len(a.mended()) > 0 {
		fmt.Fprintln(w)
	}
	var rest []group
	for _, g := range a.fewer(a.groups()) {
		if !Bad(g.State) || g.Change == Same {
			rest = append(rest, g)
			continue
		}
		sign, _ := findingSign(g.State)
		change := ""
		if g.Change != "" {
			change = " (" + string(g.Change) + ")"
		}
		fmt.Fprintf(w, "## %s %s%s: %s %s\n\n", sign, g.State, change, MarkdownText(g.ID), MarkdownText(g.Heading()))
		if g.Because != "" {
			fmt.Fprintf(w, "- because of %s\n", MarkdownText(g.Because))
		}
		if g.Reason != "" {
			fmt.Fprintf(w, "- %s\n", MarkdownText(g.Reasons()))
		} else {
			for _, i := range g.Told() {
				if says := i.full(); says != "" {
					fmt.Fprintf(w, "- %s\n", MarkdownText(says))
				}
			}
		}
		fmt.Fprintf(w, "- why: %s\n", MarkdownText(g.Why))
		for _, l := range g.fixLines() {
			fmt.Fprintf(w, "- fix: %s%s%s\n", markdownWords(l.before+l.where), markdownCode(l.command), markdownWords(l.after))
		}
		fmt.Fprintf(w, "- source: %s\n\n", MarkdownText(rule.SourceWords(g.Sources)))
	}
	if all && len(rest) > 0 {
		fmt.Fprint(w, "## The rest\n\n| finding | rule | what | |\n|---|---|---|---|\n")
		for _, g := range rest {
			for _, i := range g.Items {
				sign, _ := findingSign(g.State)
				says := g.Reason
				if says == "" && g.State != rule.Reminded {
					says = i.full()
				}
				fmt.Fprintf(w, "| %s %s | %s | %s | %s |\n", sign, g.State, MarkdownText(g.ID), MarkdownText(g.Heading()), MarkdownText(says))
			}
		}
		fmt.Fprintln(w)
	}
	if next := a.next(true); next != "" {
		fmt.Fprintf(w, "Next: %s.\n", MarkdownText(next))
	}
	return w.Flush()
}

// entity lists the characters that may follow the "&" of an entity (CommonMark 2.5).
const entity = "#abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// markdownWords is MarkdownText, but keeps leading and trailing blanks.
func markdownWords(s string) string {
	text := strings.TrimSpace(s)
	if text == "" {
		return s
	}
	before, after, _ := strings.Cut(s, text)
	return before + MarkdownText(text) + after
}

// markdownCode returns a command as code, for copying (CommonMark 6.1). If the command could end
// the code, or contains text that ticket systems interpret in code, it is returned as text.
func markdownCode(s string) string {
	if s == "" || s != ui.Printable(s) || strings.ContainsAny(s, "`<@\n\t") || strings.Contains(s, "://") {
		return markdownWords(s)
	}
	return "`" + s + "`"
}

// MarkdownText escapes text. No part of it is then markup of Markdown (CommonMark 2.4) or HTML, or
// mentions a person or ticket.
func MarkdownText(s string) string {
	s = ui.Printable(strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\ufffd"))
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '&' && i+1 < len(s) && strings.ContainsRune(entity, rune(s[i+1])):
			b.WriteString("&amp;") // otherwise it begins no entity, and "a && b" can be copied
		case r == '<':
			b.WriteString("&lt;")
		case r == '@':
			b.WriteString("@\u200b") // keeps the system from notifying a person
		case r == '#' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			b.WriteString("#\u200b")
		case strings.ContainsRune("\\`*_{}[]|>~!#", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	out := b.String()
	// At the start of a line these characters begin lists and headings.
	if out != "" && strings.ContainsRune("-+=", rune(out[0])) {
		out = "\\" + out
	}
	// A bare address becomes a link in many systems.
	return strings.NewReplacer("://", ":\u200b//", "www.", "www\u200b.").Replace(out)
}
