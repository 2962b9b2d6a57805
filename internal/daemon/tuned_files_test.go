package daemon

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/profile"
)

// tunedFiles returns the texts of TuneD's state files.
func (f *fake) tunedFiles() map[string]string {
	f.t.Helper()
	out := map[string]string{}
	for _, name := range profile.TunedStateFiles {
		b, err := os.ReadFile(filepath.Join(f.dir, name))
		if err == nil {
			out[name] = string(b)
		} else if !os.IsNotExist(err) {
			f.t.Fatal(err)
		}
	}
	return out
}

// TestUndoRestoresTunedFiles: the daemon writes TuneD's state files for two selections, also for one
// of a recommendation. Undo restores them byte by byte, also if it or the daemon is ended at a
// point in between and starts again; the next start of the daemon selects nothing.
func TestUndoRestoresTunedFiles(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"none":           nil,
		"of TuneD":       {profile.ActiveProfileFile: "night\n\n", profile.ProfileModeFile: "manual"},
		"automatic":      {profile.ProfileModeFile: "auto", profile.ActiveProfileFile: ""},
		"a post-loaded":  {profile.PostLoadedProfileFile: "night", profile.ActiveProfileFile: "", profile.ProfileModeFile: "manual"},
		"in other words": {profile.ActiveProfileFile: "  day  ", profile.ProfileModeFile: "manual "},
	} {
		t.Run(name, func(t *testing.T) {
			points, step := 0, 1
			if testing.Short() {
				step = 5
			}
			for n := 0; n <= points; n += step { // at 0 nothing is ended, and the points are counted
				f := newFake(t, files)
				before := f.tunedFiles()
				d := f.start(Config{TuneD: true})
				follow := func() {
					t.Helper()
					if err := d.follow(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for _, profiles := range []string{"day", "night"} {
					f.clock.now = f.clock.now.Add(time.Minute)
					f.tune(profiles, nil)
					follow()
					f.want(profile.ActiveProfileFile, profiles)
				}
				f.clock.now = time.Now().Add(time.Hour) // later than what the files say
				at := 0
				f.at = func(string) {
					if at++; at == n {
						panic(fmt.Sprint("kill -9 at point ", n))
					}
				}
				ended := func() (ended bool) {
					defer func() { ended = recover() != nil }()
					f.undo()
					return false
				}()
				if f.at = nil; n == 0 {
					points = at
				} else if !ended {
					t.Fatalf("not ended at point %d of %d", n, points)
				}
				if ended {
					m, err := f.open(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if _, err := m.Engine.Recover(t.Context()); err != nil {
						t.Fatal(err)
					}
					if len(f.journal().Live()) > 0 {
						f.undo()
					}
				}
				follow()
				if now := f.tunedFiles(); !maps.Equal(now, before) {
					t.Fatalf("ended at point %d: %q, before %q\n%s", n, now, before, f.log.String())
				}
				f.want(swappiness, "60")
				if d := f.start(Config{TuneD: true}); d.IsRunning() {
					t.Errorf("the next start applies %q\n%s", d.ActiveProfile(), f.log.String())
				}
			}
			if points < 10 {
				t.Errorf("only %d points", points)
			}
		})
	}
}

// TestUndoKeepsOthersTunedFiles: undo of the last selection gives the files what they had for the one
// before, undo of an older one leaves them, and what another program has written since stays.
func TestUndoKeepsOthersTunedFiles(t *testing.T) {
	f := newFake(t, map[string]string{profile.ActiveProfileFile: "balanced", profile.ProfileModeFile: "manual"})
	f.write("/etc/tuned/balanced/tuned.conf", "[main]")
	f.tune("day", nil)
	d := f.start(Config{TuneD: true})
	d.keepState(must(f.open(t.Context())))
	f.tune("night", nil)
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want(profile.ActiveProfileFile, "night")
	ids := []int{}
	for _, tx := range f.journal().Live() {
		ids = append(ids, tx.ID)
	}
	last := ids[len(ids)-1]
	f.undo(last)
	if got := f.read(profile.ActiveProfileFile); got == "night" || got == "" {
		t.Errorf("undo of the last selection leaves %q", got)
	}
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.write(profile.ActiveProfileFile, "mine")
	f.undo()
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want(profile.ActiveProfileFile, "mine")
}

// TestLateTunedFiles: the daemon writes the files for a selection that has been undone meanwhile.
func TestLateTunedFiles(t *testing.T) {
	f := newFake(t, map[string]string{profile.ActiveProfileFile: "", profile.ProfileModeFile: "manual"})
	before := f.tunedFiles()
	d := f.start(Config{TuneD: true})
	f.tune("day", nil)
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.undo()
	if now := f.tunedFiles(); !maps.Equal(now, before) {
		t.Fatalf("%q, before %q", now, before)
	}
	d.keepState(must(f.open(t.Context()))) // as if it had begun before the undo
	f.want(profile.ActiveProfileFile, "day")
	if err := d.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := f.tunedFiles(); !maps.Equal(now, before) {
		t.Fatalf("%q, before %q", now, before)
	}
}

func must(m *Machine, err error) *Machine {
	if err != nil {
		panic(err)
	}
	return m
}
