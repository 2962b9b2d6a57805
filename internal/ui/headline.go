package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
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
	number := text.Thousands(uint64(max(n, 0)))
	if noun == "" {
		return number
	}
	return text.CountPlural(uint64(max(n, 0)), noun, strings.TrimPrefix(text.Count(2, noun), "2 "))
}

// Value records a number and returns formatted, the caller's text for it, such as "1.5 GiB"
// for memory_bytes.
func (h *Headline) Value(name string, v float64, formatted string) string {
	h.record(name, v)
	return formatted
}

// Figure records a number and returns it with at most three significant digits and its unit:
// "31 %". unit may be "".
func (h *Headline) Figure(name string, v float64, unit string) string {
	return strings.TrimRight(h.Value(name, v, Digits(v)+" "+unit), " ")
}

func (h *Headline) record(name string, v float64) {
	if h.Figures == nil {
		h.Figures = map[string]float64{}
	}
	h.Figures[name] = v
}

// Digits formats a number with three significant digits, or an integer in full. It never uses
// an exponent: "0.0123", "31.4", "12,345".
func Digits(v float64) string {
	switch abs := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case abs >= 100 || v == math.Trunc(v):
		sign := ""
		if v < 0 && math.Round(abs) != 0 {
			sign = "-"
		}
		return sign + text.Thousands(uint64(math.Round(abs)))
	case abs < 1e-6:
		return "0"
	default:
		digits := 2 - int(math.Floor(math.Log10(abs)))
		s := strconv.FormatFloat(v, 'f', digits, 64)
		if strings.ContainsRune(s, '.') {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
}

// PrintHeadline prints the lines. On a terminal it wraps them between words.
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
		line = before + strings.ReplaceAll(Wrap(text, s.Width-len(before)), "\n", "\n"+before)
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
