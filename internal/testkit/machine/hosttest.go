// Package machine creates small machines of a few files for tests. Only tests import it.
package machine

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
)

// Mounted returns a writable, mounted machine on which everything that is not in files is
// absent. Its Name is the directory with the files, which Write creates.
func Mounted(t testing.TB, files map[string]string) *host.Host {
	t.Helper()
	dir := Dir(t)
	Write(t, dir, files)
	return host.Mounted(dir)
}

// Copy returns a copied machine, such as a sosreport: it is read-only, and everything that is
// not in files is not recorded. Its Name is the directory with the files, which Write creates.
func Copy(t testing.TB, files map[string]string) *host.Host {
	t.Helper()
	dir := Dir(t)
	Write(t, dir, files)
	h, err := host.Copy(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Write creates files (path to content) below the directory root. The content "-> TARGET" makes
// a symbolic link, content that begins with "#!" makes an executable file, and a path that ends
// in a slash makes an empty directory.
func Write(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) { // the same order in each run
		p, content := filepath.Join(root, name), files[name]
		target, link := strings.CutPrefix(content, "-> ")
		switch {
		case strings.HasSuffix(name, "/"):
			if err := os.MkdirAll(p, 0o755); err != nil {
				t.Fatal(err)
			}
		case link:
			parent(t, p)
			if err := os.Symlink(target, p); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(content, "#!"):
			write(t, p, content, 0o755)
		default:
			write(t, p, content, 0o644)
		}
	}
}

// WriteFile creates or overwrites one regular file below the directory root, whatever its
// content begins with. It also creates missing directories.
func WriteFile(t testing.TB, root, name, content string) {
	t.Helper()
	write(t, filepath.Join(root, name), content, 0o644)
}

func write(t testing.TB, p, content string, mode fs.FileMode) {
	t.Helper()
	parent(t, p)
	if err := os.WriteFile(p, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func parent(t testing.TB, p string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Unpack returns a writable, mounted machine with the entries of an archive of testdata/hosts:
// its files, directories and links. Files that the archive has not read are empty and executable.
func Unpack(t testing.TB, archive string) *host.Host {
	t.Helper()
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, e := range strings.Split(string(b), "\n-- ")[1:] {
		heading, content, some := strings.Cut(e, "\n")
		f := strings.Fields(strings.TrimSuffix(heading, " --"))
		name := f[len(f)-1]
		switch {
		case f[0] == "dir":
			Write(t, dir, map[string]string{name + "/": ""})
		case f[0] == "link":
			Write(t, dir, map[string]string{f[1]: "-> " + name})
		case f[0] == "file" && slices.Contains(f, "unread"):
			Write(t, dir, map[string]string{name: "#!/bin/sh\n"})
		case f[0] == "file":
			if some && !slices.Contains(f, "noeol") {
				content += "\n"
			}
			WriteFile(t, dir, name, content)
		}
	}
	return host.Mounted(dir)
}
