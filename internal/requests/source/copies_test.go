package source

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"fettle.dev/fettle/internal/host"
)

func numbered400(from int) string {
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, "line %d\n", from+i)
	}
	return b.String()
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// write writes files into a new directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestLeaveCopies tests that of a log and its copy only one counts, by their content.
func TestLeaveCopies(t *testing.T) {
	a, b, c := numbered400(0), numbered400(1000), numbered400(2000)
	gzA := string(zipped(t, a))
	for name, test := range map[string]struct {
		files map[string]string
		named []string // files; none: the directory
		left  []string
	}{
		"a rotation cut off":        {map[string]string{"l": c, "l.1": a, "l.1.gz": gzA, "l.2.gz": string(zipped(t, b))}, nil, []string{"l.1.gz"}},
		"while it is compressed":    {map[string]string{"l": c, "l.1": a, "l.1.gz": gzA[:len(gzA)/2]}, nil, []string{"l.1.gz"}},
		"both named":                {map[string]string{"l.1": a, "l.1.gz": gzA}, []string{"l.1.gz", "l.1"}, []string{"l.1.gz"}},
		"the same file twice":       {map[string]string{"l": a}, []string{"l", "l"}, []string{"l"}},
		"dates":                     {map[string]string{"l-20261117": a, "l-20261117.gz": gzA}, nil, []string{"l-20261117.gz"}},
		"backups":                   {map[string]string{"l": a, "l~": a, "l.bak": b, "l.swp": "\x00x", "l.orig": c, "l.dpkg-old": a}, nil, []string{"l.bak", "l.dpkg-old", "l.orig", "l.swp", "l~"}},
		"a backup of a rotated one": {map[string]string{"l": a, "l.1.bak": b}, nil, []string{"l.1.bak"}},
		"file managers and editors": {map[string]string{"l.log": a, "l (copy).log": b, "l - Copy.log": b, "l - Copy (2).log": b, "Copy of l.log": b, "l.log (copy)": b, "l (another copy).log": b, "l copy.log": b, "#l.log#": b, "l.log.~1~": b, "l.log.bak2": b, "l.log.copy": b}, nil,
			[]string{"#l.log#", "Copy of l.log", "l (another copy).log", "l (copy).log", "l - Copy (2).log", "l - Copy.log", "l copy.log", "l.log (copy)", "l.log.bak2", "l.log.copy", "l.log.~1~"}},
		"saved twice":                 {map[string]string{"l.log": a, "l (1).log": a}, nil, []string{"l (1).log"}},
		"saved twice, another":        {map[string]string{"l.log": a, "l (1).log": b}, nil, nil},
		"a copy alone":                {map[string]string{"l (copy).log": a}, nil, nil},
		"an editor's of a part":       {map[string]string{"l": a, "l.1": b, "#l.1#": b}, nil, []string{"#l.1#"}},
		"a copyist":                   {map[string]string{"l.log": a, "photocopy.log": b, "copy.log": b}, nil, nil},
		"a backup alone":              {map[string]string{"l.bak": a}, nil, nil},
		"a backup that is named":      {map[string]string{"l": a, "l.bak": b}, []string{"l", "l.bak"}, nil},
		"and has the same lines":      {map[string]string{"l": a + b, "l.bak": a}, []string{"l", "l.bak"}, []string{"l.bak"}},
		"renamed twice":               {map[string]string{"l.2": a, "l.3": a}, nil, []string{"l.2"}},
		"parts that begin so":         {map[string]string{"l.2": a, "l.3": a + b}, nil, nil},
		"few lines without a time":    {map[string]string{"l": "x\n", "l.1": "x\n", "l.2": "x\n"}, nil, nil},
		"other logs with one content": {map[string]string{"l": a, "m": a}, nil, nil},
		"one of each of two servers":  {map[string]string{"x/l": a, "y/l": a}, nil, nil},
		"another content":             {map[string]string{"l.1": a, "l.1.gz": string(zipped(t, b))}, nil, nil},
		"compressed in two ways":      {map[string]string{"l.1.gz": gzA, "l.1.bz2": "BZh9damaged"}, nil, nil},
	} {
		dir := write(t, test.files)
		paths := []string{dir}
		if test.named != nil {
			paths = nil
			for _, n := range test.named {
				paths = append(paths, filepath.Join(dir, n))
			}
		}
		logs, err := Find(host.Live(), paths)
		if err != nil {
			t.Fatal(err)
		}
		set := NewSet(logs)
		if err := set.LeaveCopies(); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, l := range set.Copies {
			left = append(left, filepath.Base(l.Path))
		}
		slices.Sort(left)
		if !slices.Equal(left, test.left) || len(set.Logs)+len(left) != len(logs) {
			t.Errorf("%s: %v are left out, want %v", name, set.Copies, test.left)
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestZeroBytes tests that zero bytes of any number before, between and after lines are not part of
// a line, and that such a file is complete.
func TestZeroBytes(t *testing.T) {
	text := numbered400(0)
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	const bzip2 = "QlpoOTFBWSZTWacUK3cAAALBgAAQAgGEgCAAIYAMAjj1G4u5IpwoSFOKFbuA" // one\ntwo\n, by bzip2 1.0.8
	packed, err := base64.StdEncoding.DecodeString(bzip2)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 7, 511, 4095, 4096, 4097, usual, Size - 1, Size, Size + 1, 3*Size + 5} {
		zeros := strings.Repeat("\x00", n)
		for name, file := range map[string]string{
			"before": zeros + text, "behind": text + zeros, "behind half a line": text + "line" + zeros, "between": text[:700] + "\n" + zeros + text[700:],
			"gzip behind": string(zipped(t, text)) + zeros, "gzip before": string(zipped(t, zeros+text)), "two members": string(zipped(t, text[:700])) + string(zipped(t, text[700:])) + zeros,
			"zstd behind": z.String() + zeros, "bzip2 behind": string(packed) + zeros, "all": zeros,
		} {
			if n < 4 && (name == "zstd behind" || name == "bzip2 behind") {
				continue // their decoders cannot tell that from a part that was cut off
			}
			dir := write(t, map[string]string{"l": file})
			logs, err := Find(host.Live(), []string{filepath.Join(dir, "l")})
			if err != nil {
				t.Fatal(err)
			}
			set := NewSet(logs)
			head, err := set.Head(0, 100)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			skipped := 0
			if err := set.Read(context.Background(), 1, func(_ int, b *Block) { got.Write(b.Data); skipped += b.Skipped }); err != nil {
				t.Errorf("%d %s: %v", n, name, err)
			}
			want := text
			switch name {
			case "behind half a line":
				want += "line"
			case "between":
				want = text[:700] + "\n" + text[700:]
			case "bzip2 behind":
				want = "one\ntwo\n"
			case "all":
				want = ""
			}
			if got.String() != want || skipped > 0 || !strings.HasPrefix(want, string(head)) {
				t.Errorf("%d %s: %d bytes of %d, %d lines too long, begins with %.20q", n, name, got.Len(), len(want), skipped, head)
			}
			// Within a line all but the first are left out as it is read.
			if z := set.Zeros(0); z != int64(n) {
				t.Errorf("%d %s: %d zero bytes", n, name, z)
			}
			positions, err := set.Positions()
			if err != nil || name == "before" && positions[0].Offset != int64(len(file)) {
				t.Errorf("%d %s: %+v, %v", n, name, positions, err)
			}
		}
	}
}

// TestZerosHole tests that a log that begins with a hole of a hundred gigabytes is read at once.
func TestZerosHole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "l")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	const hole = 100 << 30
	if _, err := f.WriteAt([]byte("one\ntwo\n"), hole); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := Find(host.Live(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	set := NewSet(logs)
	var got bytes.Buffer
	if err := set.Read(context.Background(), 1, func(_ int, b *Block) { got.Write(b.Data) }); err != nil {
		t.Fatal(err)
	}
	if got.String() != "one\ntwo\n" || set.Zeros(0) != hole {
		t.Errorf("%q behind %d", got.String(), set.Zeros(0))
	}
}
