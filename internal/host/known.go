package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrNotRecorded is returned if a copy has no answer: it has no running kernel, and command
// output only if it was saved. It differs from fs.ErrNotExist, which means that the machine
// certainly lacks the file: unknown is never "absent" and never a default. Callers use Unknown,
// NotFound, Why or File.
var ErrNotRecorded = errors.New("not recorded in this copy")

// NotRecorded returns an error that wraps ErrNotRecorded; what describes what is missing.
func NotRecorded(what string) error { return fmt.Errorf("%s: %w", what, ErrNotRecorded) }

// Unknown reports whether err means that this host has no answer.
func Unknown(err error) bool { return errors.Is(err, ErrNotRecorded) }

// NotFound reports whether err means that the machine lacks the file or this copy does not
// record it. It is for callers that treat both alike, because they then look elsewhere or list
// what exists.
func NotFound(err error) bool { return errors.Is(err, fs.ErrNotExist) || Unknown(err) }

// Why returns the reason that the content of p is unknown after reading it returned err. It
// returns "" if err is nil, or if the machine has no such file.
func Why(p string, err error) string {
	var pe *fs.PathError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return ""
	case Unknown(err):
		return p + " is not in this copy"
	case errors.Is(err, fs.ErrPermission):
		return "only root can read " + p
	case errors.As(err, &pe):
		err = pe.Err
	case strings.Contains(err.Error(), p):
		return err.Error() // the error names the file, and the invalid line
	}
	return fmt.Sprintf("%s cannot be read: %v", p, err)
}

// File is the content of a file. If it does not exist, Unknown is the reason that this is
// uncertain; if Unknown is empty, the machine certainly has no such file.
type File struct {
	Path    string
	Text    string
	Exists  bool
	Unknown string
}

// File reads a file.
func (h *Host) File(p string) File {
	b, err := h.Files.ReadFile(p)
	return File{Path: p, Text: string(b), Exists: err == nil, Unknown: Why(p, err)}
}
