package logformat

import "fmt"

// FormatError is returned for a server's format that cannot be used, with the position of the
// cause.
type FormatError struct {
	What string // LogFormat, log_format, log-format, pattern
	Text string // the format
	At   int    // byte offset in Text, from 0
	Why  string
}

func (r *FormatError) Error() string {
	return fmt.Sprintf("%s %q, column %d (%s): %s", r.What, r.Text, r.At+1, r.Excerpt(), r.Why)
}

// Excerpt returns the text from the position up to the next blank or quote.
func (r *FormatError) Excerpt() string {
	rest := r.Text[min(r.At, len(r.Text)):]
	for i := 1; i < len(rest); i++ {
		if rest[i] == ' ' || rest[i] == '\t' || rest[i] == '"' || i == 40 {
			return rest[:i]
		}
	}
	return rest
}

// formatError returns an error about a position in a format.
func formatError(what, text string, at int, why string) error {
	return &FormatError{what, text, at, why}
}
