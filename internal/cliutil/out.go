package cliutil

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
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

// Writable returns a usage error if the file that an option names cannot be written. Verbs call
// it before their work. An empty name means no file.
func Writable(option, name string) error {
	if name == "" {
		return nil
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	at := filepath.Dir(full)
	switch st, err := host.Live().Files.Stat(full); {
	case err == nil && st.IsDir():
		return ui.Exit(ui.Usage, fmt.Errorf("%s: %s is a directory; want a file", option, name))
	case err == nil && !st.Mode().IsRegular(): // a device or a pipe, which is not replaced
		at = full
	}
	return writable(option, at)
}

// WritableDir is like Writable, but for a directory. It creates the directory if it is missing.
func WritableDir(option, name string) error {
	if name == "" {
		return nil
	}
	at, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	files := host.Live().Files
	for parent := filepath.Dir(at); parent != at; at, parent = parent, filepath.Dir(parent) {
		if _, err := files.Stat(at); err == nil {
			break
		}
	}
	if st, err := files.Stat(at); err == nil && !st.IsDir() {
		return ui.Exit(ui.Usage, fmt.Errorf("%s: %s is not a directory", option, at))
	}
	return writable(option, at)
}

func writable(option, at string) error {
	err := unix.Access(at, unix.W_OK)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return ui.Hinted(ui.Usage, fmt.Errorf("%s: directory %s does not exist", option, at), "create it first: mkdir -p "+text.Quote(at))
	}
	return ui.Hinted(ui.Usage, fmt.Errorf("%s: %s: %w", option, at, err), "name another place")
}
