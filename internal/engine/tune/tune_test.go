package tune_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

func TestApplyAndUndo(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("vm.swappiness", "60", "kernel.pid_max", "32768"))
	e := newEngine(t, h)
	a := apply(t, e, journal.Apply, set("vm.swappiness", "10"), set("kernel.pid_max", "32768"), set("vm.no_such_thing", "1"))
	wantValue(t, e, "vm.swappiness", "10")
	var got []string
	for _, s := range a.Plan.Steps {
		got = append(got, fmt.Sprintf("%s %s %s", s.Setting.Name, s.Action, s.Verdict))
	}
	want := []string{"vm.swappiness write ok", "kernel.pid_max same ok", "vm.no_such_thing none unsupported"}
	if !slices.Equal(got, want) {
		t.Errorf("steps %q, want %q", got, want)
	}
	undo(t, e)
	wantValue(t, e, "vm.swappiness", "60")
	if _, err := e.Undo(context.Background()); !errors.Is(err, tune.ErrNothing) {
		t.Errorf("second undo: %v, want ErrNothing", err)
	}
}

// TestAllOrdersOfFourOverlappingTransactions tests four transactions that overlap in every way,
// undone one by one in each of the 24 orders. Values of later transactions stay until their undo,
// and the original state is always restored at the end.
func TestAllOrdersOfFourOverlappingTransactions(t *testing.T) {
	original := map[string]string{"a.a": "0", "a.b": "0", "a.c": "0", "a.d": "0"}
	txs := []map[string]string{
		{"a.a": "1", "a.b": "1"},
		{"a.b": "2", "a.c": "2"},
		{"a.a": "3", "a.c": "3", "a.d": "3"},
		{"a.b": "4", "a.c": "3", "a.d": "4"}, // a.c: wants what is there already
	}
	for _, kind := range []journal.TxKind{journal.Apply, journal.Tune} {
		for _, order := range permutations(4) {
			t.Run(fmt.Sprintf("%s %v", kind, order), func(t *testing.T) {
				h, _ := fakeMachine(t, sysctls("a.a", "0", "a.b", "0", "a.c", "0", "a.d", "0"))
				e := newEngine(t, h)
				for _, tx := range txs {
					var changes []setting.Change
					for _, name := range slices.Sorted(mapKeys(tx)) {
						changes = append(changes, set(name, tx[name]))
					}
					apply(t, e, kind, changes...)
				}
				standing := []int{0, 1, 2, 3}
				for _, i := range order {
					undo(t, e, i+1)
					standing = slices.DeleteFunc(standing, func(j int) bool { return j == i })
					for name, was := range original {
						want := was
						for _, j := range standing {
							if v, ok := txs[j][name]; ok {
								want = v
							} else if kind == journal.Tune && j > 0 {
								// A selection that does not name a place releases
								// it: to the original, as all below are selections.
								want = was
							}
						}
						if got := read(t, e, name); got != want {
							t.Errorf("after undoing %d, with %v standing: %s is %s, want %s", i+1, standing, name, got, want)
						}
					}
				}
			})
		}
	}
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var out [][]int
	for _, p := range permutations(n - 1) {
		for i := 0; i <= len(p); i++ {
			out = append(out, slices.Insert(slices.Clone(p), i, n-1))
		}
	}
	return out
}

// TestSwitchWritesOnlyTheDifference tests that a switch writes only the differences: values that
// both profiles share are not written, values that the new one lacks are restored, and undo reverts
// both.
func TestSwitchWritesOnlyTheDifference(t *testing.T) {
	h, dir := fakeMachine(t, sysctls("a.both", "0", "a.old", "0", "a.new", "0", "a.changes", "0"))
	e := newEngine(t, h)
	apply(t, e, journal.Tune, set("a.both", "1"), set("a.old", "1"), set("a.changes", "1"))
	var writes []string
	e.At = func(p string) {
		if name, ok := strings.CutPrefix(p, "write:sysctl:"); ok && strings.HasSuffix(name, ":after") {
			writes = append(writes, strings.TrimSuffix(name, ":after"))
		}
	}
	apply(t, e, journal.Tune, set("a.both", "1"), set("a.new", "2"), set("a.changes", "2"))
	if want := []string{"a.old", "a.new", "a.changes"}; !slices.Equal(writes, want) {
		t.Errorf("wrote %q, want %q", writes, want)
	}
	wantValue(t, e, "a.old", "0")
	undo(t, e, 2)
	for name, want := range map[string]string{"a.both": "1", "a.old": "1", "a.new": "0", "a.changes": "1"} {
		wantValue(t, e, name, want)
	}
	undo(t, e)
	for _, name := range []string{"a.both", "a.old", "a.new", "a.changes"} {
		wantValue(t, e, name, "0")
	}
	_ = dir
}

func TestForeignChangeIsKeptAndNamed(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("vm.swappiness", "60", "vm.laptop_mode", "0"))
	e := newEngine(t, h)
	apply(t, e, journal.Apply, set("vm.swappiness", "10"), set("vm.laptop_mode", "5"))
	if err := e.Kinds.Write(context.Background(), sysctl("vm.swappiness"), setting.Text("44")); err != nil {
		t.Fatal(err)
	}
	u := undo(t, e)
	wantValue(t, e, "vm.swappiness", "44")
	wantValue(t, e, "vm.laptop_mode", "0")
	for _, v := range u.Values {
		if v.Setting.Name == "vm.swappiness" && (v.State != journal.KeptNow || v.Why == "") {
			t.Errorf("swappiness: %+v, want kept with a reason", v)
		}
	}
}

func TestRebootClosesRuntimeEntriesAndLeavesFiles(t *testing.T) {
	h, dir := fakeMachine(t, sysctls("vm.swappiness", "60"))
	if err := os.MkdirAll(filepath.Join(dir, "etc/modprobe.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "etc/modprobe.d/x.conf")
	if err := os.WriteFile(conf, []byte("options a b=1\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, h)
	file := setting.Change{Setting: setting.Setting{Kind: "file", Name: "/etc/modprobe.d/x.conf"}, Want: setting.Text("options a b=2\n")}
	gone := setting.Change{Setting: setting.Setting{Kind: "file", Name: "/etc/modprobe.d/new.conf"}, Want: setting.Text("new\n")}
	apply(t, e, journal.Apply, set("vm.swappiness", "10"), file, gone)
	reboot(t, dir, "boot-2")
	if err := e.Kinds.Write(context.Background(), sysctl("vm.swappiness"), setting.Text("30")); err != nil {
		t.Fatal(err) // what the new boot set
	}
	undo(t, e)
	wantValue(t, e, "vm.swappiness", "30")
	if b, _ := os.ReadFile(conf); string(b) != "options a b=1\n" {
		t.Errorf("x.conf is %q", b)
	}
	if st, _ := os.Stat(conf); st.Mode().Perm() != 0o640 {
		t.Errorf("x.conf has mode %v, want 0640", st.Mode())
	}
	if _, err := os.Stat(filepath.Join(dir, "etc/modprobe.d/new.conf")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("new.conf is still there: %v", err)
	}
}

func reboot(t *testing.T, dir, id string) {
	t.Helper()
	machine.WriteFile(t, dir, "proc/sys/kernel/random/boot_id", id+"\n")
}

func TestTwoTransactionsAtOnce(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("vm.swappiness", "60"))
	e := newEngine(t, h)
	other := *e
	var inner error
	e.At = func(p string) {
		if p == "write:sysctl:vm.swappiness:before" {
			other.At = nil
			_, inner = other.Undo(context.Background())
		}
	}
	apply(t, e, journal.Apply, set("vm.swappiness", "10"))
	if !errors.Is(inner, journal.ErrBusy) {
		t.Errorf("second transaction: %v, want ErrBusy", inner)
	}
}

func TestInterruptedApplyIsTakenBack(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "0", "a.two", "0"))
	e := newEngine(t, h)
	ctx, cancel := context.WithCancel(context.Background())
	e.At = func(p string) {
		if p == "write:sysctl:a.one:after" {
			cancel()
		}
	}
	_, err := e.Apply(ctx, planOf(e, journal.Apply, []setting.Change{set("a.one", "1"), set("a.two", "1")}), tune.ApplyOptions{Kind: journal.Apply})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("apply: %v, want canceled", err)
	}
	wantValue(t, e, "a.one", "0")
	wantValue(t, e, "a.two", "0")
}

func TestKeepAndStalePlan(t *testing.T) {
	h, dir := fakeMachine(t, sysctls("vm.swappiness", "60", "vm.laptop_mode", "0"))
	e := newEngine(t, h)
	write := func(text string) { machine.WriteFile(t, dir, tune.KeepDir+"/10-db.conf", text) }
	write("# ours\nvm.swappiness = set by the database team\n")
	var err error
	if e.Keep, err = tune.ReadKeep(h, e.Kinds); err != nil {
		t.Fatal(err)
	}
	a := apply(t, e, journal.Apply, set("vm.swappiness", "10"), set("vm.laptop_mode", "1"))
	wantValue(t, e, "vm.swappiness", "60")
	if s := a.Plan.Steps[0]; s.Verdict != plugin.Kept || !strings.Contains(s.Why, "10-db.conf:2") {
		t.Errorf("%s %q, want kept with the place", s.Verdict, s.Why)
	}
	write("vm.swappiness\nvm.laptop_mode = ours\n")
	if keep, err := tune.ReadKeep(h, e.Kinds); err == nil || !strings.Contains(err.Error(), "10-db.conf:1") || len(keep) != 1 || keep[0].Line != 2 {
		t.Errorf("line without a reason: %v, want an error with its place, and the other line: %+v", err, keep)
	}

	// A saved plan holds only while the machine is as it was.
	s, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.PlanChanges(context.Background(), []setting.Change{set("vm.laptop_mode", "7")}, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Kinds.Write(context.Background(), sysctl("vm.laptop_mode"), setting.Text("3")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Apply(context.Background(), e.ApplySaved(p), tune.ApplyOptions{Kind: journal.Apply}); !errors.Is(err, tune.ErrStale) {
		t.Errorf("stale plan: %v, want ErrStale", err)
	}
	wantValue(t, e, "vm.laptop_mode", "3")
}

// TestForeignChangeBetweenTransactions tests that a value set between two transactions stays, in
// whatever order these are undone.
func TestForeignChangeBetweenTransactions(t *testing.T) {
	for _, order := range [][]int{{1, 2}, {2, 1}, nil} {
		h, _ := fakeMachine(t, sysctls("vm.swappiness", "60"))
		e := newEngine(t, h)
		apply(t, e, journal.Apply, set("vm.swappiness", "30"))
		if err := e.Kinds.Write(context.Background(), sysctl("vm.swappiness"), setting.Text("44")); err != nil {
			t.Fatal(err)
		}
		apply(t, e, journal.Apply, set("vm.swappiness", "10"))
		if order == nil {
			v := undo(t, e).Values
			if len(v) != 1 || v[0].State != journal.KeptNow || v[0].Found.Text != "44" || v[0].To.Text != "60" || v[0].Why == "" {
				t.Errorf("the kept value is not named: %+v", v)
			}
		}
		for _, id := range order {
			undo(t, e, id)
		}
		if got := read(t, e, "vm.swappiness"); got != "44" {
			t.Errorf("undone in order %v: %s, want 44", order, got)
		}
	}
}
