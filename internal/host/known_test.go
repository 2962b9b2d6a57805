package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Absent, not recorded and unreadable files are three different answers on
// every kind of machine.
func TestFileHasThreeStates(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "there"), []byte("text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	copied, err := Copy(dir)
	if err != nil {
		t.Fatal(err)
	}
	archived, err := ParseArchive("x", []byte("fettle archive v2\ntime 2026-11-21T16:00:00Z\n-- file 0644 /there --\ntext\n-- absent /gone --\n-- denied 0000 EACCES /denied --\n-- end --\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		host *Host
		path string
		want File
	}{
		{"mounted", Mounted(dir), "/there", File{Text: "text\n", Exists: true}},
		{"mounted", Mounted(dir), "/gone", File{}},
		{"copy", copied, "/there", File{Text: "text\n", Exists: true}},
		{"copy", copied, "/gone", File{Unknown: "/gone is not in this copy"}},
		{"archive", archived, "/there", File{Text: "text\n", Exists: true}},
		{"archive", archived, "/gone", File{}},
		{"archive", archived, "/unknown", File{Unknown: "/unknown is not in this copy"}},
		{"archive", archived, "/denied", File{Unknown: "only root can read /denied"}},
	} {
		c.want.Path = c.path
		if got := c.host.File(c.path); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		_, err := c.host.Files.Stat(c.path)
		if Unknown(err) && errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %s is unknown and absent", c.name, c.path)
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{fs.ErrNotExist, ""},
		{NotRecorded("the unit"), "/p is not in this copy"},
		{&fs.PathError{Op: "read", Path: "/p", Err: syscall.EIO}, "/p cannot be read: input/output error"},
		{errors.New("/p:3: no number"), "/p:3: no number"},
		{ErrTooLarge, "/p cannot be read: file larger than 16 MiB"},
	} {
		if got := Why("/p", c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
