// Package conf reads and changes one assignment in a configuration file and
// leaves every other byte as it was.
package conf

import (
	"errors"
	"fmt"
	"strings"
)

// Syntax is the syntax of a product's assignments.
type Syntax interface {
	// Key returns the one spelling of an option's name, shared_buffers for
	// "Shared_Buffers", or an error if it cannot be a name.
	Key(name string) (string, error)
	// Assignments returns the assignments of a file in order. The error for a file that the
	// product would refuse begins with the line: "12: unknown word".
	Assignments(text string) ([]Assignment, error)
	// Literal returns a value as it is written: a literal unchanged, anything else quoted. The
	// error is ErrValue if the value cannot be written in one line.
	Literal(value string) (string, error)
	// Unquote returns the value of a literal.
	Unquote(literal string) string
	// Line returns a whole line, without its end, that assigns a literal.
	Line(key, literal string) string
}

// Placer is a syntax whose options are in sections, so that a new line does not go to the
// end of a file.
type Placer interface {
	// Place returns the offset of a new line for the key: the beginning of a line, or the
	// end of the file.
	Place(text, key string) (int, error)
}

// Inserter is a syntax whose new options go into an existing line, or below another one
// with its indentation.
type Inserter interface {
	Insert(text, key, literal string) (string, error)
	// Remove removes what Insert has inserted.
	Remove(text string, a Assignment) string
}

// Assignment is one option in one line of a file.
type Assignment struct {
	Key string // as Syntax.Key spells it
	// Literal is the value as it is written, with its quotes.
	Literal string
	Line    int // from 1
	// From and To are the bytes of the literal.
	From, To int
}

// set replaces the literal of an assignment.
func set(text string, a Assignment, literal string) string {
	return text[:a.From] + literal + text[a.To:]
}

// add adds a new line to a file, at its end unless the syntax has another place.
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
		return text + "\n" + line // without a newline, by which removeLine recognizes it
	}
	return text[:at] + line + "\n" + text[at:]
}

// remove reverts add.
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

// last returns the last assignment of a key, or nil.
func last(all []Assignment, key string) *Assignment {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Key == key {
			return &all[i]
		}
	}
	return nil
}

// ErrValue is returned if a value cannot be written to a configuration file.
var ErrValue = errors.New("cannot be written on one line of a configuration file")

// OneLine refuses a value that would break out of its line. A syntax does not find assignments
// of such a value either, so that undo can restore all that it finds.
func OneLine(value string) error {
	if strings.ContainsAny(value, "\n\r\x00") {
		return fmt.Errorf("%q: %w", value, ErrValue)
	}
	return nil
}
