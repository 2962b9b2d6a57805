package tune_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// files returns the lines of an administrator's sysctl files, by the requested setting. A name with
// a space also contains the setting that the line sets.
type files map[string]tune.Override

func (f files) say(place, value string, of ...string) {
	on := place
	if len(of) > 0 {
		on = of[0]
	}
	f[place] = tune.Override{Setting: sysctl(on), Value: setting.Text(value), File: "/etc/sysctl.d/90-site.conf", Line: 3, Text: on + " = " + value}
}

func (f files) overridden(s setting.Setting) (tune.Override, bool) {
	o, ok := f[s.Name]
	return o, ok
}

// TestFileThatCameSince tests an administrator's file that was added while a profile is in force.
// The next switch sets the file's value, whether or not the new profile has the setting, and the
// plan says so. Undo restores exactly.
func TestFileThatCameSince(t *testing.T) {
	for _, c := range []struct {
		name string
		next []setting.Change
		file string // what it says of a.one
		want string // of a.one after the switch
		none bool   // the new profile's value is said to be overridden
	}{
		{"the new profile sets it", []setting.Change{set("a.one", "20"), set("a.two", "2")}, "30", "30", true},
		{"the new profile sets the same", []setting.Change{set("a.one", "10"), set("a.two", "2")}, "30", "30", true},
		{"the new profile does not set it", []setting.Change{set("a.two", "2")}, "30", "30", false},
		{"the file says what was there before", []setting.Change{set("a.one", "20")}, "60", "60", true},
		{"the file says what the old profile did", []setting.Change{set("a.one", "20")}, "10", "10", true},
		{"the same, and the new one does not set it", []setting.Change{set("a.two", "2")}, "10", "10", false},
		{"the file says what the new profile does", []setting.Change{set("a.one", "20")}, "20", "20", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := fakeMachine(t, sysctls("a.one", "60", "a.two", "0"))
			e := newEngine(t, h)
			says := files{}
			e.Overridden = says.overridden
			apply(t, e, journal.Tune, set("a.one", "10"), set("a.two", "1"))
			says.say("a.one", c.file)
			a := apply(t, e, journal.Tune, c.next...)
			wantValue(t, e, "a.one", c.want)
			if a.Result != journal.ResultDone {
				t.Errorf("result %s", a.Result)
			}
			var none, released bool
			for _, st := range a.Plan.Steps {
				if st.Setting == sysctl("a.one") {
					none = none || st.Action == tune.None && st.Verdict == plugin.Overridden
					if st.Action == tune.Release {
						released = true
						if st.Want.Text != c.file || st.Verdict != plugin.OK || st.Reason.String() != "/etc/sysctl.d/90-site.conf:3" || st.Override == nil {
							t.Errorf("released: %+v", st)
						}
					}
				}
			}
			if none != c.none || released != (c.file != "10" && c.file != "20") {
				t.Errorf("overridden %v, released %v", none, released)
			}
			// Once more changes nothing.
			if again := apply(t, e, journal.Tune, c.next...); again.Plan.Writes() != 0 {
				t.Errorf("once more it writes %d values", again.Plan.Writes())
			}
			undo(t, e, 3)
			undo(t, e, 2)
			wantValue(t, e, "a.one", "10")
			wantValue(t, e, "a.two", "1")
			undo(t, e)
			wantValue(t, e, "a.one", "60")
			wantValue(t, e, "a.two", "0")
		})
	}
}

// TestFileThatChanges tests that the next switch restores the value from before fettle if the file
// was removed, or sets the file's new value.
func TestFileThatChanges(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "60", "a.two", "0"))
	e := newEngine(t, h)
	says := files{}
	e.Overridden = says.overridden
	apply(t, e, journal.Tune, set("a.one", "10"))
	says.say("a.one", "30")
	apply(t, e, journal.Tune, set("a.one", "10"))
	says.say("a.one", "40")
	apply(t, e, journal.Tune, set("a.one", "10"))
	wantValue(t, e, "a.one", "40")
	delete(says, "a.one")
	apply(t, e, journal.Tune, set("a.two", "1"))
	wantValue(t, e, "a.one", "60")
	for _, step := range []struct {
		tx   int
		want string
	}{{4, "40"}, {3, "30"}, {2, "10"}, {1, "60"}} {
		undo(t, e, step.tx)
		wantValue(t, e, "a.one", step.want)
	}
}

// TestFileOfTheTwin tests a file with the counterpart of a setting, whose write sets the setting to
// 0.
func TestFileOfTheTwin(t *testing.T) {
	h := host.Mounted(coupledTree(t))
	h.Files = &coupledKernel{Files: h.Files, ratio: 20}
	e := newEngine(t, h)
	says := files{}
	e.Overridden = says.overridden
	apply(t, e, journal.Tune, set("vm.dirty_ratio", "40"))
	says.say("vm.dirty_ratio", "1000000", "vm.dirty_bytes")
	says.say("vm.dirty_bytes", "1000000")
	for n, next := range [][]setting.Change{{set("vm.dirty_ratio", "10")}, nil} {
		apply(t, e, journal.Tune, next...)
		wantValue(t, e, "vm.dirty_bytes", "1000000")
		wantValue(t, e, "vm.dirty_ratio", "0")
		undo(t, e, 2+2*n)
		wantValue(t, e, "vm.dirty_ratio", "40")
		wantValue(t, e, "vm.dirty_bytes", "0")
	}
	undo(t, e)
	wantValue(t, e, "vm.dirty_ratio", "20")
	wantValue(t, e, "vm.dirty_bytes", "0")
}

// TestFileOfWhatIsNotOurs tests that values that fettle must not change stay: those changed by
// another program since, those in keep.d, and single changes on top of the selection.
func TestFileOfWhatIsNotOurs(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.changed", "60", "a.kept", "60", "a.single", "60"))
	e := newEngine(t, h)
	says := files{}
	e.Overridden = says.overridden
	names := []string{"a.changed", "a.kept", "a.single"}
	var changes []setting.Change
	for _, n := range names {
		changes = append(changes, set(n, "10"))
	}
	apply(t, e, journal.Tune, changes...)
	if err := e.Kinds.Write(context.Background(), sysctl("a.changed"), setting.Text("50")); err != nil {
		t.Fatal(err)
	}
	apply(t, e, journal.Apply, set("a.single", "15"))
	e.Keep = tune.Keep{{Pattern: "sysctl:a.kept", Reason: "ours", File: "f", Line: 1}}
	for _, n := range names {
		says.say(n, "30")
	}
	for _, next := range [][]setting.Change{changes, nil} {
		apply(t, e, journal.Tune, next...)
		got := map[string]string{}
		for _, n := range names {
			got[n] = read(t, e, n)
		}
		if want := (map[string]string{"a.changed": "50", "a.kept": "10", "a.single": "15"}); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestSavedPlanOfAFile tests that a plan that restores a file's value can be saved and applied
// later. Before and after that, verify reports that the file overrides the profile.
func TestSavedPlanOfAFile(t *testing.T) {
	h, _ := fakeMachine(t, sysctls("a.one", "60"))
	e := newEngine(t, h)
	says := files{}
	e.Overridden = says.overridden
	changes := []setting.Change{set("a.one", "10")}
	apply(t, e, journal.Tune, changes...)
	says.say("a.one", "30")
	s, err := e.State()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := planOf(e, journal.Tune, changes)(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	actions := []tune.Action{}
	for _, st := range plan.Steps {
		actions = append(actions, st.Action)
	}
	if !slices.Equal(actions, []tune.Action{tune.None, tune.Release}) {
		t.Fatalf("actions %v", actions)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := tune.ReadPlan(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Apply(context.Background(), e.ApplySaved(saved), tune.ApplyOptions{Kind: journal.Tune, Selection: selectionFor(journal.Tune)}); err != nil {
		t.Fatal(err)
	}
	wantValue(t, e, "a.one", "30")
	undo(t, e)
	wantValue(t, e, "a.one", "60")
}
