package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"fettle.dev/fettle/internal/text"
)

// Format is what --output names.
type Format string

// The formats of --output.
const (
	Table    Format = "table"
	JSON     Format = "json"
	YAML     Format = "yaml"
	Markdown Format = "markdown"
)

// ParseFormat reads --output.
func ParseFormat(s string, more ...Format) (Format, error) {
	all := append([]Format{Table, JSON, YAML, Markdown}, more...)
	names := make([]string, len(all))
	for i, f := range all {
		if s == string(f) {
			return f, nil
		}
		names[i] = string(f)
	}
	return "", Exit(Usage, fmt.Errorf("--output %q: want one of %s", s, strings.Join(names, ", ")))
}

// Screen is where a command talks: data to Out, talk to Err.
type Screen struct {
	Out, Err io.Writer
	// Name stands before each line of talk; "" is fettle.
	Name   string
	Format Format
	// Color is true for a terminal without NO_COLOR. A word and a sign always
	// carry the meaning as well.
	Color bool
	// Width is the terminal's, in columns; 0 where there is none.
	Width int
	tty   *os.File // the terminal behind standard output
	// framed says that Frame has taken the terminal.
	framed bool
	// Messages are what was said on Err, for the JSON output.
	Messages []string
	// Failed is set once it has been said what went wrong.
	Failed bool
	// Printed is set once a document has been printed.
	Printed bool
	// Call is this process's command line, changed as a remedy says, as sh takes it; nil
	// where there is no command line.
	Call func(Remedy) string
	// Verb is the command whose --help explains the call, as "fettle tune".
	Verb string
}

// NewScreen looks at the terminal behind standard output.
func NewScreen(out, errw io.Writer) *Screen {
	s := &Screen{Out: out, Err: errw, Format: Table}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.Width, s.tty = w, f
		}
	}
	return s
}

// Say writes a line of talk.
func (s *Screen) Say(format string, args ...any) {
	line := Line(text.PlainMessage(fmt.Sprintf(format, args...)))
	s.Messages = append(s.Messages, line)
	s.talk(line)
}

func (s *Screen) talk(line string) { fmt.Fprintln(s.Err, cmp.Or(s.Name, "fettle")+": "+line) }

// Status shows on a terminal how far the work is, in place of what it said last; an
// empty one takes the line away.
func (s *Screen) Status(format string, args ...any) {
	if s.Width == 0 || s.Format != Table {
		return
	}
	line := []rune(Line(fmt.Sprintf(format, args...)))
	fmt.Fprint(s.Err, "\r\x1b[K"+string(line[:min(len(line), s.Width-1)]))
}

// Progress says how far a long work is: on a terminal like Status, else as a line. It is
// no message of the result.
func (s *Screen) Progress(format string, args ...any) {
	if s.Width > 0 && s.Format == Table {
		s.Status(format, args...)
		return
	}
	s.talk(Line(fmt.Sprintf(format, args...)))
}

// Fail says what went wrong and what to do about it.
func (s *Screen) Fail(err error) {
	s.Failed = true
	if Code(err) == Interrupted && errors.Is(err, context.Canceled) {
		s.Say("interrupted") // in the middle of reading: there is nothing more to tell
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

// The colours of a verdict.
const (
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Red    = "\x1b[31m"
	Dim    = "\x1b[2m"
	reset  = "\x1b[0m"
)

// Paint colours a text where the terminal can.
func (s *Screen) Paint(color, text string) string {
	if !s.Color || color == "" {
		return text
	}
	return color + text + reset
}

// Printable escapes control bytes, so that what a file holds cannot act on the
// terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == 0x202e {
			return '\ufffd'
		}
		return r
	}, s)
}

// Line is Printable text on one line, for a message or for the cell of a table: an error
// may have several lines, as one that was joined of others has.
func Line(s string) string {
	if !strings.Contains(s, "\n") {
		return Printable(s)
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.HasSuffix(b.String(), ":"):
			b.WriteString(" ")
		case b.Len() > 0:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return Printable(b.String())
}

// Of a terminal (ECMA-48, and xterm's control sequences): a screen of its own without a
// cursor, and back; to the top; the rest of a line, of the screen, is cleared.
const (
	enterAltScreen = "\x1b[?1049h\x1b[?25l"
	leaveAltScreen = "\x1b[?25h\x1b[?1049l"
	cursorHome     = "\x1b[H"
	clearLine      = "\x1b[K"
	clearBelow     = "\x1b[J"
)

// Size is the terminal's, in columns and lines; 0 and 0 where there is none.
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

// Frame shows a text instead of all that is on the terminal, as much as it has room for,
// until Unframe. Lines are cut, not wrapped.
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

// Unframe gives the terminal back as it was before Frame.
func (s *Screen) Unframe() {
	if s.framed {
		s.framed = false
		fmt.Fprint(s.Out, leaveAltScreen)
	}
}
