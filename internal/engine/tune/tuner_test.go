package tune_test

import (
	"context"
	"fmt"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/setting"
)

// otherTuner is another tuner: when it starts it sets the swappiness to 30, and
// it puts 60 back when it stops.
type otherTuner struct {
	setting.Kind // of sysctls
	active       string
}

func (*otherTuner) Tuner() {}

func (*otherTuner) Resolve(s setting.Setting) (setting.Setting, error) { return s, nil }
func (k *otherTuner) Read(context.Context, setting.Setting) (setting.Value, error) {
	return setting.Text(k.active), nil
}

func (k *otherTuner) Write(ctx context.Context, _ setting.Setting, v setting.Value) error {
	k.active = v.Text
	sets, ok := map[string]string{"active": "30", "inactive": "60"}[v.Text]
	if !ok {
		return fmt.Errorf("state of a tuner: %q", v.Text)
	}
	return k.Kind.Write(ctx, sysctl("vm.swappiness"), setting.Text(sets))
}

func (*otherTuner) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (*otherTuner) Coupled(setting.Setting) []setting.Setting { return nil }
func (*otherTuner) Lifetime() setting.Lifetime                { return setting.File }

// A tuner that is given back has the values that it sets when it starts, not
// those from before fettle's transactions.
func TestUndoGivesBackToTuner(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("vm.swappiness", "30", "vm.dirty_ratio", "20"))
	e := newEngine(t, h)
	other := &otherTuner{Kind: e.Kinds["sysctl"], active: "active"}
	e.Kinds["tuner"] = other
	apply(t, e, journal.Apply, setting.Change{Setting: setting.Setting{Kind: "tuner", Name: "other"}, Want: setting.Text("inactive")})
	wantValue(t, e, "vm.swappiness", "60")
	apply(t, e, journal.Apply, set("vm.swappiness", "10"), set("vm.dirty_ratio", "40"))
	if u := undo(t, e); u.Result != journal.ResultDone {
		t.Error(u.Result)
	}
	if other.active != "active" {
		t.Errorf("the other tuner is %s", other.active)
	}
	wantValue(t, e, "vm.swappiness", "30")
	wantValue(t, e, "vm.dirty_ratio", "20")
}
