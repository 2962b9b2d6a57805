package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/setting"
)

// TestRoomIsWrittenWhereItCannotBeSetAside tests a file system without fallocate(2): the journal
// writes zeros behind the last record, and later records replace them.
func TestRoomIsWrittenWhereItCannotBeSetAside(t *testing.T) {
	for name, errno := range map[string]error{"EOPNOTSUPP": unix.EOPNOTSUPP, "ENOSYS": unix.ENOSYS} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			o := Options{BootID: "boot", Fallocate: func(int, uint32, int64, int64) error { return errno }}
			j, err := Lock(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			tx, err := j.Begin(Begin{Kind: Apply, BootID: "boot"})
			if err != nil {
				t.Fatal(err)
			}
			if err := j.Stage(tx, []Before{{Setting: setting.Setting{Kind: "sysctl", Name: "a.b"}, Before: setting.Text("0"), Want: setting.Text("1"), Lifetime: setting.Runtime}}); err != nil {
				t.Fatal(err)
			}
			room := func() {
				t.Helper()
				st, err := os.Stat(filepath.Join(dir, "journal"))
				if err != nil {
					t.Fatal(err)
				}
				if want := j.State.size + j.State.undoRoom(); st.Size() < want || st.Sys().(*syscall.Stat_t).Blocks*512 < want {
					t.Errorf("%d bytes, %d blocks: want room up to %d", st.Size(), st.Sys().(*syscall.Stat_t).Blocks, want)
				}
			}
			room()
			size := j.State.size
			j.Close()
			// A copy that keeps zeros as holes has lost the room.
			text, err := os.ReadFile(filepath.Join(dir, "journal"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "journal"), bytes.TrimRight(text, "\x00"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(dir, "journal"), int64(len(text))); err != nil {
				t.Fatal(err)
			}
			if j, err = Lock(dir, o); err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if j.State.size != size || len(j.State.Damage) > 0 {
				t.Fatalf("read again: %d bytes, damage %v; want %d", j.State.size, j.State.Damage, size)
			}
			if err := j.Commit(Commit{ID: tx.ID, Result: ResultDone}); err != nil {
				t.Fatal(err)
			}
			room()
		})
	}
}

// TestTornRecordOverZeros tests a record that was written over zeros and reached the disk only in
// part, its end before its beginning. The journal has never acknowledged this write, so it reports no
// damage: opening it removes the rest.
func TestTornRecordOverZeros(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, "journal")
	j, err := Lock(dir, Options{BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Begin(Begin{Kind: Tune, BootID: "boot"}); err != nil {
		t.Fatal(err)
	}
	size := j.State.size
	j.Close()
	for name, tail := range map[string]string{
		"its end":       strings.Repeat("\x00", 700) + `"result":"done"}}` + "\n",
		"its beginning": `12345678 {"seq":2,"commit":{`,
		"a hole":        `12345678 {"seq":2,` + strings.Repeat("\x00", 512) + "}\n" + strings.Repeat("\x00", 4096),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(tail); err != nil {
				t.Fatal(err)
			}
			f.Close()
			j, err := Lock(dir, Options{BootID: "boot"})
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if len(j.State.Damage) > 0 || j.State.size != size {
				t.Errorf("size %d, damage %v; want %d and none", j.State.size, j.State.Damage, size)
			}
			if text, err := os.ReadFile(path); err != nil || !zeroed(text[size:]) {
				t.Errorf("left behind the last record: %q (%v)", text[size:], err)
			}
		})
	}
}
