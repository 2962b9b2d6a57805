package journal

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// sample is a journal with a tune, a single change, the undo of an earlier transaction, and a
// confirmation.
func sample(t testing.TB) []byte {
	t.Helper()
	j, err := Lock(t.TempDir()+"/state", Options{BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	entry := func(name, before, want string) Before {
		return Before{Setting: setting.Setting{Kind: "sysctl", Name: name}, Before: setting.Text(before), Want: setting.Text(want), Lifetime: setting.Runtime}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		tx, err := j.Begin(Begin{Kind: Tune, BootID: "boot", User: "test", Time: time.Unix(int64(i), 0), Try: &Try{SinceBoot: time.Second}})
		must(err)
		must(j.Stage(tx, []Before{entry("a.b", "0", "1"), entry("a.c", "x", "y")}))
		must(j.Commit(Commit{ID: tx.ID, Result: ResultDone, Outcomes: []Outcome{{N: 1, After: setting.Text("1")}, {N: 2, After: setting.Text("y")}}}))
	}
	must(j.Confirm(Confirm{ID: 2, Note: "fine", Caller: &host.Caller{UID: 1}}))
	tx, err := j.Begin(Begin{Kind: Undo, BootID: "boot", Undoes: []int{1}, Restore: []Ref{{1, 1}}})
	must(err)
	must(j.Commit(Commit{ID: tx.ID, Result: ResultDone, Undone: []Undone{{Ref: Ref{1, 1}, State: Relinked}, {Ref: Ref{1, 2}, State: Relinked}}}))
	text, err := readFile(j)
	must(err)
	return text
}

// rotated is the beginning of a journal with the live transactions of an earlier file.
func rotated(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir() + "/state"
	j, err := Lock(dir, Options{BootID: "boot", RotateAt: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	tx, err := j.Begin(Begin{Kind: Tune, BootID: "boot", User: "jos\u00e9", Time: time.Unix(0, 1), Selection: []byte(`{"profiles":["a}\""]}`), Supersedes: []int{7},
		Note: "ticket {4711} \"é\"", Caller: &host.Caller{UID: 0, LoginUID: new(int), Name: "root", TTY: "pts/3"}, Planned: &Planned{By: "erin", Time: time.Unix(0, 2)}})
	if err == nil {
		reason := setting.Reason{File: "/etc/tuned/é/tuned.conf", Line: 28, Text: "readahead=>4096"}
		err = j.Stage(tx, []Before{{Setting: setting.Setting{Kind: "sysctl", Name: "a.b"}, Before: setting.Text("0"), Want: setting.Text("1"), Reason: reason}})
	}
	if err == nil {
		err = j.Commit(Commit{ID: tx.ID, Result: ResultDone, Outcomes: []Outcome{{N: 1, After: setting.Text("1")}}})
	}
	if err == nil {
		err = j.Rotate()
	}
	if err != nil || len(j.State.Live()) != 1 || j.State.base != j.State.size {
		t.Fatalf("%v: %d transactions stand, %d of %d bytes carried", err, len(j.State.Live()), j.State.base, j.State.size)
	}
	text, err := readFile(j)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func readFile(j *Journal) ([]byte, error) {
	text := make([]byte, j.State.size)
	_, err := j.file.ReadAt(text, 0)
	return text, err
}

// signed returns text with a correct checksum on each line, so that the parser looks at the content
// of damaged records.
func signed(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		_, body, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		out = fmt.Appendf(out, "%08x %s\n", crc32.Checksum(body, crcTable()), body)
	}
	return out
}

func FuzzParse(f *testing.F) {
	text := sample(f)
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add(rotated(f))
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed(t, text)
		parsed(t, signed(text))
	})
}

func parsed(t *testing.T, text []byte) {
	s, err := parse(text, "boot")
	if err != nil {
		return
	}
	if s.size > int64(len(text)) {
		t.Errorf("read %d of %d bytes", s.size, len(text))
	}
	for _, c := range s.Chains() {
		for _, e := range c {
			if !e.IsLive() {
				t.Error("a settled entry in a chain")
			}
		}
	}
	s.InForce()
	s.Interrupted()
	// What is carried on is what stands.
	s.merge()
	var first start
	for _, t := range s.Live() {
		first.Carried = append(first.Carried, t.carry())
	}
	next := &State{}
	first.Version, first.NextID = 1, s.nextID
	if err := next.foldStart(first, "boot"); err != nil {
		t.Fatalf("what was carried on is refused: %v", err)
	}
	if a, b := len(s.Chains()), len(next.Chains()); a != b {
		t.Errorf("%d places stand, and %d after they were carried on", a, b)
	}
}

// FuzzTornTail tests that text after a valid journal does not change the journal's state.
func FuzzTornTail(f *testing.F) {
	text := sample(f)
	f.Add([]byte("0"))
	f.Add([]byte("deadbeef {\"seq\":9}"))
	f.Fuzz(func(t *testing.T, tail []byte) {
		s, err := parse(append(append([]byte{}, text...), tail...), "boot")
		if err != nil {
			return // a whole record that contradicts
		}
		if len(s.Txs) < 3 || s.Txs[0].undoneBy != 3 {
			t.Errorf("the records before the tail are lost: %d transactions", len(s.Txs))
		}
	})
}
