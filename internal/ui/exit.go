// Package ui is the terminal: the output switch, colour, talk on standard
// error, and how an error becomes an exit code.
package ui

import (
	"context"
	"errors"
)

// The exit codes, the only table.
const (
	Done        = 0
	Failed      = 1   // failed, or nothing could be determined
	Usage       = 2   // the call's words are off
	GateNotMet  = 3   // of verify, check --fail-on, prove --expect
	Refused     = 4   // by a guard rail
	RolledBack  = 5   // failed, rolled back
	Incomplete  = 6   // failed and roll-back incomplete
	Partial     = 7   // applied in part
	Busy        = 75  // another transaction is running
	Interrupted = 130 // undone after Ctrl-C
)

// ExitCodes says what each code means, for the help texts and the manual.
var ExitCodes = []struct {
	Code    int
	Meaning string
}{
	{Done, "done"},
	{Failed, "failed, or nothing could be determined"},
	{Usage, "usage"},
	{GateNotMet, "a gate was not met (verify, check --fail-on, prove --expect)"},
	{Refused, "refused by a guard rail"},
	{RolledBack, "failed, rolled back"},
	{Incomplete, "failed and roll-back incomplete"},
	{Partial, "applied in part"},
	{Busy, "another transaction is running"},
	{Interrupted, "interrupted, undone"},
}

// Error is an error with its exit code, a hint what to do, and the command that works.
type Error struct {
	Code   int
	Err    error
	Hint   string
	Remedy *Remedy // nil: the hint has the command, or no change of the call helps
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Exit gives an error a code.
func Exit(code int, err error) error { return &Error{Code: code, Err: err} }

// Hinted gives an error a code and says what to do about it.
func Hinted(code int, err error, hint string) error { return &Error{Code: code, Err: err, Hint: hint} }

// Sentinel is an error to compare with by errors.Is that carries its exit code, and what
// to do about it where that is always the same.
type Sentinel struct {
	Text   string
	Exits  int
	Hint   string
	Remedy *Remedy
}

func (s *Sentinel) Error() string { return s.Text }

// ProgramExit is the exit code of a program that fails with this error (ExitCode is that of
// an ended process, exec.ExitError).
func (s *Sentinel) ProgramExit() int { return s.Exits }

// coded is an error that carries its exit code.
type coded interface {
	error
	ProgramExit() int
}

// Code is the exit code of an error; nil is 0. An incomplete rollback outweighs all else.
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

// carries reports whether an error, or one that it wraps, carries an exit code.
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
