package cliutil

import (
	"errors"
	"io"
	"syscall"
)

// Out remembers that standard output could not be written, which tables and help texts
// do not look at. A reader that has seen enough (a closed pipe) is no failure: Unread
// says that there was one.
type Out struct {
	io.Writer
	Err    error
	Unread bool
}

// Write writes to standard output.
func (w *Out) Write(b []byte) (int, error) {
	if w.Unread {
		return len(b), nil
	}
	n, err := w.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		w.Unread = true
		return len(b), nil
	}
	if err != nil && w.Err == nil {
		w.Err = err
	}
	return n, err
}
