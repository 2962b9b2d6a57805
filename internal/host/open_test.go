package host

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A packed report is rejected with the command to unpack it.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sosreport-a/etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	var tarred, zipped bytes.Buffer
	w := tar.NewWriter(&tarred)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(tarred.Bytes()); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for base, text := range map[string]string{
		"a.tar": tarred.String(), "a.tar.gz": zipped.String(),
		"a.tar.xz": "\xfd7zXZ\x00\x00\x04", "a.tar.bz2": "BZh91AY&SY", "a.tar.zst": "\x28\xb5\x2f\xfd\x04",
	} {
		name := filepath.Join(dir, base)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenRoot(name); err == nil || !strings.Contains(err.Error(), "unpack it with tar -xf "+name+" -C DIR,") {
			t.Errorf("%s: %v", base, err)
		}
	}
	// A compressed archive of fettle is not a tar archive.
	var alone bytes.Buffer
	z = gzip.NewWriter(&alone)
	if _, err := z.Write([]byte("== /etc/hostname\nx\n")); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for base, want := range map[string]string{
		"m.txt.gz":  "unpack it with gzip -dc %s/m.txt.gz >%[1]s/m.txt, then name the new file",
		"m":         "unpack it with gzip -dc %s/m >%[1]s/m.txt, then name the new file",
		"m.txt.xz":  "unpack it with xz -dc %s/m.txt.xz >%[1]s/m.txt, then name the new file",
		"m.txt.zst": "unpack it with zstd -dc %s/m.txt.zst >%[1]s/m.txt, then name the new file",
	} {
		text := map[string]string{"m.txt.xz": "\xfd7zXZ\x00\x00\x04", "m.txt.zst": "\x28\xb5\x2f\xfd\x04"}[base]
		if text == "" {
			text = alone.String()
		}
		name := filepath.Join(dir, base)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenRoot(name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(want, dir)) {
			t.Errorf("%s: %v", base, err)
		}
		_ = os.Remove(name)
	}
	if _, err := OpenRoot(dir); err == nil || !strings.Contains(err.Error(), "does not contain a machine, but its subdirectory") {
		t.Errorf("a level too high: %v", err)
	}
}

// A file of 8 GB, in a copy or as an archive, is not read into memory.
func TestHugeFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etc/os-release", "proc/meminfo", "sos_commands/kernel/sysctl_-a", "sos_commands/sos_extras/fettle/fettle_facts_--output_archive", "sos_reports/manifest.json", "archive"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(8 << 30); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/etc/os-release", "/proc/meminfo"} {
		for how, h := range map[string]*Host{"copy": h, "mounted": Mounted(dir)} {
			if _, err := h.Files.ReadFile(name); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s of a %s: %v", name, how, err)
			}
		}
	}
	if _, err := Live().Files.ReadFile(dir + "/etc/os-release"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("live: %v", err)
	}
	if b, err := h.Files.ReadFile("/proc/sys/vm/swappiness"); err == nil {
		t.Errorf("%q", b)
	}
	if _, err := OpenRoot(filepath.Join(dir, "archive")); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("an archive of 8 GB: %v", err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("they took %d MB of memory", n>>20)
	}
}

// A file of the maximum size is read completely, with one allocation of its size.
func TestLargestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, c := range []struct {
		size int64
		err  error
	}{{4095, nil}, {4096, nil}, {4097, nil}, {MaxFileSize, nil}, {MaxFileSize + 1, ErrTooLarge}} {
		if err := os.Truncate(name, c.size); err != nil {
			f, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(c.size); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b, err := Live().Files.ReadFile(name)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.err) || err == nil && int64(len(b)) != c.size {
			t.Errorf("%d bytes: %d, %v", c.size, len(b), err)
		}
		if n := int64(after.TotalAlloc - before.TotalAlloc); n > c.size*5/4+1<<20 {
			t.Errorf("%d bytes took %d", c.size, n)
		}
	}
}
