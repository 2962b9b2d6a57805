package rule

import (
	"fmt"
	"strings"
)

// Installer is the artefact whose entries are options of satellite-installer. The
// command of such a fix is the call itself, and what is to follow it.
const Installer = "installer"

// InstallerCall is one call of the installer with options: it takes minutes, and
// restarts everything, so that all of them belong into one.
func InstallerCall(options []Entry) string {
	var b strings.Builder
	b.WriteString("satellite-installer")
	for _, o := range options {
		b.WriteString(" " + Quote(o.Name) + " " + Quote(o.Value))
	}
	return b.String()
}

// CommandLine is a command with its arguments for sh.
func CommandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// Quote is a word for sh, on one line: a line break, and what a terminal would not show,
// goes through printf (POSIX). One that ends with a line break stays as it is, because a
// command substitution would lose that.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,+%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	control := func(r rune) bool { return r < 0x20 || r == 0x7f }
	if strings.IndexFunc(word, control) < 0 || strings.HasSuffix(word, "\n") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(word) {
		switch {
		case c == '\\':
			b.WriteString(`\\`)
		case c == '%':
			b.WriteString("%%")
		case c == '\n':
			b.WriteString(`\n`)
		case control(rune(c)) || c == '\'':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return `"$(printf -- '` + b.String() + `')"`
}
