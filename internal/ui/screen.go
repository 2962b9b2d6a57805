package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
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
	Format   Format
	// Color is true for a terminal without NO_COLOR. A word and a sign always
	// carry the meaning as well.
	Color bool
	// Width is the terminal's, in columns; 0 where there is none.
	Width int
	tty   *os.File // the terminal behind standard output
	// Messages are what was said on Err, for the JSON output.
	Messages []string
	// Printed is set once a document has been printed.
	Printed bool
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
	line := Printable(fmt.Sprintf(format, args...))
	s.Messages = append(s.Messages, line)
	fmt.Fprintln(s.Err, "fettle: "+line)
}

// Status shows on a terminal how far the work is, in place of what it said last; an
// empty one takes the line away.
func (s *Screen) Status(format string, args ...any) {
	if s.Width == 0 || s.Format != Table {
		return
	}
	line := []rune(Printable(fmt.Sprintf(format, args...)))
	fmt.Fprint(s.Err, "\r\x1b[K"+string(line[:min(len(line), s.Width-1)]))
}

// Progress says how far a long work is: on a terminal like Status, else as a line. It is
// no message of the result.
func (s *Screen) Progress(format string, args ...any) {
	if s.Width > 0 && s.Format == Table {
		s.Status(format, args...)
		return
	}
	fmt.Fprintln(s.Err, "fettle: "+Printable(fmt.Sprintf(format, args...)))
}

// Fail says what went wrong and what to do about it.
func (s *Screen) Fail(err error) {
	if Code(err) == Interrupted && errors.Is(err, context.Canceled) {
		s.Say("interrupted") // in the middle of reading: there is nothing more to tell
		return
	}
	for line := range strings.Lines(err.Error()) {
		s.Say("%s", strings.TrimSuffix(line, "\n"))
	}
	var e *Error
	if errors.As(err, &e) && e.Hint != "" {
		s.Say("%s", e.Hint)
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

const clearScreen = "\x1b[H\x1b[2J"

// Frame shows a text from the top of the terminal, as much as it has lines for, in the
// place of all that was there. It needs Width.
func (s *Screen) Frame(text string) {
	lines := strings.SplitAfter(text, "\n")
	if _, height, err := term.GetSize(int(s.tty.Fd())); err == nil && height > 1 {
		lines = lines[:min(len(lines), height-1)]
	}
	fmt.Fprint(s.Out, clearScreen, strings.Join(lines, ""))
}
