package journal

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// TestJournalOfBefore tests records of versions that did not record the caller: they are read, and
// no caller is invented.
func TestJournalOfBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, body := range []string{
		`{"seq":0,"start":{"version":1,"next_id":1}}`,
		`{"seq":1,"begin":{"id":1,"kind":"tune","time":"2026-11-21T08:00:00Z","boot_id":"boot","user":"alice (as root)","pid":7,"reason":"fettle tune balanced"}}`,
		`{"seq":2,"stage":{"id":1,"entries":[{"n":1,"setting":"sysctl:a.b","before":"0","want":"1","lifetime":"runtime"}]}}`,
		`{"seq":3,"commit":{"id":1,"time":"2026-11-21T08:00:01Z","result":"done","outcomes":[{"n":1,"after":"1"}]}}`,
		`{"seq":4,"confirm":{"id":1,"time":"2026-11-21T08:00:02Z","user":"bob"}}`,
	} {
		text = fmt.Appendf(text, "%08x %s\n", crc32.Checksum([]byte(body), crcTable()), body)
	}
	if err := os.WriteFile(filepath.Join(dir, "journal"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Read(dir, "boot")
	if err != nil || len(s.Damage) > 0 || len(s.Txs) != 1 {
		t.Fatalf("%v, %v, %d transactions", err, s.Damage, len(s.Txs))
	}
	tx := s.Txs[0]
	if tx.User != "alice (as root)" || tx.Caller != nil || tx.Note != "" || tx.Planned != nil || tx.ConfirmedBy == nil || tx.ConfirmedBy.User != "bob" || tx.ConfirmedBy.Caller != nil {
		t.Errorf("%+v, confirmed by %+v", tx.Begin, tx.ConfirmedBy)
	}
	// It goes on in the same file, and undoes what is there.
	j, err := Lock(dir, Options{BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := j.Begin(Begin{Kind: Undo, BootID: "boot", Undoes: []int{1}, Note: "x"}); err != nil {
		t.Fatal(err)
	}
}

// TestWhoIsCarried tests that caller and reason survive the rotation of the file.
func TestWhoIsCarried(t *testing.T) {
	dir := t.TempDir() + "/state"
	j, err := Lock(dir, Options{BootID: "boot", RotateAt: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	login := 12345
	want := Begin{ID: 1, Kind: Tune, Time: time.Unix(1, 0).UTC(), BootID: "boot", User: "alice", Note: "ticket", Selection: []byte(`{}`), Try: &Try{SinceBoot: 1},
		Caller: &host.Caller{LoginUID: &login, Name: "alice", TTY: "pts/3"}, Planned: &Planned{By: "erin", Time: time.Unix(2, 0).UTC()}}
	confirm := Confirm{ID: 1, Time: time.Unix(3, 0).UTC(), User: "bob", Note: "fine", Caller: &host.Caller{UID: 7}}
	tx, err := j.Begin(want)
	if err == nil {
		err = j.Stage(tx, []Before{{Setting: setting.Setting{Kind: "sysctl", Name: "a.b"}, Before: setting.Text("0"), Want: setting.Text("1"), Lifetime: setting.Runtime}})
	}
	if err == nil {
		err = j.Commit(Commit{ID: 1, Result: ResultDone, Outcomes: []Outcome{{N: 1, After: setting.Text("1")}}})
	}
	if err == nil {
		err = j.Confirm(confirm)
	}
	for range 2 { // out of the records, then out of what was carried
		if err == nil {
			err = j.Rotate()
		}
		if err != nil {
			t.Fatal(err)
		}
		all, err := History(dir, "boot")
		if err != nil || len(all) != 1 {
			t.Fatalf("%v, %d transactions", err, len(all))
		}
		if diff := cmp.Diff(want, all[0].Begin); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(&confirm, all[0].ConfirmedBy); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestShortBegin tests that an undo on a full disk omits its reason: the rest fits into the
// reserved space.
func TestShortBegin(t *testing.T) {
	long := host.Escape(strings.Repeat("\x07", MaxNote))
	b := Begin{Kind: Undo, Reason: strings.Repeat("é", 4096), Note: long, Planned: &Planned{By: "erin"}, Undoes: []int{1}, Restore: []Ref{{1, 1}},
		Caller: &host.Caller{Name: host.EscapeTruncate(long, 64), Claimed: host.EscapeTruncate(long, 64), TTY: host.EscapeTruncate(long, 64), Client: host.EscapeTruncate(long, 256)}}
	short := b.short()
	line, err := record{Begin: &short}.encode()
	if err != nil || len(line) > undoTxBytes {
		t.Errorf("%v: %d bytes: want at most %d", err, len(line), undoTxBytes)
	}
	if len(short.Undoes) != 1 || len(short.Restore) != 1 || short.Caller == nil {
		t.Errorf("%+v: what the undo needs is gone", short)
	}
}
