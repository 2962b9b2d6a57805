package tune_test

import (
	"context"
	"syscall"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Where every value is rejected, OrNothing leaves neither a transaction nor its
// selection standing, whether that is known beforehand or only from the writes.
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

// rounding keeps 1024 for every value written to one path.
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

// A value that the kernel rounds is not as wanted, and it is there: it is said
// which, it counts as set, and undo takes it back.
func TestRoundedValue(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "0"))
	good := h.Files
	h.Files = rounding{good, "/proc/sys/a/one"}
	e := newEngine(t, h)
	a, err := e.Apply(context.Background(), planOf(e, journal.Apply, []setting.Change{set("a.one", "1000")}), tune.ApplyOptions{Kind: journal.Apply, OrNothing: true})
	if err != nil || a.Result != journal.ResultPartial || a.Changed() != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	if s := a.Plan.Steps[0]; s.Verdict != plugin.Rejected || s.Why != "the kernel makes 1024 of it" {
		t.Errorf("%s (%s)", s.Verdict, s.Why)
	}
	wantValue(t, e, "a.one", "1024")
	h.Files = good
	undo(t, e)
	wantValue(t, e, "a.one", "0")
}
