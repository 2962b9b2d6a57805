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

// Formats of --output.
const (
	Table    Format = "table"
	JSON     Format = "json"
	YAML     Format = "yaml"
	Markdown Format = "markdown"
	HTML     Format = "html"
)

// Formats lists the formats that every command supports.
var Formats = []Format{Table, JSON, YAML, Markdown, HTML}

// FormatNames returns the names of Formats.
func FormatNames() (names []string) {
	for _, f := range Formats {
		names = append(names, string(f))
	}
	return names
}

// ParseFormat parses the value of --output. more lists additional formats of the command.
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

// Screen is the output of a command. Data is written to Out, and messages to Err.
type Screen struct {
	Out, Err io.Writer
	// Name is the prefix of messages; "" means fettle.
	Name   string
	Format Format
	// Color reports whether the output is a terminal without NO_COLOR. Colors only repeat the
	// meaning of the text.
	Color bool
	// Width is the terminal width in columns, or 0 without a terminal.
	Width int
	// Wide prints all columns, and does not cut or wrap texts (--wide).
	Wide bool
	// Page collects the output in the format html.
	Page *page.Page
	out  io.Writer // output of the page
	tty  *os.File  // terminal of standard output, or nil
	// framed reports whether Frame uses the alternate screen.
	framed bool
	said   *sync.Map // messages of SayOnce; nil: every one is said
	status *statusLine
	// Messages are the messages on Err, for JSON output.
	Messages []string
	// Failed reports whether an error was printed.
	Failed bool
	// Series makes Data print each of several documents on a line of its own, in YAML after "---".
	// A document has the messages since the last one.
	Series bool
	// Printed reports whether a document was printed.
	Printed bool
	// Call returns this process's command line in sh syntax, changed by a remedy. It may be nil.
	Call func(Remedy) string
	// State is the option of the call that selects another state directory, or "". The verbs that
	// hints name get it too.
	State string
	// Example is a valid call of the verb. It is printed for invalid arguments without a known
	// remedy.
	Example string
}

// NewScreen returns a screen. It detects whether standard output is a terminal.
func NewScreen(out, errw io.Writer) *Screen {
	s := &Screen{Out: out, Err: errw, Format: Table, said: &sync.Map{}, status: &statusLine{}}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.Width, s.tty = w, f
		}
	}
	return s
}

// Say writes one message line to Err and records it in Messages.
func (s *Screen) Say(format string, args ...any) {
	line := Line(text.PlainMessage(fmt.Sprintf(format, args...)))
	s.Messages = append(s.Messages, line)
	s.talk(line)
}

// SayOnce writes a message unless it was already written: a daemon opens its machine often.
func (s *Screen) SayOnce(text string) {
	if s.said != nil {
		if _, said := s.said.LoadOrStore(text, true); said {
			return
		}
	}
	s.Say("%s", text)
}

// Program returns the program's name for command lines.
func (s *Screen) Program() string { return cmp.Or(s.Name, "fettle") }

// talk writes a message. On a terminal it wraps the message between words, except for an
// indented quotation or a command to copy.
func (s *Screen) talk(line string) {
	quoted := strings.HasPrefix(line, " ")
	line = s.Program() + ": " + line
	if s.Width > 0 && !quoted && !hasCommand(line, s.Program()) {
		line = strings.ReplaceAll(Wrap(line, s.Width-2), "\n", "\n  ")
	}
	s.withStatus(func(st *statusLine) {
		if st.shown {
			fmt.Fprint(s.Err, "\r"+clearLine)
			st.shown = false
		}
		fmt.Fprintln(s.Err, line)
	})
}

// hasCommand reports whether a message has a command to copy: after a label, with a comment, or a
// call with quotation marks that is the whole message.
func hasCommand(line, program string) bool {
	if call := program + ": " + program + " "; strings.HasPrefix(line, call) && strings.HasSuffix(line, "'") {
		return true
	}
	return slices.ContainsFunc([]string{"run: ", "run again: ", "for example: ", "  # "}, func(label string) bool { return strings.Contains(line, label) })
}

// statusLine is the progress line of a terminal, which messages of other goroutines interrupt.
type statusLine struct {
	sync.Mutex
	shown bool
}

func (s *Screen) withStatus(do func(*statusLine)) {
	st := s.status
	if st == nil { // a screen for one text
		st = &statusLine{}
	}
	st.Lock()
	defer st.Unlock()
	do(st)
}

// live reports whether progress is shown in a line that is replaced.
func (s *Screen) live() bool { return s.Width > 0 && s.Format == Table }

// Status replaces the progress line on a terminal. An empty text removes it.
func (s *Screen) Status(format string, args ...any) {
	if !s.live() {
		return
	}
	line := []rune(Line(fmt.Sprintf(format, args...)))
	s.withStatus(func(st *statusLine) {
		if st.shown || len(line) > 0 {
			fmt.Fprint(s.Err, "\r"+clearLine+string(line[:min(len(line), s.Width-1)]))
		}
		st.shown = len(line) > 0
	})
}

// Progress reports the progress of long work. On a terminal it is like Status, otherwise it
// writes a line. It is not added to Messages.
func (s *Screen) Progress(format string, args ...any) {
	if s.live() {
		s.Status(format, args...)
		return
	}
	s.talk(Line(fmt.Sprintf(format, args...)))
}

// Fail prints an error and how to resolve it.
func (s *Screen) Fail(err error) {
	s.Failed = true
	if Code(err) == Interrupted && errors.Is(err, context.Canceled) {
		s.Say("interrupted") // interrupted during a read; nothing else to report
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

// Colors of verdicts.
const (
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Red    = "\x1b[31m"
	Dim    = "\x1b[2m"
	reset  = "\x1b[0m"
)

// Paint adds a color to a text if the terminal supports colors.
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

// Frame replaces the terminal's content by a text until Unframe. The text is truncated to the
// terminal's size; long lines are cut.
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

// Unframe restores the terminal's content before Frame.
func (s *Screen) Unframe() {
	if s.framed {
		s.framed = false
		fmt.Fprint(s.Out, leaveAltScreen)
	}
}
