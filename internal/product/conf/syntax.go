// Package conf reads and changes single assignments in configuration files, and leaves every other
// byte unchanged. All products use it through its setting kind.
package conf

import (
	"errors"
	"fmt"
	"strings"
)

// Syntax is the syntax of assignments in a product's configuration files.
type Syntax interface {
	// Key returns the canonical spelling of an option's name, such as shared_buffers for
	// "Shared_Buffers". It returns an error for an invalid name.
	Key(name string) (string, error)
	// Assignments returns the assignments of a file in order. The error for a file that the product
	// would reject begins with the line number: "12: unknown word".
	Assignments(text string) ([]Assignment, error)
	// Literal returns a value as it is written in a file: a literal unchanged, anything else
	// quoted. It returns ErrValue if the value does not fit in one line.
	Literal(value string) (string, error)
	// Unquote returns the value of a literal.
	Unquote(literal string) string
	// Line returns a line, without its newline, that assigns a literal to a key.
	Line(key, literal string) string
}

// SplitKey splits a key into the section before its last slash, "" if it has none, and the option.
func SplitKey(key string) (section, option string) {
	if i := strings.LastIndexByte(key, '/'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return "", key
}

// Placer is a syntax that inserts a new line in a section rather than at the end of the file.
type Placer interface {
	// Place returns the offset for the key's new line: the beginning of a line, or the end of the
	// file.
	Place(text, key string) (int, error)
}

// Inserter is a syntax that inserts a new option into an existing line, or below it with the same
// indentation.
type Inserter interface {
	Insert(text, key, literal string) (string, error)
	// Remove removes an assignment that Insert has added.
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

// add inserts a new line at the end of a file, or where the syntax puts it.
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

// ErrValue is returned if a value cannot be written to a configuration file.
var ErrValue = errors.New("cannot be written on one line of a configuration file")

// OneLine returns ErrValue for a value that would end its line early. Syntaxes ignore existing
// assignments with such values, so undo can restore every assignment that they find.
func OneLine(value string) error {
	if strings.ContainsAny(value, "\n\r\x00") {
		return fmt.Errorf("%q: %w", value, ErrValue)
	}
	return nil
}

// Bare returns a value that needs no quotes, or ErrValue with why: it is one line without blanks at
// its ends and without the special characters.
func Bare(value, special, why string) (string, error) {
	if err := OneLine(value); err != nil {
		return "", err
	}
	if value == "" || strings.TrimSpace(value) != value || strings.ContainsAny(value, special) {
		return "", fmt.Errorf("%q: %w: %s", value, ErrValue, why)
	}
	return value, nil
}
