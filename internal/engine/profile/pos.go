package profile

import (
	"fmt"
	"strings"
)

// Pos is a place in a file. Line counts from 1; 0 means the file as a whole.
type Pos struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
}

func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Error is something wrong at a place; it prints as "file:line: what".
type Error struct {
	Pos Pos
	Err error
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func errAt(pos Pos, format string, args ...any) error {
	return &Error{pos, fmt.Errorf(format, args...)}
}

// Errors are several mistakes found in one reading, one per line.
type Errors []error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

func (e Errors) Unwrap() []error { return e }

// orNil returns nil for no error and the error itself for a single one.
func (e Errors) orNil() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

// Warning is something a person should know that does not stop the loading.
type Warning struct {
	Pos  Pos    `json:"pos"`
	Text string `json:"text"`
}

func (w Warning) String() string { return w.Pos.String() + ": " + w.Text }
