package experiment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/quiet"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// If the noise cannot be measured after the command, the exit code is still that of the command.
func TestQuietKeepsExitCode(t *testing.T) {
	q := &Quiet{Screen: ui.NewScreen(os.Stdout, os.Stderr), State: &quiet.State{CPUs: quiet.CPUs{Measured: unit.CPUs(1023)}}, Result: &quiet.Result{}}
	var without, with [2]*quiet.Noise
	err := q.finish(t.Context(), ui.Exit(7, errors.New("make ended with exit code 7")), without, with)
	if ui.Code(err) != 7 || !strings.Contains(err.Error(), "cannot measure on CPU 1023") {
		t.Errorf("exit code %d: %v", ui.Code(err), err)
	}
}

// quietOn returns a Quiet that has set vm.swappiness from 60 to 0 on a stand-in machine, and the file
// of the value.
func quietOn(t *testing.T) (q *Quiet, file string) {
	t.Helper()
	h := machine.Mounted(t, map[string]string{"/proc/sys/vm/swappiness": "60\n"})
	e := &tune.Engine{Host: h, Kinds: setting.Kernel(h), StateDir: filepath.Join(machine.Dir(t), "state"), Main: profile.DefaultMain(), User: "test"}
	change := setting.Change{Setting: setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}, Want: setting.Text("0"), Reason: setting.Reason{Text: "test"}}
	tuning := &prove.Tuning{Engine: e, Options: tune.ApplyOptions{Kind: journal.Apply}, Planner: func(ctx context.Context, j *journal.State) (*tune.Plan, error) {
		return e.PlanOnTop(ctx, []setting.Change{change}, &profile.Profile{}, j)
	}}
	if err := tuning.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	q = &Quiet{Machine: &tune.Machine{Engine: e}, Result: &quiet.Result{Transaction: tuning.Applied.Tx}, held: held{tunings: []*prove.Tuning{tuning}}}
	q.changed.Store(true)
	return q, filepath.Join(h.Name, "proc/sys/vm/swappiness")
}

// After a failed restore the machine does not count as restored, however often restore is called.
func TestQuietRemembersFailedRestore(t *testing.T) {
	q, _ := quietOn(t)
	if err := os.WriteFile(filepath.Join(q.Engine.StateDir, "journal"), []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := q.restore(t.Context()); ui.Code(err) != ui.Incomplete {
		t.Fatalf("exit code %d: %v", ui.Code(err), err)
	}
	if err := q.restore(t.Context()); err != nil || q.Restored() || q.Result.Undone {
		t.Errorf("%v; restored: %v, undone: %v", err, q.Restored(), q.Result.Undone)
	}
}

// What another program changed meanwhile is kept and reported; other values are restored.
func TestQuietReportsKept(t *testing.T) {
	for now, want := range map[string]string{"0": "60", "33": "33", "60": "60"} {
		q, file := quietOn(t)
		if err := os.WriteFile(file, []byte(now+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := q.restore(t.Context()); err != nil || !q.Restored() || !q.Result.Undone || q.Result.UndoneEarly {
			t.Errorf("%s: %v, %+v", now, err, q.Result)
		}
		if is, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(is)) != want {
			t.Errorf("%s: %q, %v, want %s", now, is, err, want)
		}
		kept := q.Result.Kept
		if reported := len(kept) == 1 && kept[0].Found.Text == "33" && kept[0].To.Text == "60" && strings.HasPrefix(kept[0].Why, "changed by another program"); reported != (now == "33") || !reported && len(kept) > 0 {
			t.Errorf("%s: %+v", now, kept)
		}
	}
}

// A state that fettle undo has ended counts as restored, and the result says who ended it.
func TestQuietUndoneByAnother(t *testing.T) {
	q, file := quietOn(t)
	undone, err := q.Engine.Undo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("70\n"), 0o600); err != nil { // not by fettle
		t.Fatal(err)
	}
	if err := q.restore(t.Context()); err != nil || !q.Restored() || !q.Result.UndoneEarly || q.Result.UndoneBy != undone.Tx || len(q.Result.Kept) > 0 {
		t.Errorf("%v, %+v, want undone by %d", err, q.Result, undone.Tx)
	}
	if is, err := os.ReadFile(file); err != nil || string(is) != "70\n" {
		t.Errorf("%q, %v", is, err)
	}
}
