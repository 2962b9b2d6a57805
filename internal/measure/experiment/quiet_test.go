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

// After a failed restore the machine does not count as restored, however often restore is called.
func TestQuietRemembersFailedRestore(t *testing.T) {
	const file = "/proc/sys/vm/swappiness"
	h := machine.Mounted(t, map[string]string{file: "60\n"})
	e := &tune.Engine{Host: h, Kinds: setting.Kernel(h), StateDir: filepath.Join(machine.Dir(t), "state"), Main: profile.DefaultMain(), User: "test"}
	change := setting.Change{Setting: setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}, Want: setting.Text("0"), Reason: setting.Reason{Text: "test"}}
	tuning := &prove.Tuning{Engine: e, Options: tune.ApplyOptions{Kind: journal.Apply}, Planner: func(ctx context.Context, j *journal.State) (*tune.Plan, error) {
		return e.PlanOnTop(ctx, []setting.Change{change}, &profile.Profile{}, j)
	}}
	if err := tuning.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := &Quiet{Machine: &tune.Machine{Engine: e}, Result: &quiet.Result{Transaction: tuning.Applied.Tx}, held: held{tunings: []*prove.Tuning{tuning}}}
	q.changed.Store(true)
	if err := os.WriteFile(filepath.Join(e.StateDir, "journal"), []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := q.restore(t.Context()); ui.Code(err) != ui.Incomplete {
		t.Fatalf("exit code %d: %v", ui.Code(err), err)
	}
	if err := q.restore(t.Context()); err != nil || q.Restored() || q.Result.Undone {
		t.Errorf("%v; restored: %v, undone: %v", err, q.Restored(), q.Result.Undone)
	}
}
