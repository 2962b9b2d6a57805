package format

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoFile tests that a file that is searched in the same place twice is named once.
func TestNoFile(t *testing.T) {
	const text = "ClusterLoader:\n  projects:\n  - num: 1\n    basename: p\n    templates: [{num: 1, file: no.json}]\n"
	for name, want := range map[string]string{"test.yaml": "no.json not found", "./test.yaml": "no.json not found", "dir/test.yaml": "no.json and dir/no.json not found"} {
		if _, err := ReadClusterLoader(name, []byte(text), from(nil)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q at the end", name, err, want)
		}
	}
}

// TestPipe tests that a load may come from a pipe, as from a shell's <(COMMAND). A pipe without a
// writer, and a directory, are refused at once.
func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		time.Sleep(50 * time.Millisecond)
		_, _ = w.WriteString("provider: local\n")
		w.Close()
	}()
	if text, err := Here.Read(fmt.Sprint("/dev/fd/", r.Fd())); err != nil || string(text) != "provider: local\n" {
		t.Errorf("%q %v", text, err)
	}
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := Here.Read(name); err != nil || len(text) != 0 {
		t.Errorf("%q %v", text, err)
	}
	if _, err := Here.Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
}
