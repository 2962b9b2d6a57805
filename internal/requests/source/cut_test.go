package source

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"fettle.dev/fettle/internal/host"
)

// TestDamaged tests damaged logs: the complete lines before the damage are read, the other logs are
// read whole, with any number of workers, and the position reached in each log is known.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	var text bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintf(&text, "line %d of %x\n", i, i*i)
	}
	var zipped, standard bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(text.Bytes())
	_ = z.Close()
	s, _ := zstd.NewWriter(&standard)
	_, _ = s.Write(text.Bytes())
	_ = s.Close()
	for name, content := range map[string][]byte{
		"a.4.gz": zipped.Bytes()[:12], "a.3.gz": zipped.Bytes()[:zipped.Len()/2], "a.2.zst": standard.Bytes()[:standard.Len()/2],
		"a.1": text.Bytes(), "a": text.Bytes(), "b.gz": zipped.Bytes()[:5],
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var before map[string]int
	for _, workers := range []int{1, 2, 4, 16} {
		logs, err := Find(host.Live(), []string{dir})
		if err != nil {
			t.Fatal(err)
		}
		set := NewSet(logs)
		if head, err := set.Head(0, 100); err != nil || len(head) > 0 || set.Cut(0) == nil {
			t.Errorf("%s begins with %q, %v, %v", logs[0].Path, head, err, set.Cut(0))
		}
		var mu sync.Mutex
		got := map[string]int{}
		err = set.Read(context.Background(), workers, func(_ int, b *Block) {
			mu.Lock()
			defer mu.Unlock()
			if n := len(b.Data); n > 0 && b.Data[n-1] != '\n' {
				t.Errorf("%s: half a line", logs[b.Log].Path)
			}
			got[filepath.Base(logs[b.Log].Path)] += len(b.Data)
		})
		for i, l := range logs {
			name := filepath.Base(l.Path)
			damaged := strings.Contains(name, ".gz") || strings.Contains(name, ".zst")
			if (set.Cut(i) != nil) != damaged || err == nil || strings.Contains(err.Error(), name+": ") != damaged {
				t.Errorf("%s: %v; all: %v", name, set.Cut(i), err)
			}
			if !damaged && got[name] != text.Len() {
				t.Errorf("%d workers: %s: %d bytes, want %d", workers, name, got[name], text.Len())
			}
		}
		if got["a.3.gz"] < text.Len()/4 {
			t.Errorf("%d workers: of half a log %d bytes", workers, got["a.3.gz"])
		}
		if before != nil && fmt.Sprint(before) != fmt.Sprint(got) {
			t.Errorf("%d workers: %v, and fewer: %v", workers, got, before)
		}
		before = got
		positions, err := set.Positions()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range positions {
			if name := filepath.Base(p.Path); p.Offset != int64(got[name]) {
				t.Errorf("%s: read to %d, and %d bytes came", name, p.Offset, got[name])
			}
		}
		if len(positions) != len(logs) {
			t.Errorf("%d positions of %d logs", len(positions), len(logs))
		}
	}
}
