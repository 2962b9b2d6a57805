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

// Inserter is a syntax whose new options do not get a line at the end: they go into
// one that is there, or below another with its indentation.
type Inserter interface {
	Insert(text, key, literal string) (string, error)
	// Remove takes out what Insert has put in.
	Remove(text string, a Assignment) string
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
	if in, ok := s.(Inserter); ok {
		return in.Insert(text, key, literal)
	}
	at := len(text)
	if p, ok := s.(Placer); ok {
		var err error
		if at, err = p.Place(text, key); err != nil {
			return "", err
		}
	}
	return addLine(text, at, s.Line(key, literal)), nil
}

func addLine(text string, at int, line string) string {
	if at == len(text) && text != "" && !strings.HasSuffix(text, "\n") {
		return text + "\n" + line // removeLine knows it by the newline that it lacks
	}
	return text[:at] + line + "\n" + text[at:]
}

// remove takes an assignment out again, as add has put it in.
func remove(s Syntax, text string, a Assignment) string {
	if in, ok := s.(Inserter); ok {
		return in.Remove(text, a)
	}
	return removeLine(text, a)
}

func removeLine(text string, a Assignment) string {
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
