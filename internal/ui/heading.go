package ui

import "fmt"

// Heading writes a section heading.
func Heading(s *Screen, text string) {
	if s.Page != nil {
		s.Page.Heading(text)
		return
	}
	if s.Format == Markdown {
		fmt.Fprintf(s.Out, "\n## %s\n\n", text)
		return
	}
	fmt.Fprintf(s.Out, "\n%s\n", text)
}
