package tune_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// faulty makes writes to one path fail.
type faulty struct {
	host.Files
	path string
	err  error
}

func (f faulty) Store(p string, data []byte) error {
	if p == f.path {
		return &os.PathError{Op: "write", Path: p, Err: f.err}
	}
	return f.Files.Store(p, data)
}

// half accepts only the beginning of every write to one path and returns an error for the rest, as
// the kernel does with "5 ; c". If last is set, it accepts nothing afterwards.
type half struct {
	host.Files
	path string
	last *bool
}

func (f half) Store(p string, data []byte) error {
	if p != f.path || !strings.Contains(string(data), ";") {
		if f.last != nil && *f.last && p == f.path {
			return &os.PathError{Op: "write", Path: p, Err: syscall.EIO}
		}
		return f.Files.Store(p, data)
	}
	first, _, _ := strings.Cut(string(data), " ")
	if err := f.Files.Store(p, []byte(first+"\n")); err != nil {
		return err
	}
	if f.last != nil {
		*f.last = true
	}
	return &os.PathError{Op: "write", Path: p, Err: syscall.EINVAL}
}

// TestRejectedValueThatChangedSomething tests a rejected write that changed the value: the value is
// restored at once. If that fails, the remaining value is named.
func TestRejectedValueThatChangedSomething(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		h, _ := fakeMachine(t, sysctls("a.one", "0", "a.two", "1"))
		f := half{Files: h.Files, path: "/proc/sys/a/two"}
		if stuck {
			f.last = new(bool)
		}
		h.Files = f
		e := newEngine(t, h)
		a := apply(t, e, journal.Apply, set("a.one", "1"), set("a.two", "5 ; c"))
		want, why := "1", "invalid argument"
		if stuck {
			want, why = "5", "invalid argument; but sysctl:a.two is now 5 and cannot be restored to 1: input/output error"
		}
		wantValue(t, e, "a.one", "1")
		wantValue(t, e, "a.two", want)
		if s := a.Plan.Steps[1]; s.Verdict != plugin.Rejected || s.Why != why {
			t.Errorf("verdict %s (%s), want rejected (%s)", s.Verdict, s.Why, why)
		}
		if stuck {
			*f.last = false
		}
		undo(t, e)
		wantValue(t, e, "a.one", "0")
		wantValue(t, e, "a.two", "1")
	}
}

func TestRejectedValue(t *testing.T) {
	for _, atomic := range []bool{false, true} {
		h, _ := fakeMachine(t, sysctls("a.one", "0", "a.two", "0", "a.three", "0"))
		h.Files = faulty{h.Files, "/proc/sys/a/two", syscall.EINVAL}
		e := newEngine(t, h)
		changes := []setting.Change{set("a.one", "1"), set("a.two", "2"), set("a.three", "3")}
		a, err := e.Apply(context.Background(), planOf(e, journal.Apply, changes), tune.ApplyOptions{Kind: journal.Apply, Atomic: atomic})
		if err != nil {
			t.Fatal(err)
		}
		want, result := "1 0 3", journal.ResultPartial
		if atomic {
			want, result = "0 0 0", journal.ResultRolledBack
		}
		got := read(t, e, "a.one") + " " + read(t, e, "a.two") + " " + read(t, e, "a.three")
		if got != want || a.Result != result {
			t.Errorf("atomic %v: values %s, result %s; want %s, %s", atomic, got, a.Result, want, result)
		}
		if s := a.Plan.Steps[1]; s.Verdict != plugin.Rejected || s.Why != "invalid argument" {
			t.Errorf("verdict %s (%s), want rejected (invalid argument)", s.Verdict, s.Why)
		}
		if _, err := e.Undo(context.Background()); atomic != errors.Is(err, tune.ErrNothing) {
			t.Errorf("atomic %v: undo: %v", atomic, err)
		}
		wantValue(t, e, "a.one", "0")
	}
}

func TestUndoThatCannotWriteIsIncompleteAndTriedAgain(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "0", "a.two", "0"))
	e := newEngine(t, h)
	apply(t, e, journal.Apply, set("a.one", "1"), set("a.two", "1"))
	good := h.Files
	h.Files = faulty{good, "/proc/sys/a/two", syscall.EIO}
	_, err := e.Undo(context.Background())
	var incomplete *tune.IncompleteError
	if !errors.As(err, &incomplete) || len(incomplete.Left) != 1 {
		t.Fatalf("undo: %v, want one value left", err)
	}
	wantValue(t, e, "a.one", "0")
	h.Files = good
	undo(t, e)
	wantValue(t, e, "a.two", "0")
}

// TestKnownRangeInPlan tests that a value outside the kernel's known range is rejected in the plan
// and not written. If an earlier line sets a valid value, that value stays, and a message says so.
func TestKnownRangeInPlan(t *testing.T) {
	files := sysctls("vm.dirty_ratio", "20", "vm.dirty_bytes", "0", "vm.swappiness", "60")
	files["/proc/sys/kernel/osrelease"] = "6.12.0"
	h, dir := fakeMachine(t, files)
	e := newEngine(t, h)
	a := apply(t, e, journal.Apply, set("vm.dirty_bytes", "4096"), set("vm.dirty_ratio", "40"), set("vm.swappiness", "10"), set("vm.swappiness", "300"))
	verdicts := map[string]plugin.Verdict{}
	for _, s := range a.Plan.Steps {
		verdicts[s.Setting.Name] = s.Verdict
	}
	if verdicts["vm.dirty_bytes"] != plugin.Rejected || verdicts["vm.dirty_ratio"] != plugin.OK || verdicts["vm.swappiness"] != plugin.OK {
		t.Errorf("verdicts %v", verdicts)
	}
	if len(a.Plan.Problems) != 1 {
		t.Errorf("problems %v, want one of swappiness = 300", a.Plan.Problems)
	}
	for name, want := range map[string]string{"dirty_bytes": "0", "dirty_ratio": "40", "swappiness": "10"} {
		if b, err := os.ReadFile(filepath.Join(dir, "proc/sys/vm", name)); err != nil || strings.TrimSpace(string(b)) != want {
			t.Errorf("%s is %q, want %s", name, b, want)
		}
	}
}

// TestNoValueCouldBeSet tests that OrNothing leaves neither a transaction nor its selection if
// every value is rejected, in the plan or by a write.
func TestNoValueCouldBeSet(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "0", "a.two", "0"))
	good := h.Files
	e := newEngine(t, h)
	first, err := e.Apply(context.Background(), planOf(e, journal.Tune, []setting.Change{set("a.one", "1")}), tune.ApplyOptions{Kind: journal.Tune, Selection: selectionFor(journal.Tune), OrNothing: true})
	if err != nil || first.Result != journal.ResultDone {
		t.Fatalf("first: %+v, %v", first, err)
	}
	h.Files = faulty{good, "/proc/sys/a/two", syscall.EINVAL}
	a, err := e.Apply(context.Background(), planOf(e, journal.Tune, []setting.Change{set("a.two", "2")}), tune.ApplyOptions{Kind: journal.Tune, Selection: selectionFor(journal.Tune), OrNothing: true})
	if err != nil || a.Result != journal.ResultRolledBack {
		t.Errorf("second: %s, %v, want it rolled back", a.Result, err)
	}
	wantValue(t, e, "a.one", "1") // had gone back, with the selection before
	s, err := e.State()
	if err != nil || s.InForce() == nil || s.InForce().ID != first.Tx || len(s.Live()) != 1 {
		t.Errorf("in force: %+v, standing %v (%v), want transaction %d", s.InForce(), s.Live(), err, first.Tx)
	}
	undo(t, e)
	wantValue(t, e, "a.one", "0")
}

// rounding stores 1024 for every value written to one path.
type rounding struct {
	host.Files
	path string
}

func (f rounding) Store(p string, data []byte) error {
	if p == f.path {
		data = []byte("1024\n")
	}
	return f.Files.Store(p, data)
}

// TestRoundedValue tests a value that the kernel rounds: it is reported as not as requested, counts
// as set, and undo restores the old one.
func TestRoundedValue(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "0"))
	good := h.Files
	h.Files = rounding{good, "/proc/sys/a/one"}
	e := newEngine(t, h)
	a, err := e.Apply(context.Background(), planOf(e, journal.Apply, []setting.Change{set("a.one", "1000")}), tune.ApplyOptions{Kind: journal.Apply, OrNothing: true})
	if err != nil || a.Result != journal.ResultPartial || a.Changed() != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if s := a.Plan.Steps[0]; s.Verdict != plugin.Rejected || s.Why != "the kernel changes it to 1024" {
		t.Errorf("%s (%s)", s.Verdict, s.Why)
	}
	wantValue(t, e, "a.one", "1024")
	h.Files = good
	undo(t, e)
	wantValue(t, e, "a.one", "0")
}
