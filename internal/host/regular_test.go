package host

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Only regular files are opened.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{pipe: "is a named pipe", dir: "is a directory", "/dev/zero": "is a device", file: ""} {
		f, err := OpenRegular(name)
		if err == nil {
			f.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := OpenRoot(pipe); err == nil || !strings.Contains(err.Error(), "is a named pipe") {
		t.Errorf("OpenRoot of a pipe: %v", err)
	}
}
