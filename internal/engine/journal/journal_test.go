package journal

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/setting"
)

func TestRotationKeepsHistoryAndNumbers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	j, err := Lock(dir, Options{BootID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for j.State.size < rotateAt {
		tx, err := j.Begin(Begin{Kind: Apply, BootID: "b", Reason: strings.Repeat("x", 100000)})
		if err != nil {
			t.Fatal(err)
		}
		undo, err := j.Begin(Begin{Kind: Undo, BootID: "b", Undoes: []int{tx.ID}})
		if err == nil {
			err = errors.Join(j.Commit(Commit{ID: tx.ID, Result: ResultDone}), j.Commit(Commit{ID: undo.ID, Result: ResultDone}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	last := j.State.Txs[len(j.State.Txs)-1].ID
	if err := j.Rotate(); err != nil {
		t.Fatal(err)
	}
	if len(j.State.Txs) != 0 || j.State.size > 1000 {
		t.Fatalf("not set aside: %d transactions, %d bytes", len(j.State.Txs), j.State.size)
	}
	next, err := j.Begin(Begin{Kind: Apply, BootID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if next.ID != last+1 {
		t.Errorf("the next transaction is %d, want %d", next.ID, last+1)
	}
	j.Close()
	all, err := History(dir, "b")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != last+1 {
		t.Errorf("history has %d transactions, want %d", len(all), last+1)
	}
}

func TestNewerIsRefused(t *testing.T) {
	for why, records := range map[string][]record{
		"version 2":        {{Start: &start{Version: 2, NextID: 1}}},
		"\"put aside\"":    {{Start: &start{Version: 1, NextID: 2, Carried: []carried{{Begin: Begin{ID: 1, Kind: Tune}, Entries: []carriedEntry{{Before: entry, State: "put aside"}}}}}}},
		"1 \"\": written":  undone(""),
		"which is an undo": {{Begin: &Begin{ID: 1, Kind: Undo}}, {Seq: 1, Stage: &stage{ID: 1, Entries: []Before{entry}}}},
	} {
		if _, err := parse(journalText(t, records), ""); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want a refusal that says %s", err, why)
		}
	}
}

var entry = Before{N: 1, Setting: setting.Setting{Kind: "sysctl", Name: "a.b"}, Before: setting.Text("0"), Want: setting.Text("1"), Lifetime: setting.Runtime}

// undone is a journal of one transaction, and an undo of it that left its one
// entry as told.
func undone(state EntryState) []record {
	return []record{
		{Begin: &Begin{ID: 1, Kind: Tune, BootID: "one"}},
		{Seq: 1, Stage: &stage{ID: 1, Entries: []Before{entry}}},
		{Seq: 2, Commit: &Commit{ID: 1, Result: ResultDone}},
		{Seq: 3, Begin: &Begin{ID: 2, Kind: Undo, BootID: "one", Undoes: []int{1}}},
		{Seq: 4, Commit: &Commit{ID: 2, Result: ResultIncomplete, Undone: []Undone{{Ref: Ref{1, 1}, State: state}}}},
	}
}

func journalText(t *testing.T, records []record) []byte {
	t.Helper()
	var out []byte
	for _, r := range records {
		line, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line...)
	}
	return out
}

// What an undo could not give back is still to be given back, until the boot
// that had it ends.
func TestFailedEndsWithItsBoot(t *testing.T) {
	for boot, want := range map[string]EntryState{"one": Failed, "two": Closed} {
		s, err := parse(journalText(t, undone(Failed)), boot)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Txs[0].Entries[0].State; got != want {
			t.Errorf("in boot %s the entry is %s, want %s", boot, got, want)
		}
		if live := s.Txs[0].IsLive(); !live {
			t.Errorf("in boot %s nothing of transaction 1 stands: an undo of it did not finish", boot)
		}
	}
}
