package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui/page"
)

// Format is an output format, the value of --output.
type Format string

// The formats of --output.
const (
	Table    Format = "table"
	JSON     Format = "json"
	YAML     Format = "yaml"
	Markdown Format = "markdown"
	HTML     Format = "html"
)

// Formats are the formats that every command has.
var Formats = []Format{Table, JSON, YAML, Markdown, HTML}

// FormatNames returns the names of Formats.
func FormatNames() (names []string) {
	for _, f := range Formats {
		names = append(names, string(f))
	}
	return names
}

// ParseFormat parses the value of --output.
func ParseFormat(s string, more ...Format) (Format, error) {
	var names []string
	for _, f := range append(slices.Clone(Formats), more...) {
		if s == string(f) {
			return f, nil
		}
		names = append(names, string(f))
	}
	return "", Exit(Usage, fmt.Errorf("--output %q: want one of %s", s, strings.Join(names, ", ")))
}

// Screen is the output of a command: data on Out, messages on Err.
type Screen struct {
	Out, Err io.Writer
	// Name is the prefix of messages; "" means fettle.
	Name   string
	Format Format
	// Color reports whether the output is a terminal without NO_COLOR. Color never
	// carries meaning alone.
	Color bool
	// Width is the terminal width in columns, or 0 without a terminal.
	Width int
	// Wide prints all columns of tables, and nothing cut or wrapped (--wide).
	Wide bool
	// Page collects what is printed, with the format html.
	Page *page.Page
	out  io.Writer // of the page
	tty  *os.File  // the terminal of standard output
	// framed reports whether Frame has switched to the alternate screen.
	framed bool
	said   *sync.Map // messages of SayOnce; nil: every one is said
	// Messages are the messages on Err, for JSON output.
	Messages []string
	// Failed reports whether an error was printed.
	Failed bool
	// Printed reports whether a document was printed.
	Printed bool
	// Call returns this process's command line, changed by a remedy, in sh syntax. It is nil
	// if none exists.
	Call func(Remedy) string
	// Example is a working call of the verb. It is printed if arguments are invalid and no
	// remedy is known.
	Example string
}

// NewScreen returns a screen that detects the terminal of standard output.
func NewScreen(out, errw io.Writer) *Screen {
	s := &Screen{Out: out, Err: errw, Format: Table, said: &sync.Map{}}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.Width, s.tty = w, f
		}
	}
	return s
}

// Say writes a message.
func (s *Screen) Say(format string, args ...any) {
	line := Line(text.PlainMessage(fmt.Sprintf(format, args...)))
	s.Messages = append(s.Messages, line)
	s.talk(line)
}

// SayOnce writes a message, unless it did so before: a daemon opens its machine often.
func (s *Screen) SayOnce(text string) {
	if s.said != nil {
		if _, said := s.said.LoadOrStore(text, true); said {
			return
		}
	}
	s.Say("%s", text)
}

// Program returns the name of the program, as its calls begin.
func (s *Screen) Program() string { return cmp.Or(s.Name, "fettle") }

// talk writes a message, on a terminal broken between words unless it is an indented quotation
// or has a command to copy.
func (s *Screen) talk(line string) {
	quoted := strings.HasPrefix(line, " ")
	line = s.Program() + ": " + line
	if s.Width > 0 && !quoted && !hasCommand(line) {
		line = strings.ReplaceAll(Wrap(line, s.Width-2), "\n", "\n  ")
	}
	fmt.Fprintln(s.Err, line)
}

func hasCommand(line string) bool {
	return slices.ContainsFunc([]string{"run: ", "run again: ", "for example: ", "  # "}, func(label string) bool { return strings.Contains(line, label) })
}

// Status replaces the progress line on a terminal. An empty text removes it.
func (s *Screen) Status(format string, args ...any) {
	if s.Width == 0 || s.Format != Table {
		return
	}
	line := []rune(Line(fmt.Sprintf(format, args...)))
	fmt.Fprint(s.Err, "\r\x1b[K"+string(line[:min(len(line), s.Width-1)]))
}

// Progress reports the progress of long work: on a terminal like Status,
// otherwise as a line. It is not added to Messages.
func (s *Screen) Progress(format string, args ...any) {
	if s.Width > 0 && s.Format == Table {
		s.Status(format, args...)
		return
	}
	s.talk(Line(fmt.Sprintf(format, args...)))
}

// Fail prints an error and how to resolve it.
func (s *Screen) Fail(err error) {
	s.Failed = true
	if Code(err) == Interrupted && errors.Is(err, context.Canceled) {
		s.Say("interrupted") // interrupted while reading; nothing else to report
		return
	}
	s.sayLines(strings.TrimSuffix(err.Error(), "\n"))
	s.advise(err)
}

func (s *Screen) sayLines(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		s.Say("%s", line)
	}
}

// The colors of verdicts.
const (
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Red    = "\x1b[31m"
	Dim    = "\x1b[2m"
	reset  = "\x1b[0m"
)

// Paint colors a text if the terminal supports it.
func (s *Screen) Paint(color, text string) string {
	if !s.Color || color == "" {
		return text
	}
	return color + text + reset
}

// Printable is text.Printable.
func Printable(s string) string { return text.Printable(s) }

// Line is text.PrintableLine.
func Line(s string) string { return text.PrintableLine(s) }

// Control sequences (ECMA-48 and xterm): enter and leave the alternate screen, hiding the
// cursor; move the cursor home; clear the rest of the line, and of the screen.
const (
	enterAltScreen = "\x1b[?1049h\x1b[?25l"
	leaveAltScreen = "\x1b[?25h\x1b[?1049l"
	cursorHome     = "\x1b[H"
	clearLine      = "\x1b[K"
	clearBelow     = "\x1b[J"
)

// Size returns the terminal size in columns and lines, or 0 and 0 without a terminal.
func (s *Screen) Size() (width, height int) {
	if s.tty == nil {
		return 0, 0
	}
	width, height, err := term.GetSize(int(s.tty.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// Frame replaces the whole terminal content by a text, truncated to its size,
// until Unframe. Long lines are cut, not wrapped.
func (s *Screen) Frame(text string) {
	width, height := s.Size()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), max(height, 1))]
	var b strings.Builder
	if !s.framed {
		s.framed = true
		b.WriteString(enterAltScreen)
	}
	b.WriteString(cursorHome)
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if runes := []rune(line); len(runes) > width && width > 0 {
			line = string(runes[:width])
		}
		b.WriteString(line + clearLine)
	}
	b.WriteString(clearBelow)
	fmt.Fprint(s.Out, b.String())
}

// Unframe restores the terminal content from before Frame.
func (s *Screen) Unframe() {
	if s.framed {
		s.framed = false
		fmt.Fprint(s.Out, leaveAltScreen)
	}
}
