// Package ui writes the output of commands: messages and progress on standard error, tables
// and documents (JSON, YAML, Markdown) on standard output. It maps errors to exit codes. Both
// command lines use it.
package ui

import (
	"context"
	"errors"
)

// Exit codes.
const (
	Done        = 0
	Failed      = 1   // failed, or nothing could be determined
	Usage       = 2   // invalid arguments
	GateNotMet  = 3   // a condition of verify, check --fail-on or --expect
	Refused     = 4   // refused by a safety check
	RolledBack  = 5   // failed and rolled back
	Incomplete  = 6   // failed, and the rollback is incomplete
	Partial     = 7   // partly applied
	Busy        = 75  // another transaction is running
	Interrupted = 130 // undone after Ctrl-C
)

// ExitCodes describes each code for help texts and the manual.
var ExitCodes = []struct {
	Code    int
	Meaning string
}{
	{Done, "done"},
	{Failed, "failed, or nothing could be determined"},
	{Usage, "usage: an argument is invalid, or names a file that does not exist"},
	{GateNotMet, "requirement not met (verify, check --fail-on, --expect)"},
	{Refused, "refused: unsafe or not allowed"},
	{RolledBack, "failed, rolled back"},
	{Incomplete, "failed and roll-back incomplete"},
	{Partial, "applied in part"},
	{Busy, "another transaction is running"},
	{Interrupted, "interrupted, undone"},
}

// Error is an error with an exit code, a hint, and a remedy.
type Error struct {
	Code   int
	Err    error
	Hint   string
	Remedy *Remedy // nil if the hint has the command, or no other arguments help
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Exit adds an exit code to an error.
func Exit(code int, err error) error { return &Error{Code: code, Err: err} }

// Hinted adds an exit code and a hint to an error.
func Hinted(code int, err error, hint string) error { return &Error{Code: code, Err: err, Hint: hint} }

// Sentinel is an error for errors.Is with a fixed exit code, hint and remedy.
type Sentinel struct {
	Text   string
	Exits  int
	Hint   string
	Remedy *Remedy
}

func (s *Sentinel) Error() string { return s.Text }

// ProgramExit returns the exit code of a program that fails with this error. It is not named
// ExitCode, because exec.ExitError has that method.
func (s *Sentinel) ProgramExit() int { return s.Exits }

// coded is an error with an exit code.
type coded interface {
	error
	ProgramExit() int
}

// Code returns the exit code of an error, or 0 for nil. If an error has several codes,
// Incomplete takes precedence.
func Code(err error) int {
	var e *Error
	var c coded
	switch {
	case err == nil:
		return Done
	case carries(err, Incomplete):
		return Incomplete
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &c):
		return c.ProgramExit()
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Failed
}

// carries reports whether an error, or any error that it wraps, has an exit code.
func carries(err error, code int) bool {
	if c, ok := err.(coded); ok && c.ProgramExit() == code { //nolint:errorlint // it looks at every one itself
		return true
	}
	switch w := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return carries(w.Unwrap(), code)
	case interface{ Unwrap() []error }:
		for _, e := range w.Unwrap() {
			if carries(e, code) {
				return true
			}
		}
	}
	return false
}
