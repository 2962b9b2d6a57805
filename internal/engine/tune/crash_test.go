package tune_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// moment is the machine between two steps: its values and the length of the journal.
type moment struct {
	point   string
	values  map[string]string
	journal int64
}

// TestJournalCutAtEveryByte cuts the journal at every byte, as a power cut can. Undo restores the
// original state from any length, because the remaining part covers all writes up to that moment.
// The history contains a tune, a switch, a single change and an undo.
func TestJournalCutAtEveryByte(t *testing.T) {
	names := []string{"a.one", "a.two", "a.three"}
	h, dir := fakeMachine(t, sysctls("a.one", "0", "a.two", "0", "a.three", "0"))
	e := newEngine(t, h)
	path := filepath.Join(e.StateDir, "journal")
	look := func(point string) moment {
		m := moment{point: point, values: map[string]string{}}
		for _, n := range names {
			m.values[n] = read(t, e, n)
		}
		// Up to the end of the last record: zeros may lie behind it.
		if text, err := os.ReadFile(path); err == nil {
			m.journal = int64(bytes.LastIndexByte(text, '\n') + 1)
		}
		return m
	}
	moments := []moment{look("before")}
	e.At = func(p string) { moments = append(moments, look(p)) }
	apply(t, e, journal.Tune, set("a.one", "1"), set("a.two", "1"))
	apply(t, e, journal.Tune, set("a.two", "2"), set("a.three", "2"))
	apply(t, e, journal.Apply, set("a.one", "3"))
	undo(t, e, 2)
	undo(t, e)
	e.At = nil
	moments = append(moments, look("after"))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:bytes.LastIndexByte(whole, '\n')+1]
	original := moments[0].values
	tried, step := 0, int64(1)
	if testing.Short() {
		step = 13
	}
	for i, m := range moments {
		end := m.journal + 1
		if i+1 < len(moments) && moments[i+1].journal > m.journal {
			end = moments[i+1].journal // every torn length of the next record
		}
		for cut := m.journal; cut < end; cut += step {
			tried++
			for n, v := range m.values {
				writeFile(t, filepath.Join(dir, "proc/sys", strings.ReplaceAll(n, ".", "/")), v+"\n")
			}
			writeFile(t, path, string(whole[:cut]))
			if _, err := e.Undo(context.Background()); err != nil && !errors.Is(err, tune.ErrNothing) {
				t.Fatalf("at %s, journal cut at byte %d: %v", m.point, cut, err)
			}
			if got := look("").values; !maps.Equal(got, original) {
				t.Fatalf("at %s, journal cut at byte %d: %v, want %v", m.point, cut, got, original)
			}
		}
	}
	if int64(tried)*step < int64(len(whole)) {
		t.Errorf("tried %d cuts of %d bytes", tried, len(whole))
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamageInTheMiddleIsNamed tests that a damaged record in the middle is skipped and reported,
// and that the changes of all other records are undone.
func TestDamageInTheMiddleIsNamed(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "0", "a.two", "0"))
	e := newEngine(t, h)
	apply(t, e, journal.Apply, set("a.one", "1"))
	apply(t, e, journal.Apply, set("a.two", "1"))
	path := filepath.Join(e.StateDir, "journal")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(text)))
	lines[2] = strings.Replace(lines[2], "a.one", "a.0ne", 1) // the before-images of 1
	writeFile(t, path, strings.Join(lines, ""))
	s, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Damage) == 0 || !strings.Contains(s.Damage[0], "record damaged (it seems to have held sysctl:a.0ne)") {
		t.Errorf("damage %q, want what is legible of it", s.Damage)
	}
	_, err = e.Undo(context.Background())
	var incomplete *tune.IncompleteError
	if !errors.As(err, &incomplete) || len(incomplete.Damage) == 0 {
		t.Errorf("undo: %v, want the damage named", err)
	}
	wantValue(t, e, "a.two", "0")
	// It is not forgotten: nothing comes on top of it, and no undo says that all
	// is healthy, until it was examined and moved away.
	for range 2 {
		if _, err := e.Undo(context.Background()); !errors.As(err, &incomplete) || !strings.Contains(err.Error(), path) {
			t.Errorf("another undo: %v, want the damage and the file", err)
		}
	}
	if _, err := e.Apply(context.Background(), planOf(e, journal.Apply, []setting.Change{set("a.two", "2")}), tune.ApplyOptions{Kind: journal.Apply}); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a transaction on top of it: %v, want a refusal", err)
	}
	wantValue(t, e, "a.two", "0")
	if err := os.Rename(path, path+".looked-at"); err != nil {
		t.Fatal(err)
	}
	apply(t, e, journal.Apply, set("a.two", "2"))
}

// TestFullDisk tests the journal of a full disk: at some point a transaction is refused before it
// writes anything. An undo of all earlier ones still works, because space was reserved. ext2 has no
// fallocate(2).
func TestFullDisk(t *testing.T) {
	for _, fileSystem := range []string{"tmpfs", "ext2"} {
		t.Run(fileSystem, func(t *testing.T) {
			disk := smallDisk(t, fileSystem)
			values := sysctls("a.two", "0")
			for i := range 200 {
				values[fmt.Sprintf("/proc/sys/many/v%d", i)] = "0"
			}
			values["/proc/sys/a/one"] = "0"
			h, _ := fakeMachine(t, values)
			e := newEngine(t, h)
			e.StateDir = filepath.Join(disk, "state")
			apply(t, e, journal.Apply, set("a.two", "1"))
			// A plan whose undo would not fit is refused while there is room for
			// its own records.
			var many []setting.Change
			for i := range 200 {
				many = append(many, set(fmt.Sprintf("many.v%d", i), strings.Repeat("1", 2000)))
			}
			if _, err := e.Apply(context.Background(), planOf(e, journal.Apply, many), tune.ApplyOptions{Kind: journal.Apply}); err == nil || !strings.Contains(err.Error(), "nothing changed") {
				t.Errorf("a plan larger than the disk: %v, want a refusal", err)
			}
			wantValue(t, e, "many.v0", "0")
			fillUp(t, disk)
			last := "0"
			for n := 1; ; n++ {
				next := strconv.Itoa(n)
				_, err := e.Apply(context.Background(), planOf(e, journal.Apply, []setting.Change{set("a.one", next)}), tune.ApplyOptions{Kind: journal.Apply})
				if err != nil {
					if !strings.Contains(err.Error(), "nothing changed") {
						t.Fatalf("on a full disk: %v, want a refusal", err)
					}
					break
				}
				if last = next; n > 10000 {
					t.Fatal("never refused")
				}
			}
			wantValue(t, e, "a.one", last)
			fillUp(t, disk)
			undo(t, e)
			wantValue(t, e, "a.one", "0")
			wantValue(t, e, "a.two", "0")
		})
	}
}

// TestUndoOfALargeStrangerOnAFullDisk tests an undo of a value that another program has since
// replaced by one larger than the reserved space: the undo completes.
func TestUndoOfALargeStrangerOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, "ext2")
	h, dir := fakeMachine(t, sysctls("a.one", "0", "a.two", "0"))
	e := newEngine(t, h)
	e.StateDir = filepath.Join(disk, "state")
	apply(t, e, journal.Apply, set("a.one", "1"), set("a.two", "1"))
	writeFile(t, filepath.Join(dir, "proc/sys/a/one"), strings.Repeat("9", 300<<10)+"\n")
	fillUp(t, disk)
	u, err := e.Undo(context.Background())
	if err != nil || u.Result != journal.ResultDone {
		t.Fatalf("undo: %v", err)
	}
	wantValue(t, e, "a.two", "0")
	s, err := e.State()
	if err != nil || len(s.Live()) > 0 || len(s.Interrupted()) > 0 {
		t.Errorf("after it: live %v, interrupted %v (%v)", s.Live(), s.Interrupted(), err)
	}
}

// TestUndoOfAFileOnAFullDisk tests that a whole file can be restored on a full disk that has no
// room for a second file.
func TestUndoOfAFileOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, "ext2")
	path := filepath.Join(disk, "etc")
	before := strings.Repeat("before\n", 3000)
	writeFile(t, path, before)
	e := newEngine(t, host.Live())
	change := setting.Change{Setting: setting.Setting{Kind: "file", Name: path}, Want: setting.Text(before + "and more\n"), Reason: setting.Reason{Text: "test"}}
	apply(t, e, journal.Apply, change)
	fillUp(t, disk)
	undo(t, e)
	if now, err := os.ReadFile(path); err != nil || string(now) != before {
		t.Errorf("the file has %d bytes, want the %d of before (%v)", len(now), len(before), err)
	}
	if names, _ := filepath.Glob(filepath.Join(disk, ".etc*")); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}
