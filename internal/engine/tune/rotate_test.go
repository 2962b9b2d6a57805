package tune_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestRotationLosesNothing compares a journal that is rotated again and again, and sometimes killed
// during the rotation, with one that is never rotated: the machine has the same values, and the
// same original state at the end.
func TestRotationLosesNothing(t *testing.T) {
	merged, rotated := 0, 0
	for seed := range root.Sample(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 5))
			names := []string{"a.a", "a.b", "a.c", "a.d"}
			plainHost, _ := fakeMachine(t, sysctls("a.a", "0", "a.b", "0", "a.c", "0", "a.d", "0"))
			plain := newEngine(t, plainHost)
			host, _ := fakeMachine(t, sysctls("a.a", "0", "a.b", "0", "a.c", "0", "a.d", "0"))
			e := newEngine(t, host)
			e.Reason = strings.Repeat("x", 20<<10) // so that the file is set aside often
			// crashing does something on both; the second engine is killed in a
			// rotation once, if one happens, and does it again.
			crashing := func(do func(*tune.Engine)) {
				t.Helper()
				do(plain)
				points := []string{"write", "link", "rename", "done", "never"}
				point := "journal:rotate:" + points[r.IntN(len(points))]
				e.At = func(p string) {
					if strings.HasPrefix(p, "journal:rotate:done") {
						rotated++
					}
					if p == point {
						panic(killed(p))
					}
				}
				func() {
					defer func() {
						if _, ok := recover().(killed); ok {
							e.At = nil
							do(e)
						}
					}()
					do(e)
				}()
				e.At = nil
			}
			some := func() (changes []setting.Change) {
				for _, n := range names {
					if r.IntN(2) == 0 {
						changes = append(changes, set(n, fmt.Sprint(r.IntN(5))))
					}
				}
				if len(changes) == 0 {
					changes = append(changes, set(names[0], "9"))
				}
				return changes
			}
			for step := range 60 {
				what := "tune"
				switch n := r.IntN(10); {
				case n < 6:
					changes := some()
					crashing(func(e *tune.Engine) { apply(t, e, journal.Tune, changes...) })
				case n < 8:
					what = "apply"
					changes := some()
					// Wanting what is there already records nothing.
					if slices.ContainsFunc(changes, func(c setting.Change) bool { return read(t, e, c.Setting.Name) != c.Want.Text }) {
						crashing(func(e *tune.Engine) { apply(t, e, journal.Apply, changes...) })
					}
				default:
					s, err := e.State()
					if err != nil {
						t.Fatal(err)
					}
					live := s.Live()
					if len(live) == 0 {
						continue
					}
					id := live[r.IntN(len(live))].ID
					what = fmt.Sprintf("undo %d", id)
					undo(t, plain, append(partOf(t, e, id), id)...)
					undo(t, e, id)
				}
				for _, n := range names {
					if got, want := read(t, e, n), read(t, plain, n); got != want {
						t.Fatalf("step %d (%s): %s is %s, want %s as without rotation", step, what, n, got, want)
					}
				}
			}
			all, err := journal.History(e.StateDir, "boot-1")
			if err != nil {
				t.Fatal(err)
			}
			whole, err := journal.History(plain.StateDir, "boot-1")
			if err != nil {
				t.Fatal(err)
			}
			if len(all) != len(whole) {
				t.Errorf("history has %d transactions, want %d", len(all), len(whole))
			}
			for i := range min(len(all), len(whole)) {
				if a, b := all[i], whole[i]; a.ID != b.ID || a.Kind != b.Kind || len(a.Entries) != len(b.Entries) || a.UndoneBy() != b.UndoneBy() && a.Superseded == 0 {
					t.Errorf("history: %d %s with %d entries, undone by %d; want %d %s with %d, undone by %d", a.ID, a.Kind, len(a.Entries), a.UndoneBy(), b.ID, b.Kind, len(b.Entries), b.UndoneBy())
				}
				if all[i].Superseded != 0 {
					merged++
				}
			}
			if _, err := e.Undo(context.Background()); err != nil && err != tune.ErrNothing {
				t.Fatal(err)
			}
			for _, n := range names {
				wantValue(t, e, n, "0")
			}
			if leftovers, _ := filepath.Glob(filepath.Join(e.StateDir, "*.new")); len(leftovers) > 0 {
				_ = os.Remove(leftovers[0]) // of a kill: the next rotation writes over it
			}
		})
	}
	if rotated < 2*root.Sample(4) || merged < root.Sample(4) {
		t.Errorf("set aside %d times, with %d transactions merged: too few to show anything", rotated, merged)
	}
	t.Logf("set aside %d times, with %d transactions merged", rotated, merged)
}

type killed string

// partOf lists the transactions that were merged into another one.
func partOf(t *testing.T, e *tune.Engine, id int) (ids []int) {
	t.Helper()
	all, err := journal.History(e.StateDir, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tx := range all {
		if tx.Superseded == id && tx.UndoneBy() == 0 && tx.Kind != journal.Undo {
			ids = append(append(ids, partOf(t, e, tx.ID)...), tx.ID)
		}
	}
	return ids
}
