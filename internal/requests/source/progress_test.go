package source_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/source"
)

// TestProgress checks that all bytes of plain and compressed logs count once, also those that
// Head has read.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	text := []byte(strings.Repeat("a line of a log\n", 50_000))
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	var paths []string
	for name, data := range map[string][]byte{"plain.log": text, "packed.log.gz": z.Bytes()} {
		path := filepath.Join(dir, name)
		paths = append(paths, path)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := source.Find(host.Live(), paths)
	if err != nil {
		t.Fatal(err)
	}
	set := source.NewSet(found)
	for i := range found {
		if _, err := set.Head(i, 1000); err != nil {
			t.Fatal(err)
		}
	}
	most := int64(0)
	if err := set.Read(context.Background(), 1, func(int, *source.Block) {
		done, _ := set.Progress()
		if done < most {
			t.Errorf("%d bytes after %d", done, most)
		}
		most = done
	}); err != nil {
		t.Fatal(err)
	}
	if done, all := set.Progress(); done != all || all != int64(len(text)+z.Len()) {
		t.Errorf("%d of %d bytes", done, all)
	}
}
