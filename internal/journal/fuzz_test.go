package journal

import (
	"testing"
	"time"

	"fettle.dev/fettle/internal/setting"
)

// sample is a journal with a tune, a single change, an undo of the buried one
// and a confirmation.
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
	must(j.Confirm(Confirm{ID: 2}))
	tx, err := j.Begin(Begin{Kind: Undo, BootID: "boot", Undoes: []int{1}, Restore: []Ref{{1, 1}}})
	must(err)
	must(j.Commit(Commit{ID: tx.ID, Result: ResultDone, Undone: []Undone{{Ref: Ref{1, 1}, State: Relinked}, {Ref: Ref{1, 2}, State: Relinked}}}))
	text, err := readFile(j)
	must(err)
	return text
}

func readFile(j *Journal) ([]byte, error) {
	text := make([]byte, j.State.size)
	_, err := j.file.ReadAt(text, 0)
	return text, err
}

func FuzzParse(f *testing.F) {
	text := sample(f)
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, text []byte) {
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
		s.Live()
	})
}

// Whatever follows a good journal does not change what it says.
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
