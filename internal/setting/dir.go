package setting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"fettle.dev/fettle/internal/host"
)

// dir is the kind of a directory that must exist before a file can be written.
// Its value is Absent or "directory". Writing Absent removes the directory only
// if it is empty.
type dir struct{ host *host.Host }

func (k dir) Resolve(s Setting) (Setting, error) {
	r, err := file{k.host}.Resolve(Setting{"file", s.Name})
	return Setting{s.Kind, r.Name}, err
}

func (k dir) Read(_ context.Context, s Setting) (Value, error) {
	st, err := k.host.Files.Stat(s.Name)
	if err != nil {
		return absentOr(err)
	}
	if !st.IsDir() {
		return Value{}, fmt.Errorf("%s: not a directory", s.Name)
	}
	return Text("directory"), nil
}

func (k dir) Write(_ context.Context, s Setting, v Value) error {
	var err error
	if v.Absent {
		err = k.host.Files.Remove(s.Name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTEMPTY) {
			return nil
		}
		return err
	}
	err = k.host.Files.Mkdir(s.Name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (dir) Equal(a, b Value) bool     { return a.Text == b.Text }
func (dir) Coupled(Setting) []Setting { return nil }
func (dir) Lifetime() Lifetime        { return File }
