package tune_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// cutKernel ends at one of its writes, before the write has any effect.
type cutKernel struct {
	*coupledKernel
	left int // writes before that
}

func (k *cutKernel) Store(p string, data []byte) error {
	if k.left == 0 {
		panic(errCut)
	}
	k.left--
	return k.coupledKernel.Store(p, data)
}

// TestTwinsBothZeroCutOff tests a limit whose two spellings were both 0, which no program can
// write: undo reaches this state through the other spelling. If it is interrupted at any point,
// also between its two writes, the next undo or the recovery has the same result.
func TestTwinsBothZeroCutOff(t *testing.T) {
	tree, halfway := coupledTree(t), false
	for writes := 0; ; writes++ {
		k := &coupledKernel{}
		h := host.Mounted(tree)
		k.Files = h.Files
		cut := &cutKernel{coupledKernel: k, left: -1}
		h.Files = cut
		e := newEngine(t, h)
		apply(t, e, journal.Apply, set("vm.dirty_bytes", "104857600"))
		wantValue(t, e, "vm.dirty_bytes", "104857600")
		cut.left = writes
		ended := !cutOff(func() { undo(t, e) })
		cut.left = -1
		halfway = halfway || k.ratio == 1
		if !ended {
			if _, err := e.Recover(context.Background()); err != nil {
				t.Fatalf("cut off after %d writes: recover: %v", writes, err)
			}
			if s, err := e.State(); err != nil {
				t.Fatal(err)
			} else if len(s.Live()) > 0 {
				undo(t, e)
			}
		}
		if k.bytes != 0 || k.ratio != 0 {
			t.Errorf("cut off after %d writes: bytes %d, ratio %d, want 0 and 0", writes, k.bytes, k.ratio)
		}
		if ended {
			break
		}
	}
	if !halfway {
		t.Error("never cut off between the two writes to the other spelling")
	}
}

// TestTwinsBothZeroAskedFor tests that such a 0 is refused if it is requested rather than restored,
// as in the kernel.
func TestTwinsBothZeroAskedFor(t *testing.T) {
	k := &coupledKernel{bytes: 104857600}
	h := host.Mounted(coupledTree(t))
	k.Files = h.Files
	h.Files = k
	e := newEngine(t, h)
	a := apply(t, e, journal.Apply, set("vm.dirty_bytes", "0"))
	if a.Plan.Steps[0].Verdict != plugin.Rejected || k.bytes != 104857600 || k.ratio != 0 {
		t.Errorf("%s (%s), bytes %d, ratio %d; want it rejected and nothing changed", a.Plan.Steps[0].Verdict, a.Plan.Steps[0].Why, k.bytes, k.ratio)
	}
}

// TestTwinsBothZero does the same on the real kernel, with a limit at which no process waits for
// the disk.
func TestTwinsBothZero(t *testing.T) {
	root.Disposable(t)
	ratio, bytes := sysctl("vm.dirty_background_ratio"), sysctl("vm.dirty_background_bytes")
	before := map[string]string{"ratio": liveRead(t, ratio), "bytes": liveRead(t, bytes)}
	t.Cleanup(func() {
		if liveWrite(t, ratio, before["ratio"]); before["bytes"] != "0" {
			liveWrite(t, bytes, before["bytes"])
		}
	})
	liveWrite(t, ratio, "7")
	liveWrite(t, ratio, "0")
	if liveRead(t, ratio) != "0" || liveRead(t, bytes) != "0" {
		t.Fatal("this kernel does not couple the two")
	}
	// What noLimit says of it: write-back begins at the first dirty page.
	if b, err := os.ReadFile("/proc/vmstat"); err != nil || !strings.Contains(string(b), "\nnr_dirty_background_threshold 0\n") {
		t.Errorf("a threshold is left: %v", err)
	}
	e := newEngine(t, host.Live())
	apply(t, e, journal.Apply, set("vm.dirty_background_bytes", "67108864"))
	if got := liveRead(t, bytes); got != "67108864" {
		t.Fatalf("dirty_background_bytes is %s", got)
	}
	undo(t, e)
	if liveRead(t, ratio) != "0" || liveRead(t, bytes) != "0" {
		t.Errorf("ratio %s bytes %s, want 0 and 0", liveRead(t, ratio), liveRead(t, bytes))
	}
}

// TestParentSetsTheSameLimit tests a profile and its parent that set the same limit: verify passes,
// and undo restores the machine's own value, not the parent's (TuneD 2.28 leaves the parent's).
func TestParentSetsTheSameLimit(t *testing.T) {
	k := &coupledKernel{ratio: 20}
	h := host.Mounted(coupledTree(t))
	k.Files = h.Files
	h.Files = k
	e := newEngine(t, h)
	a := apply(t, e, journal.Tune, set("vm.dirty_ratio", "40"), set("vm.dirty_ratio", "30"))
	if len(a.Plan.Steps) != 1 || k.ratio != 30 || len(a.Plan.Problems) != 1 {
		t.Errorf("%d steps, ratio %d, problems %v", len(a.Plan.Steps), k.ratio, a.Plan.Problems)
	}
	undo(t, e)
	if k.ratio != 20 || k.bytes != 0 {
		t.Errorf("ratio %d, bytes %d, want 20 and 0", k.ratio, k.bytes)
	}
}

// TestZeroIsNotNoLimit tests that a 0 that leaves a limit without a value is written as requested,
// with a warning. A 0 together with a value of the other spelling is not written and causes no
// warning. A plan shows which write sets the other spelling to 0.
func TestZeroIsNotNoLimit(t *testing.T) {
	for _, c := range []struct {
		name         string
		bytes, ratio int
		set          [][2]string
		warnings     int
		after        [2]int // bytes, ratio
		with         string // of the first step
	}{
		{"ratio alone", 0, 20, [][2]string{{"vm.dirty_ratio", "0"}}, 1, [2]int{0, 0}, ""},
		{"ratio alone, bytes stand", 4096000, 0, [][2]string{{"vm.dirty_ratio", "0"}}, 0, [2]int{4096000, 0}, ""},
		{"ratio alone, both are 0", 0, 0, [][2]string{{"vm.dirty_ratio", "0"}}, 1, [2]int{0, 0}, ""},
		{"bytes alone", 0, 20, [][2]string{{"vm.dirty_bytes", "0"}}, 0, [2]int{0, 20}, ""},
		{"both", 0, 20, [][2]string{{"vm.dirty_bytes", "0"}, {"vm.dirty_ratio", "0"}}, 1, [2]int{0, 0}, ""},
		{"both, the other order", 0, 20, [][2]string{{"vm.dirty_ratio", "0"}, {"vm.dirty_bytes", "0"}}, 1, [2]int{0, 0}, ""},
		{"both, bytes stand", 4096000, 0, [][2]string{{"vm.dirty_bytes", "0"}, {"vm.dirty_ratio", "0"}}, 0, [2]int{4096000, 0}, ""},
		{"0 and a value", 4096000, 0, [][2]string{{"vm.dirty_bytes", "0"}, {"vm.dirty_ratio", "30"}}, 0, [2]int{0, 30}, "sysctl:vm.dirty_ratio"},
		{"0 and a value, as it is", 0, 20, [][2]string{{"vm.dirty_bytes", "0"}, {"vm.dirty_ratio", "30"}}, 0, [2]int{0, 30}, ""},
	} {
		k := &coupledKernel{bytes: c.bytes, ratio: c.ratio}
		h := host.Mounted(coupledTree(t))
		k.Files = h.Files
		h.Files = k
		e := newEngine(t, h)
		var changes []setting.Change
		for _, s := range c.set {
			changes = append(changes, set(s[0], s[1]))
		}
		p, err := e.PlanChanges(t.Context(), changes, &journal.State{})
		if err != nil {
			t.Fatal(err)
		}
		with := ""
		if w := p.Steps[0].With; w != nil {
			with = w.String()
		}
		a := apply(t, e, journal.Apply, changes...)
		if len(p.Problems) != c.warnings || len(a.Plan.Problems) != c.warnings || with != c.with || [2]int{k.bytes, k.ratio} != c.after {
			t.Errorf("%s: problems %v, with %q; then bytes %d, ratio %d", c.name, p.Problems, with, k.bytes, k.ratio)
		}
	}
}

// TestZeroWithUnknownTwin tests a copy that lacks one spelling: if the other spelling has a value,
// the missing one is known to be 0.
func TestZeroWithUnknownTwin(t *testing.T) {
	for _, c := range []struct {
		name, file, now string
		set             [][2]string
		warnings        int
	}{
		{"ratio", "vm/dirty_ratio", "20\n", [][2]string{{"vm.dirty_ratio", "0"}}, 1},
		{"background", "vm/dirty_background_ratio", "10\n", [][2]string{{"vm.dirty_background_ratio", "0"}}, 1},
		{"overcommit", "vm/overcommit_ratio", "50\n", [][2]string{{"vm.overcommit_ratio", "0"}}, 1},
		{"is 0 already", "vm/dirty_ratio", "0\n", [][2]string{{"vm.dirty_ratio", "0"}}, 0},
		{"not 0", "vm/dirty_ratio", "20\n", [][2]string{{"vm.dirty_ratio", "10"}}, 0},
		{"with the twin", "vm/dirty_ratio", "20\n", [][2]string{{"vm.dirty_ratio", "0"}, {"vm.dirty_bytes", "4096000"}}, 0},
	} {
		dir := t.TempDir()
		machine.Write(t, dir, map[string]string{"proc/sys/" + c.file: c.now})
		h, err := host.Copy(dir)
		if err != nil {
			t.Fatal(err)
		}
		var changes []setting.Change
		for _, s := range c.set {
			changes = append(changes, set(s[0], s[1]))
		}
		p, err := newEngine(t, h).PlanChanges(t.Context(), changes, &journal.State{})
		if err != nil || len(p.Problems) != c.warnings {
			t.Errorf("%s: %v, problems %v, want %d", c.name, err, p.Problems, c.warnings)
		}
	}
}
