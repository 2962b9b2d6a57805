// Package conf reads and changes one assignment in a configuration file and
// leaves every other byte as it was.
package conf

import (
	"errors"
	"fmt"
	"strings"
)

// Syntax is how a product writes assignments.
type Syntax interface {
	// Key gives the one spelling of an option's name, or refuses what can be
	// none: "Shared_Buffers" is shared_buffers.
	Key(name string) (string, error)
	// Assignments finds all that a file makes, in its order. The error of a file
	// that the product would refuse begins with the line: "12: unknown word".
	Assignments(text string) ([]Assignment, error)
	// Literal is a value as it stands in a line: what is one already stays as it
	// is, anything else is quoted. What cannot stand in one line is refused.
	Literal(value string) (string, error)
	// Unquote is the value that a literal means.
	Unquote(literal string) string
	// Line is a whole line, without its end, that assigns a literal.
	Line(key, literal string) string
}

// Placer is a syntax whose new lines do not go to the end of a file: its options
// are in sections.
type Placer interface {
	// Place is the offset at which a line for the key is put in: that of the
	// first byte of a line, or the end of the file.
	Place(text, key string) (int, error)
}

// Assignment is one option in one line of a file.
type Assignment struct {
	Key string // as Syntax.Key spells it
	// Literal is the value as it stands there, with its quotes.
	Literal string
	Line    int // from 1
	// From and To are the bytes of the literal.
	From, To int
}

// set puts a literal in the place of an assignment's.
func set(text string, a Assignment, literal string) string {
	return text[:a.From] + literal + text[a.To:]
}

// add puts a new line into a file: at its end, where the syntax does not say
// otherwise.
func add(s Syntax, text, key, literal string) (string, error) {
	at := len(text)
	if p, ok := s.(Placer); ok {
		var err error
		if at, err = p.Place(text, key); err != nil {
			return "", err
		}
	}
	line := s.Line(key, literal)
	if at == len(text) && text != "" && !strings.HasSuffix(text, "\n") {
		return text + "\n" + line, nil // remove knows it by the newline that it lacks
	}
	return text[:at] + line + "\n" + text[at:], nil
}

// remove takes the line of an assignment out again, as add has put it in.
func remove(text string, a Assignment) string {
	from := strings.LastIndexByte(text[:a.From], '\n') + 1
	length := strings.IndexByte(text[a.To:], '\n')
	if length >= 0 {
		return text[:from] + text[a.To+length+1:]
	}
	return strings.TrimSuffix(text[:from], "\n")
}

// last is the assignment of a key that comes last: nil where there is none.
func last(all []Assignment, key string) *Assignment {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Key == key {
			return &all[i]
		}
	}
	return nil
}

// ErrValue says that a value cannot stand in a configuration file.
var ErrValue = errors.New("cannot stand in one line of a configuration file")

// OneLine refuses what would break out of its line. A syntax finds no assignment
// of such a value either, so that what it finds can be given back.
func OneLine(value string) error {
	if strings.ContainsAny(value, "\n\r\x00") {
		return fmt.Errorf("%q: %w", value, ErrValue)
	}
	return nil
}
