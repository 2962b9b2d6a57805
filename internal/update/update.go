package update

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
)

// Limits of an update.
const (
	mostBytes = 16 << 20 // of the file, and of its content
	mostFiles = 2000
)

// about is the file that describes an update.
const about = "update.yaml"

// Update is a set of rule files and profiles.
type Update struct {
	// Number orders the updates of a publisher; it is at least 1.
	Number int    `yaml:"number" json:"number"`
	Note   string `yaml:"note" json:"note"`
	// SHA256 is the digest of the file.
	SHA256 string `yaml:"-" json:"sha256"`
	// Files are the names of all files but update.yaml.
	Files []string `yaml:"-" json:"files"`

	content *zip.Reader
}

var names = internaltext.LazyRegexp(`^(rules/[a-z0-9-]+\.yaml|profiles/[A-Za-z0-9][A-Za-z0-9._-]*/tuned\.conf|` + regexp.QuoteMeta(about) + `)$`)

// Parse reads the file of an update. It refuses all files that are neither rules nor profiles:
// scripts too.
func Parse(data []byte) (*Update, error) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("not an update: %w", err)
	}
	if len(r.File) > mostFiles {
		return nil, fmt.Errorf("not an update: %d files; at most %d allowed", len(r.File), mostFiles)
	}
	sum := sha256.Sum256(data)
	u := &Update{SHA256: hex.EncodeToString(sum[:]), content: r}
	size := uint64(0)
	for _, f := range r.File {
		if strings.HasSuffix(f.Name, "/") && f.UncompressedSize64 == 0 {
			continue // a directory
		}
		if size += f.UncompressedSize64; size > mostBytes {
			return nil, fmt.Errorf("not an update: more than %d MiB", mostBytes>>20)
		}
		if !names().MatchString(f.Name) || !f.Mode().IsRegular() {
			return nil, fmt.Errorf("not an update: contains %q; want only %s, rules/NAME.yaml and profiles/NAME/tuned.conf", f.Name, about)
		}
		if slices.Contains(u.Files, f.Name) {
			return nil, fmt.Errorf("not an update: contains %q twice", f.Name)
		}
		if f.Name != about {
			u.Files = append(u.Files, f.Name)
		}
	}
	text, err := u.read(about)
	if err != nil {
		return nil, fmt.Errorf("not an update: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(u); err != nil {
		return nil, fmt.Errorf("%s: %w", about, err)
	}
	if u.Number < 1 || len(u.Files) == 0 {
		return nil, fmt.Errorf("%s: want a number of at least 1, and rules or profiles", about)
	}
	return u, nil
}

// read reads a file of the update, whose sizes Parse has limited.
func (u *Update) read(name string) ([]byte, error) {
	f, err := u.content.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostBytes+1))
}

// Rules returns the rule files, named like the program's rule files, without a directory. A nil
// update has none.
func (u *Update) Rules() ([]rule.File, error) {
	if u == nil {
		return nil, nil
	}
	var out []rule.File
	for _, name := range u.Files {
		if path.Dir(name) != "rules" {
			continue
		}
		text, err := u.read(name)
		if err != nil {
			return nil, err
		}
		out = append(out, rule.File{Name: path.Base(name), Text: text, Update: true})
	}
	return out, nil
}

// ProfileNames returns the names of the profiles in the update.
func (u *Update) ProfileNames() (out []string) {
	for _, name := range u.Files {
		if strings.HasPrefix(name, "profiles/") {
			out = append(out, path.Base(path.Dir(name)))
		}
	}
	return out
}

// Profiles returns the program's profiles, with the update's profiles in place of profiles of the
// same name. A nil update changes none.
func (u *Update) Profiles(own fs.FS) fs.FS {
	if u == nil {
		return own
	}
	newer, err := fs.Sub(u.content, "profiles")
	if err != nil {
		return own
	}
	return overlay{newer, own}
}

// overlay is a file system with the files of both; files in top take precedence.
type overlay struct{ top, base fs.FS }

func (o overlay) Open(name string) (fs.File, error) {
	if f, err := o.top.Open(name); err == nil {
		return f, nil
	}
	return o.base.Open(name)
}

func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(o.base, name)
	more, err2 := fs.ReadDir(o.top, name)
	if err != nil && err2 != nil {
		return nil, err
	}
	for _, e := range more {
		if !slices.ContainsFunc(list, func(d fs.DirEntry) bool { return d.Name() == e.Name() }) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// Store keeps the updates of a state directory.
type Store struct{ Dir string }

// The updates of a store.
const (
	staged   = "staged"
	released = "released"
)

func (s Store) file(name string) string { return filepath.Join(s.Dir, "update", name+".zip") }

// Staged returns the staged update, or nil.
func (s Store) Staged() (*Update, error) { return s.load(staged) }

// Released returns the update in force, or nil.
func (s Store) Released() (*Update, error) { return s.load(released) }

func (s Store) load(name string) (*Update, error) {
	data, err := s.read(name)
	if err != nil || data == nil {
		return nil, err
	}
	u, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.file(name), err)
	}
	return u, nil
}

// read returns nil for an update that does not exist. Only root and the caller may own the file, because
// its signature was checked before it was staged.
func (s Store) read(name string) ([]byte, error) {
	f, err := host.OpenRegular(s.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if sys := st.Sys().(*syscall.Stat_t); st.Mode().Perm()&0o022 != 0 || sys.Uid != 0 && int(sys.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s: %w: other users can change it", s.file(name), profile.ErrUntrusted)
	}
	return readAll(f, s.file(name))
}

// Read reads an update and checks its signature, which is in the file with the suffix .sig.
func Read(file string, keys []Key) (data []byte, by Key, err error) {
	both := [2][]byte{}
	for i, name := range []string{file, file + ".sig"} {
		f, err := host.OpenRegular(name)
		if err != nil {
			return nil, by, err
		}
		both[i], err = readAll(f, name)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, by, err
		}
	}
	by, err = signer(keys, both[0], both[1])
	return both[0], by, err
}

// readAll reads a file of at most mostBytes.
func readAll(f io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err == nil && len(data) > mostBytes {
		err = fmt.Errorf("%s: more than %d MiB", name, mostBytes>>20)
	}
	return data, err
}

// Stage keeps an update until Release. It replaces a staged one.
func (s Store) Stage(data []byte) error {
	if err := os.MkdirAll(filepath.Dir(s.file(staged)), 0o700); err != nil {
		return err
	}
	return s.replace(staged, data)
}

// Release puts the staged update in force instead of the present one. After a crash both may be the
// same, and Release can be repeated.
func (s Store) Release() error {
	data, err := s.read(staged)
	if err == nil && data == nil {
		err = fmt.Errorf("%s: %w", s.file(staged), fs.ErrNotExist)
	}
	if err == nil {
		err = s.replace(released, data)
	}
	if err != nil {
		return err
	}
	return os.Remove(s.file(staged))
}

// Withdraw removes the staged update and the one in force.
func (s Store) Withdraw() error {
	for _, name := range []string{staged, released} {
		if err := os.Remove(s.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s Store) replace(name string, data []byte) error {
	return host.Live().Files.Replace(s.file(name), data, host.Attr{Mode: 0o600, UID: os.Geteuid(), GID: os.Getegid()})
}
