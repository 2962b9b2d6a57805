package setting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/host"
)

// file is the kind of whole files with owner and mode. Undo restores them byte by byte.
// Writing Absent removes the file.
type file struct{ host *host.Host }

// NewFile returns the file kind with a given lifetime, for files that take effect when a
// service starts or at the next boot.
func NewFile(h *host.Host, l Lifetime) Kind { return lifetimeFile{file{h}, l} }

type lifetimeFile struct {
	file
	lifetime Lifetime
}

func (f lifetimeFile) Lifetime() Lifetime { return f.lifetime }

// Resolve follows symbolic links of the directory and the file, so that two names of one file
// are the same setting.
func (k file) Resolve(s Setting) (Setting, error) {
	if !strings.HasPrefix(s.Name, "/") {
		return Setting{}, fmt.Errorf("%s: want an absolute path", s)
	}
	for _, virtual := range []string{"/proc/", "/sys/", "/dev/"} {
		if strings.HasPrefix(path.Clean(s.Name)+"/", virtual) {
			return Setting{}, fmt.Errorf("%s: %s is a kernel file system; use a sysctl or sysfs setting", s, virtual)
		}
	}
	p := path.Clean(s.Name)
	if real, err := k.host.Files.Resolve(p); err == nil {
		return Setting{s.Kind, real}, nil
	}
	if dir, err := k.host.Files.Resolve(path.Dir(p)); err == nil {
		p = path.Join(dir, path.Base(p))
	}
	return Setting{s.Kind, p}, nil
}

func (k file) Read(_ context.Context, s Setting) (Value, error) {
	st, err := k.host.Files.Stat(s.Name)
	if err != nil {
		return absentOr(err)
	}
	if !st.Mode().IsRegular() {
		return Value{}, fmt.Errorf("%s: not a regular file", s.Name)
	}
	b, err := k.host.Files.ReadFile(s.Name)
	if err != nil {
		return absentOr(err)
	}
	attr := host.AttrOf(st)
	return Value{Text: string(b), Attr: &attr}, nil
}

func (k file) Write(_ context.Context, s Setting, v Value) error {
	if v.Absent {
		err := k.host.Files.Remove(s.Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	attr := host.Attr{Mode: 0o644}
	if v.Attr != nil {
		attr = *v.Attr
	} else if st, err := k.host.Files.Stat(s.Name); err == nil {
		attr = host.AttrOf(st)
	}
	return k.host.Files.Replace(s.Name, []byte(v.Text), attr)
}

// Equal ignores owner and mode unless both values state them: a request for content keeps them.
func (k file) Equal(a, b Value) bool {
	if a.Text != b.Text {
		return false
	}
	return a.Attr == nil || b.Attr == nil || *a.Attr == *b.Attr
}

func (file) Coupled(Setting) []Setting { return nil }
func (file) Lifetime() Lifetime        { return File }

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
