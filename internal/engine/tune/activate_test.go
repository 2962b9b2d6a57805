package tune_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
)

// server is a setting kind whose values are files, and a program that runs with the values that it
// has read last. It reads names that begin with "boot" only when it starts. It does not start with
// the value "bad", or if broken is set.
type server struct {
	dir    string
	told   *[]string
	broken *bool
}

func newServer(t *testing.T, values map[string]string) server {
	s := server{dir: t.TempDir(), told: new([]string), broken: new(bool)}
	for n, v := range values {
		writeFile(t, filepath.Join(s.dir, "file-"+n), v)
	}
	if err := s.Activate(context.Background(), setting.Activation{Program: "served", Restart: true}); err != nil {
		t.Fatal(err)
	}
	*s.told = nil
	return s
}

func (s server) Resolve(id setting.Setting) (setting.Setting, error) { return id, nil }
func (s server) Equal(a, b setting.Value) bool                       { return a.Text == b.Text }
func (s server) Coupled(setting.Setting) []setting.Setting           { return nil }
func (s server) Lifetime() setting.Lifetime                          { return setting.File }

func (s server) Read(_ context.Context, id setting.Setting) (setting.Value, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, "file-"+id.Name))
	return setting.Text(string(b)), err
}

func (s server) Write(_ context.Context, id setting.Setting, v setting.Value) error {
	if v.Text == "refused" {
		return errors.New("refused")
	}
	return os.WriteFile(filepath.Join(s.dir, "file-"+id.Name), []byte(v.Text), 0o600)
}

func (s server) Activation(_ context.Context, id setting.Setting) (setting.Activation, bool) {
	_, err := os.Stat(filepath.Join(s.dir, "up"))
	return setting.Activation{Program: "served", Restart: strings.HasPrefix(id.Name, "boot")}, err == nil
}

func (s server) Activate(_ context.Context, a setting.Activation) error {
	*s.told = append(*s.told, a.String())
	if a.Restart {
		os.Remove(filepath.Join(s.dir, "up"))
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "file-*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if string(b) == "bad" || *s.broken {
			return fmt.Errorf("it does not take %s", filepath.Base(f))
		}
	}
	for _, f := range files {
		name := strings.TrimPrefix(filepath.Base(f), "file-")
		if b, err := os.ReadFile(f); err == nil && (a.Restart || !strings.HasPrefix(name, "boot")) {
			if err := os.WriteFile(filepath.Join(s.dir, "runs-"+name), b, 0o600); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(s.dir, "up"), nil, 0o600)
}

// state returns everything: files, values in use, and whether the program runs.
func (s server) state(t *testing.T) map[string]string {
	t.Helper()
	m := map[string]string{}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(s.dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		m[f.Name()] = string(b)
	}
	return m
}

func (s server) wantTold(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(*s.told, ", "); got != strings.Join(want, ", ") {
		t.Errorf("told %q, want %q", got, want)
	}
	*s.told = nil
}

func served(name, value string) setting.Change {
	return setting.Change{Setting: setting.Setting{Kind: "served", Name: name}, Want: setting.Text(value), Reason: setting.Reason{Text: "test"}}
}

func serverEngine(t *testing.T, values map[string]string) (*tune.Engine, server) {
	h, _ := fakeMachine(t, sysctls("a.one", "0"))
	e, s := newEngine(t, h), newServer(t, values)
	e.Kinds["served"] = s
	return e, s
}

func tryApply(e *tune.Engine, changes ...setting.Change) (*tune.Applied, error) {
	return e.Apply(context.Background(), planOf(e, journal.Apply, changes), tune.ApplyOptions{Kind: journal.Apply})
}

// TestActivation tests that a program is activated once for all changed values, by a restart if one
// of them needs it. An unchanged or rejected value activates nothing.
func TestActivation(t *testing.T) {
	e, s := serverEngine(t, map[string]string{"boot": "1", "work": "1", "same": "1"})
	before := s.state(t)
	plan, err := planOf(e, journal.Apply, []setting.Change{served("boot", "2"), served("same", "1")})(context.Background(), &journal.State{})
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Steps[0].Activation.String(); got != "restart of served" || plan.Steps[1].Activation.Program != "" {
		t.Errorf("the plan says %q and %v", got, plan.Steps[1].Activation)
	}
	if got := plan.Activations(); len(got) != 1 {
		t.Errorf("the plan tells %v", got)
	}
	apply(t, e, journal.Apply, served("work", "2"), served("same", "1"))
	s.wantTold(t, "reload of served")
	apply(t, e, journal.Apply, served("work", "3"), served("boot", "2"))
	s.wantTold(t, "restart of served")
	if got := s.state(t)["runs-boot"]; got != "2" {
		t.Errorf("it runs with %q", got)
	}
	if a, err := tryApply(e, served("same", "refused")); err != nil || a.Result != journal.ResultPartial {
		t.Errorf("a refused write: %v, %v", a.Result, err)
	}
	s.wantTold(t)
	undo(t, e)
	s.wantTold(t, "restart of served")
	if got := s.state(t); !maps.Equal(got, before) {
		t.Errorf("after undo %v, want %v", got, before)
	}
	// A stopped service is not started.
	apply(t, e, journal.Apply, served("work", "5"))
	os.Remove(filepath.Join(s.dir, "up"))
	apply(t, e, journal.Apply, served("boot", "5"))
	s.wantTold(t, "reload of served")
	undo(t, e)
	s.wantTold(t)
}

// TestActivationFails tests a value with which the program does not start: the whole transaction is
// rolled back, including other settings, and the program is activated again.
func TestActivationFails(t *testing.T) {
	e, s := serverEngine(t, map[string]string{"boot": "1", "work": "1"})
	before := s.state(t)
	a, err := tryApply(e, set("a.one", "1"), served("boot", "bad"), served("work", "2"))
	if err == nil || a.Result != journal.ResultRolledBack || !strings.Contains(err.Error(), "restart of served failed: it does not take file-boot") {
		t.Errorf("result %v, %v", a.Result, err)
	}
	wantValue(t, e, "a.one", "0")
	s.wantTold(t, "restart of served", "restart of served")
	if got := s.state(t); !maps.Equal(got, before) {
		t.Errorf("after the roll-back %v, want %v", got, before)
	}

	// Where it does not come back at all, that is named, and tried again later.
	*s.broken = true
	a, err = tryApply(e, served("boot", "2"))
	var incomplete *tune.IncompleteError
	if !errors.As(err, &incomplete) || a.Result != journal.ResultIncomplete || !strings.Contains(err.Error(), "cannot restore served:boot to 1: the file is restored, but restart of served failed") {
		t.Errorf("result %v, %v", a.Result, err)
	}
	if _, err := e.Recover(context.Background()); !errors.As(err, &incomplete) {
		t.Errorf("while it is broken: %v", err)
	}
	*s.broken = false
	undo(t, e)
	if got := s.state(t); !maps.Equal(got, before) {
		t.Errorf("after it works again %v, want %v", got, before)
	}
	if u, err := e.Undo(context.Background()); !errors.Is(err, tune.ErrNothing) {
		t.Errorf("still to be undone: %v, %v", u, err)
	}

	// The same for an undo.
	apply(t, e, journal.Apply, served("boot", "3"))
	*s.broken = true
	if u, err := e.Undo(context.Background()); !errors.As(err, &incomplete) || u.Result != journal.ResultIncomplete {
		t.Errorf("undo: %v", err)
	}
	*s.broken = false
	undo(t, e)
	if got := s.state(t); !maps.Equal(got, before) {
		t.Errorf("after the second undo %v, want %v", got, before)
	}
}

// TestActivationAfterReboot tests an interruption before a reboot. A program that the boot has not
// started yet is not activated: it reads the restored files when it starts.
func TestActivationAfterReboot(t *testing.T) {
	for _, up := range []bool{false, true} {
		e, s := serverEngine(t, map[string]string{"boot": "1"})
		before := s.state(t)
		path := filepath.Join(e.StateDir, "journal")
		var text []byte
		e.At = func(point string) {
			if point == "activate:restart of served:before" {
				text, _ = os.ReadFile(path)
			}
		}
		apply(t, e, journal.Apply, served("boot", "2")) // the server has started with it, or will
		e.At = nil
		writeFile(t, path, string(text))
		if err := e.Host.Files.Store("/proc/sys/kernel/random/boot_id", []byte("boot-2\n")); err != nil {
			t.Fatal(err)
		}
		*s.told = nil
		if !up {
			os.Remove(filepath.Join(s.dir, "up"))
		}
		undo(t, e)
		if up {
			s.wantTold(t, "restart of served")
		} else {
			s.wantTold(t)
			if err := s.Activate(context.Background(), setting.Activation{Program: "served", Restart: true}); err != nil { // the boot
				t.Fatal(err)
			}
		}
		if got := s.state(t); !maps.Equal(got, before) {
			t.Errorf("%v, want %v", got, before)
		}
	}
}

// TestActivationKilledEverywhere kills the process at each point, also between a write and its
// activation. The undo restores the bytes and activates the program. If that undo is killed, the
// next one does.
func TestActivationKilledEverywhere(t *testing.T) {
	type moment struct {
		point, journal string
		server         map[string]string
	}
	for _, value := range []string{"2", "bad"} {
		e, s := serverEngine(t, map[string]string{"boot": "1", "work": "1"})
		before, path := s.state(t), filepath.Join(e.StateDir, "journal")
		// moments does something and notes all that there is at each point.
		moments := func(do func() error) ([]moment, error) {
			var all []moment
			e.At = func(point string) {
				text, err := os.ReadFile(path)
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				all = append(all, moment{point, string(text), s.state(t)})
			}
			err := do()
			e.At = nil
			return all, err
		}
		back := func(m moment) {
			writeFile(t, path, m.journal)
			for name := range s.state(t) {
				if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range m.server {
				writeFile(t, filepath.Join(s.dir, name), text)
			}
		}
		undo := func() error {
			_, err := e.Undo(context.Background())
			if errors.Is(err, tune.ErrNothing) {
				return nil
			}
			return err
		}
		first, err := moments(func() error { _, err := tryApply(e, served("work", "2"), served("boot", value)); return err })
		if (err != nil) != (value == "bad") {
			t.Fatalf("with %s: %v", value, err)
		}
		activations := 0
		for _, m := range first {
			if strings.HasPrefix(m.point, "activate:") {
				activations++
			}
			back(m)
			second, err := moments(undo)
			if got := s.state(t); err != nil || !maps.Equal(got, before) {
				t.Fatalf("%s, killed at %s: %v, want %v (%v)", value, m.point, got, before, err)
			}
			for _, n := range second {
				back(n)
				if err, got := undo(), s.state(t); err != nil || !maps.Equal(got, before) {
					t.Fatalf("%s, killed at %s and in its undo at %s: %v, want %v (%v)", value, m.point, n.point, got, before, err)
				}
			}
		}
		if want := map[string]int{"2": 2, "bad": 4}[value]; activations != want {
			t.Errorf("%s: %d moments of activations, want %d", value, activations, want)
		}
	}
}
