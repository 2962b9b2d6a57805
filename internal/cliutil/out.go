package cliutil

import (
	"errors"
	"io"
	"syscall"
)

// Out is standard output. It records a failed write, because tables and help texts ignore
// write errors. A closed pipe is not a failure; it sets Unread.
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
