package ui

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Headline is the summary of a result: one to three lines for people, and the figures in them
// for programs.
type Headline struct {
	Lines []string `json:"lines"`
	// Figures are the numbers in the lines by name. Names end with the unit: problems,
	// cpu_steal_percent, duration_s.
	Figures map[string]float64 `json:"figures"`
}

// Line formats a line and appends it.
func (h *Headline) Line(format string, args ...any) {
	h.Lines = append(h.Lines, Line(fmt.Sprintf(format, args...)))
	if h.Figures == nil {
		h.Figures = map[string]float64{}
	}
}

// Count records a count and returns it with its noun: "1 problem", "12,000 requests". A noun
// that ends in s gets es in the plural. Without a noun it returns the number.
func (h *Headline) Count(name string, n int, noun string) string {
	h.record(name, float64(n))
	if noun == "" {
		return unit.Digits(float64(n))
	}
	return text.Count(n, noun)
}

// Value records a number and returns formatted, the caller's text for it, such as "1.5 GiB"
// for memory_bytes.
func (h *Headline) Value(name string, v float64, formatted string) string {
	h.record(name, v)
	return formatted
}

// Figure records a number and returns it with at most three significant digits and its unit:
// "31 %". The unit may be "".
func (h *Headline) Figure(name string, v float64, of string) string {
	return strings.TrimRight(h.Value(name, v, unit.Digits(v)+" "+of), " ")
}

func (h *Headline) record(name string, v float64) {
	if h.Figures == nil {
		h.Figures = map[string]float64{}
	}
	h.Figures[name] = v
}

// PrintHeadline prints the lines, on a terminal broken between words.
func PrintHeadline(s *Screen, h *Headline) {
	for i, line := range h.Lines {
		if s.Page != nil {
			s.Page.Headline(line)
			continue
		}
		if s.Format == Markdown && i > 0 {
			fmt.Fprintln(s.Out)
		}
		PrintLine(s, "%s", line)
	}
}

// PrintLine prints a sentence. On a terminal it wraps it between words.
func PrintLine(s *Screen, format string, args ...any) {
	line := Line(fmt.Sprintf(format, args...))
	if s.Page != nil {
		s.Page.Line(line)
		return
	}
	if s.Width > 0 && !s.Wide && s.Format != Markdown {
		text := strings.TrimLeft(line, " ")
		before := line[:len(line)-len(text)] // in front of each line
		after := before                      // in front of the lines of a bullet after the first one
		if strings.HasPrefix(text, "- ") {
			after += "  "
		}
		line = before + strings.ReplaceAll(Wrap(text, s.Width-len(after)), "\n", "\n"+after)
	}
	fmt.Fprintln(s.Out, line)
}

// PrintCommand prints a command on its own line, unwrapped, so that it can be copied.
func PrintCommand(s *Screen, command string) {
	if s.Page != nil {
		s.Page.Command(command)
		return
	}
	if s.Format == Markdown {
		fmt.Fprintf(s.Out, "\n    %s\n\n", command)
		return
	}
	fmt.Fprintf(s.Out, "    %s\n", command)
}
