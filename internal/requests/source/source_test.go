package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"fettle.dev/fettle/internal/host"
)

// TestCut tests that lines of any length, in reads of any length, are complete and in order.
func TestCut(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 2))
		var text bytes.Buffer
		var want []string
		for range 1 + r.IntN(60) {
			n := r.IntN(200)
			switch r.IntN(12) {
			case 0:
				n = r.IntN(3 * Size)
			case 1:
				n = Size - 2 + r.IntN(4)
			}
			line := strings.Repeat(string(rune('a'+r.IntN(26))), n)
			text.WriteString(line + "\n")
			want = append(want, line)
		}
		if r.IntN(2) == 0 {
			text.WriteString("the last")
			want = append(want, "the last")
		}
		var got []string
		skipped, seq := 0, -1
		var in io.Reader = bytes.NewReader(text.Bytes())
		if r.IntN(2) == 0 {
			in = iotest.HalfReader(in)
		}
		one := &Block{Data: make([]byte, 0, Size)} // used again and again, as Read does
		c := &cutter{r: in}
		for over := false; !over; {
			var err error
			if over, err = c.next(one); err != nil {
				t.Fatal(err)
			}
			if one.Seq > seq+1 {
				t.Fatalf("block %d behind %d", one.Seq, seq)
			}
			seq = max(seq, one.Seq)
			for range one.Skipped {
				got = append(got, "skipped")
			}
			skipped += one.Skipped
			for line := range bytes.Lines(one.Data) {
				got = append(got, string(bytes.TrimSuffix(line, []byte("\n"))))
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d lines, want %d", seed, len(got), len(want))
		}
		for i := range want {
			if got[i] == want[i] {
				continue
			}
			if got[i] != "skipped" || len(want[i]) < Size-1 {
				t.Fatalf("seed %d: line %d of %d bytes is %.30q of %d", seed, i, len(want[i]), got[i], len(got[i]))
			}
		}
	}
}

// TestFind tests that the files of a directory are listed oldest first, with any compression.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	for i := range 12 {
		name := filepath.Join(dir, "access.log")
		text := fmt.Appendf(nil, "line of %d\n", i)
		if i > 0 {
			name = fmt.Sprintf("%s.%d", name, i)
		}
		var b bytes.Buffer
		switch {
		case i == 3:
			z, _ := zstd.NewWriter(&b)
			_, _ = z.Write(text)
			_ = z.Close()
			name, text = name+".zst", b.Bytes()
		case i == 4:
			name += ".bz2"
			cmd := exec.Command("python3", "-c", "import sys,bz2; sys.stdout.buffer.write(bz2.compress(sys.stdin.buffer.read()))")
			cmd.Stdin = bytes.NewReader(text)
			packed, err := cmd.Output()
			if err != nil {
				t.Fatalf("python3 makes no bz2: %v", err)
			}
			text = packed
		case i > 1:
			// Two members, as gzip files appended to each other are.
			for _, half := range [][]byte{text[:4], text[4:]} {
				z := gzip.NewWriter(&b)
				_, _ = z.Write(half)
				_ = z.Close()
			}
			name, text = name+".gz", b.Bytes()
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	logs, err := Find(host.Live(), []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	set := NewSet(logs)
	if head, err := set.Head(0, 100); err != nil || string(head) != "line of 11\n" {
		t.Errorf("the first begins with %q, %v", head, err)
	}
	var mu sync.Mutex
	got := make([]string, len(logs))
	if err := set.Read(context.Background(), 3, func(_ int, b *Block) {
		mu.Lock()
		defer mu.Unlock()
		got[b.Log] += string(b.Data)
	}); err != nil {
		t.Fatal(err)
	}
	for i, text := range got {
		if want := fmt.Sprintf("line of %d\n", 11-i); text != want {
			t.Errorf("%s: %q, want %q", logs[i].Path, text, want)
		}
	}
	// Cut off: what was there comes, and the error says which.
	cutOff := filepath.Join(t.TempDir(), "cut.gz")
	whole, err := os.ReadFile(filepath.Join(dir, "access.log.5.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cutOff, whole[:len(whole)-6], 0o600); err != nil {
		t.Fatal(err)
	}
	logs, err = Find(host.Live(), []string{cutOff})
	if err != nil {
		t.Fatal(err)
	}
	if err := NewSet(logs).Read(context.Background(), 1, func(int, *Block) {}); err == nil || !strings.Contains(err.Error(), "cut.gz: unexpected EOF") {
		t.Errorf("a file that is cut off: %v", err)
	}
	for _, p := range []string{filepath.Join(dir, "none"), t.TempDir()} {
		if _, err := Find(host.Live(), []string{p}); err == nil {
			t.Errorf("%s has logs", p)
		}
	}
}

// TestShared tests that several workers read one plain log, that each block is read by one of them,
// and that they stop with the context's cause as the error.
func TestShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	var text bytes.Buffer
	for i := range 200_000 {
		fmt.Fprintf(&text, "line %d of a log that several read\n", i)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	logs, err := Find(host.Live(), []string{path, path})
	if err != nil {
		t.Fatal(err)
	}
	const workers = 3
	got := [workers]map[[2]int]string{{}, {}, {}}
	if err := NewSet(logs).Read(context.Background(), workers, func(w int, b *Block) {
		got[w][[2]int{b.Log, b.Seq}] = string(b.Data)
	}); err != nil {
		t.Fatal(err)
	}
	all := map[[2]int]string{}
	for _, one := range got {
		for id, data := range one {
			if _, twice := all[id]; twice {
				t.Errorf("block %v came twice", id)
			}
			all[id] = data
		}
	}
	for log := range logs {
		var whole strings.Builder
		for seq := 0; ; seq++ {
			data, ok := all[[2]int{log, seq}]
			if !ok {
				break
			}
			whole.WriteString(data)
		}
		if whole.String() != text.String() {
			t.Errorf("log %d: %d bytes, want %d", log, whole.Len(), text.Len())
		}
	}

	ctx, stop := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	var blocks atomic.Int32
	if err := NewSet(logs).Read(ctx, workers, func(int, *Block) {
		blocks.Add(1)
		stop(enough)
	}); !errors.Is(err, enough) {
		t.Errorf("stopped: %v", err)
	}
	if n := blocks.Load(); n > 2*workers {
		t.Errorf("%d blocks came after the end", n)
	}
}

// TestContinue tests that continued reads give every line exactly once, through appended lines,
// partial lines, rotation, compression and truncation.
func TestContinue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	var positions []Position
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	read := func(want string, wantLost int) {
		t.Helper()
		found, err := Find(host.Live(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		logs, lost, err := Continue(found, positions)
		if err != nil {
			t.Fatal(err)
		}
		set := NewSet(logs)
		set.WholeLines = true
		got := make([]string, len(logs))
		if err := set.Read(context.Background(), 1, func(_ int, b *Block) { got[b.Log] += string(b.Data) }); err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(got, ""); all != want || len(lost) != wantLost {
			t.Fatalf("read %q and lost %v, want %q and %d", all, lost, want, wantLost)
		}
		if positions, err = set.Positions(); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(to string) {
		t.Helper()
		if err := os.Rename(path, to); err != nil {
			t.Fatal(err)
		}
	}
	add("one\ntwo\nthr")
	read("one\ntwo\n", 0)
	read("", 0)
	add("ee\n")
	read("three\n", 0)
	add("four\n")
	rename(path + ".1")
	add("five\n")
	read("four\nfive\n", 0)
	// Rotated and compressed at once, under a name with a date.
	add("six\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil || z.Close() != nil || os.WriteFile(filepath.Join(filepath.Dir(path), "access-20261120.log.gz"), b.Bytes(), 0o600) != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("seven\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read("six\nseven\n", 0)
	if err := os.WriteFile(path, []byte("eight\n"), 0o600); err != nil { // truncated, the old text is nowhere
		t.Fatal(err)
	}
	read("eight\n", 1)
	long := strings.Repeat("x", 3*Size) + "\n"
	add(long + "nine\n")
	read("nine\n", 0)
	add("ten\n")
	read("ten\n", 0)
	// A line that is longer than a block and still being written is no line yet.
	add(strings.Repeat("y", 2*Size+5))
	read("", 0)
	add("y\neleven\n")
	read("eleven\n", 0)
	// Nothing was in it when it was read, and then it was rotated.
	rename(path + ".9")
	add("")
	read("", 0)
	add("twelve\n")
	rename(path + ".10")
	add("thirteen\n")
	read("twelve\nthirteen\n", 0)
}

// TestContinueDirectory tests a directory whose logs are rotated and compressed between two reads:
// every line is read exactly once.
func TestContinueDirectory(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	add := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(at(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(at(from), at(to)); err != nil {
			t.Fatal(err)
		}
	}
	pack := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(at(from))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(text)
		_ = z.Close()
		if err := errors.Join(os.WriteFile(at(to), b.Bytes(), 0o600), os.Remove(at(from))); err != nil {
			t.Fatal(err)
		}
	}
	var positions []Position
	read := func(want string) {
		t.Helper()
		found, err := Find(host.Live(), []string{dir})
		if err != nil {
			t.Fatal(err)
		}
		logs, lost, err := Continue(found, positions)
		if err != nil || len(lost) > 0 {
			t.Fatalf("lost %v, %v", lost, err)
		}
		set := NewSet(logs)
		set.WholeLines = true
		got := make([]string, len(logs))
		if err := set.Read(context.Background(), 1, func(_ int, b *Block) { got[b.Log] += string(b.Data) }); err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(got, ""); all != want {
			t.Fatalf("read %q, want %q", all, want)
		}
		if positions, err = set.Positions(); err != nil {
			t.Fatal(err)
		}
	}
	add("access.log.1", "one\n")
	add("access.log", "two\n")
	read("one\ntwo\n")
	read("")
	add("access.log", "three\n")
	pack("access.log.1", "access.log.2.gz")
	move("access.log", "access.log.1")
	add("access.log", "four\n")
	add("access.log.1", "by a server that goes on in its old log\n")
	read("three\nby a server that goes on in its old log\nfour\n")
	read("")
	// Twice between two readings.
	add("access.log", "five\n")
	move("access.log.2.gz", "access.log.4.gz")
	pack("access.log.1", "access.log.3.gz")
	pack("access.log", "access.log.2.gz")
	add("access.log.1", "six\n")
	add("access.log", "seven\n")
	read("five\nsix\nseven\n")
	read("")
	// By a copy, and the log is cut.
	add("access.log", "eight\n")
	move("access.log.1", "access.log.5")
	text, err := os.ReadFile(at("access.log"))
	if err != nil {
		t.Fatal(err)
	}
	add("access.log.1", string(text))
	if err := os.Truncate(at("access.log"), 0); err != nil {
		t.Fatal(err)
	}
	add("access.log", "nine\n")
	read("eight\nnine\n")
	// The oldest goes.
	if err := os.Remove(at("access.log.5")); err != nil {
		t.Fatal(err)
	}
	read("")
}

// TestMoved tests that a log that is rotated between being found and being read keeps its position,
// and that no line is lost.
func TestMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var positions []Position
	read := func(meanwhile func()) string {
		t.Helper()
		found, err := Find(host.Live(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		logs, lost, err := Continue(found, positions)
		if err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		meanwhile()
		set := NewSet(logs)
		set.WholeLines = true
		var got strings.Builder
		if err := set.Read(context.Background(), 1, func(_ int, b *Block) { got.Write(b.Data) }); err != nil {
			t.Fatal(err)
		}
		if positions, err = set.Positions(); err != nil {
			t.Fatal(err)
		}
		return got.String()
	}
	put("one\ntwo\n")
	nothing := func() {}
	if got := read(nothing); got != "one\ntwo\n" {
		t.Fatalf("%q", got)
	}
	put("one\ntwo\nthree\n")
	if got := read(func() {
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		put("four is longer than what was there\n")
	}); got != "" {
		t.Fatalf("%q", got)
	}
	if got := read(nothing); got != "three\nfour is longer than what was there\n" {
		t.Fatalf("%q", got)
	}
}
