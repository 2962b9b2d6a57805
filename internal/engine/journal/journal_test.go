package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		"version 2":              {{Start: &start{Version: 2, NextID: 1}}},
		"\"put aside\"":          {{Start: &start{Version: 1, NextID: 2, Carried: []carried{{Begin: Begin{ID: 1, Kind: Tune}, Entries: []carriedEntry{{Before: entry, State: "put aside"}}}}}}},
		"1 \"\": written":        undone(""),
		"a record of old values": {{Begin: &Begin{ID: 1, Kind: Undo}}, {Seq: 1, Stage: &stage{ID: 1, Entries: []Before{entry}}}},
	} {
		if _, err := parse(journalText(t, records), ""); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want a refusal that says %s", err, why)
		}
	}
}

var entry = Before{N: 1, Setting: setting.Setting{Kind: "sysctl", Name: "a.b"}, Before: setting.Text("0"), Want: setting.Text("1"), Lifetime: setting.Runtime}

// undone is a journal of one transaction, and of an undo with the given result for its only entry.
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

// TestFailedEndsWithItsBoot tests that a value that an undo could not restore stays live until its
// boot ends.
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

func TestLegible(t *testing.T) {
	var many strings.Builder
	for n := range maxLegible + 3 {
		fmt.Fprintf(&many, `{"n":%d,"setting":"sysctl:a.%d"},`, n, n)
	}
	for line, want := range map[string]string{
		"":                      "",
		`xx {"seq":2,"begin":{`: "",
		`{"setting":"sysctl:a.one","before":"1"},{"se\x00ting":"sysctl:b"},{"setting":"sysfs:/sys/x"`: " (it seems to have held sysctl:a.one, sysfs:/sys/x)",
		`{"setting":"sysctl:a"},{"setting":"sysctl:a"}`:                                               " (it seems to have held sysctl:a)",
		`{"setting":"sysctl:cut off`:                                                                  "",
		"{\"setting\":\"sysctl:a\x1b[2J\"}":                                                           "",
		`{"setting":"file:/x","before":"a \"setting\":\"sysctl:no\""}`:                                " (it seems to have held file:/x)",
	} {
		if got := legible([]byte(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := legible([]byte(many.String())); !strings.HasSuffix(got, "sysctl:a.49 and 3 more)") {
		t.Errorf("many: %q", got)
	}
}

// TestTornTailIsNamed tests that an incomplete last record is reported, but not reserved space
// after the last record.
func TestTornTailIsNamed(t *testing.T) {
	line, err := record{Start: &start{Version: 1, NextID: 1}}.encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tail []byte
		torn bool
	}{{nil, false}, {make([]byte, 4096), false}, {line[:len(line)-1], true}, {append(bytes.Clone(line[:20]), make([]byte, 100)...), true}} {
		s, err := parse(append(bytes.Clone(line), c.tail...), "")
		if err != nil || s.Torn != c.torn || len(s.Damage) > 0 || s.Generation != 1 {
			t.Errorf("tail of %d bytes: torn %v, damage %v, %d records (%v), want torn %v", len(c.tail), s.Torn, s.Damage, s.Generation, err, c.torn)
		}
	}
}

// BenchmarkParse reads the journal of 20 switches with 40 values each, as every command does at its
// start.
func BenchmarkParse(b *testing.B) {
	j, err := Lock(b.TempDir()+"/state", Options{BootID: "boot"})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	for range 20 {
		tx, err := j.Begin(Begin{Kind: Tune, BootID: "boot", User: "root", Time: time.Now(), Selection: []byte(`{"profiles":["throughput-performance"]}`)})
		if err != nil {
			b.Fatal(err)
		}
		var entries []Before
		var outcomes []Outcome
		for i := range 40 {
			entries = append(entries, Before{
				Setting: setting.Setting{Kind: "sysfs", Name: fmt.Sprintf("/sys/devices/system/cpu/cpufreq/policy%d/scaling_governor", i)},
				Before:  setting.Text("powersave"), Want: setting.Text("performance"), Lifetime: setting.Runtime,
				Reason: setting.Reason{File: "/usr/lib/tuned/throughput-performance/tuned.conf", Line: 13, Text: "governor=performance"},
			})
			outcomes = append(outcomes, Outcome{N: i + 1, After: setting.Text("performance")})
		}
		if err := j.Stage(tx, entries); err != nil {
			b.Fatal(err)
		}
		if err := j.Commit(Commit{ID: tx.ID, Result: ResultDone, Outcomes: outcomes}); err != nil {
			b.Fatal(err)
		}
	}
	text, err := readFile(j)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := parse(text, "boot"); err != nil {
			b.Fatal(err)
		}
	}
}
