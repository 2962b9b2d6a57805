package host

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrNotRecorded says that this host cannot answer: a copied tree holds no running
// kernel and no command output that was not saved. It is not fs.ErrNotExist, which says
// that the machine is known to have no such thing: what is not known is never "absent"
// and never a default. Callers use Unknown, NotFound, Why or File.
var ErrNotRecorded = errors.New("not recorded in this copy")

// NotRecorded is the error of a host that cannot answer what.
func NotRecorded(what string) error { return fmt.Errorf("%s: %w", what, ErrNotRecorded) }

// Unknown reports whether err says that this host cannot answer.
func Unknown(err error) bool { return errors.Is(err, ErrNotRecorded) }

// NotFound reports whether err says that there is nothing to read: the machine has no such
// thing, or this copy does not record whether it has. It is for callers to whom both are
// the same: they look in the next place, or list what there is.
func NotFound(err error) bool { return errors.Is(err, fs.ErrNotExist) || Unknown(err) }

// Why is the reason why it is not known what p holds, where reading it gave err. It is
// empty where err is nil, or says that the machine has no such file.
func Why(p string, err error) string {
	var pe *fs.PathError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return ""
	case Unknown(err):
		return p + " is not in this copy"
	case errors.Is(err, fs.ErrPermission):
		return "only root may read " + p
	case errors.As(err, &pe):
		err = pe.Err
	case strings.Contains(err.Error(), p):
		return err.Error() // it names the file, and the line that is wrong
	}
	return fmt.Sprintf("%s cannot be read: %v", p, err)
}

// File is what a file holds. Where it does not exist, Unknown says why that is not known;
// an empty Unknown says that the machine has no such file.
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
