package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tail returns whole lines on every kind of machine.
func TestTail(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	const text = "first line\nsecond\nthird\n"
	if err := os.WriteFile(filepath.Join(root, "log"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/log", filepath.Join(root, "etc/link")); err != nil {
		t.Fatal(err)
	}
	copied, err := Copy(root)
	if err != nil {
		t.Fatal(err)
	}
	archived, err := ParseArchive("test", []byte("fettle archive v2\n-- file /etc/link --\n"+text+"-- end --\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*Host{"mounted": Mounted(root), "node": Node(root), "copy": copied, "archive": archived} {
		for max, want := range map[int64]string{1 << 20: text, int64(len(text)): text, 15: "second\nthird\n", 13: "third\n", 3: "", 0: text} {
			if max == 0 { // Lines only
				var all strings.Builder
				if before, err := h.Lines("/etc/link", 0, func(line []byte) { all.Write(line) }); err != nil || all.String() != text || before != 0 {
					t.Errorf("%s: all lines are %q after %d, %v", name, all.String(), before, err)
				}
				continue
			}
			got, before, err := h.Tail("/etc/link", max)
			if err != nil || string(got) != want || before != int64(strings.LastIndex(text, want)) && want != "" {
				t.Errorf("%s: the last %d bytes are %q after %d, %v: want %q", name, max, got, before, err, want)
			}
			var lines strings.Builder
			at, err := h.Lines("/etc/link", max, func(line []byte) { lines.Write(line) })
			if err != nil || lines.String() != want || at != before {
				t.Errorf("%s: the lines of the last %d bytes are %q after %d, %v: want %q after %d", name, max, lines.String(), at, err, want, before)
			}
		}
		if _, _, err := h.Tail("/etc/none", 5); !NotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := copied.Tail("/none", 5); !Unknown(err) {
		t.Errorf("a copy without the log: %v", err)
	}
	if _, _, err := Mounted(root).Tail("/etc", 5); err == nil {
		t.Error("the end of a directory")
	}
}

func TestSpace(t *testing.T) {
	root := t.TempDir()
	if size, free, err := Mounted(root).Space("/"); err != nil || size == 0 || free > size {
		t.Errorf("%d of %d, %v", free, size, err)
	}
	copied, err := Copy(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := copied.Space("/"); !Unknown(err) {
		t.Errorf("a copy: %v", err)
	}
	if _, _, err := Mounted(root).Space("/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such place: %v", err)
	}
}
