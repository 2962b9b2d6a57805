package puppet

import "strings"

// lines are directives, each with its reason above it.
type lines struct {
	strings.Builder
	indent string
}

// say adds directives for one reason.
func (l *lines) say(why string, directives ...string) {
	l.WriteString(l.indent + "# " + why + "\n")
	for _, d := range directives {
		l.WriteString(l.indent + d + "\n")
	}
}

// block adds a block or section.
func (l *lines) block(why, begin, end string, inner func()) {
	l.WriteString("\n")
	l.say(why, begin)
	l.indent += "    "
	inner()
	l.indent = l.indent[4:]
	l.WriteString(l.indent + end + "\n")
}

// byFettle begins each line that because writes.
const byFettle = "# fettle size puppet: "

// because puts the reasons for what was changed in a file of the machine's own before its
// text, in place of those that an earlier size has put there. A line that begins with # is
// a comment in HOCON and in a file of variables for a service.
func because(text string, reasons ...string) string {
	for strings.HasPrefix(text, byFettle) {
		_, text, _ = strings.Cut(text, "\n")
	}
	return byFettle + strings.Join(reasons, "\n"+byFettle) + "\n" + text
}
