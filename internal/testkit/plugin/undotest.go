// undotest contains what tests of plug-ins that write files and run programs share: recorded
// programs, and a unit that is planned, applied and undone. Only tests import it.

package plugin

import (
	"bytes"
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

// Tree returns a machine.Mounted.
func Tree(t testing.TB, files map[string]string) *host.Host {
	t.Helper()
	return machine.Mounted(t, files)
}

// Programs is an Exec that records every call and answers by program name.
type Programs struct {
	Calls []string
	// Answer maps program names to functions that return their results. Other programs are not
	// installed.
	Answer map[string]func(c host.Command) host.Result
}

// Run records the call and returns the program's result.
func (p *Programs) Run(_ context.Context, c host.Command) (host.Result, error) {
	p.Calls = append(p.Calls, c.String())
	a, ok := p.Answer[c.Argv[0]]
	if !ok {
		return host.Result{}, &fs.PathError{Op: "look up", Path: c.Argv[0], Err: fs.ErrNotExist}
	}
	if a == nil {
		return host.Result{}, nil
	}
	return a(c), nil
}

// LookPath finds the programs that have an answer.
func (p *Programs) LookPath(name string) (string, error) {
	if _, ok := p.Answer[name]; ok {
		return "/usr/bin/" + name, nil
	}
	return "", &fs.PathError{Op: "look up", Path: name, Err: fs.ErrNotExist}
}

// Taken returns the calls since the last Taken.
func (p *Programs) Taken() []string {
	c := p.Calls
	p.Calls = nil
	return c
}

// Kinds returns the kinds of the kernel and of a plug-in.
func Kinds(h *host.Host, more ...map[string]setting.Kind) setting.Kinds {
	k := setting.Kernel(h)
	for _, m := range more {
		for name, kind := range m {
			k[name] = kind
		}
	}
	return k
}

// PlanUndotest plans the lines "name=value" of one unit as package tune does: options with
// fixed names in the plug-in's order, then the others. Original reads the machine.
func PlanUndotest(t testing.TB, pl *plugin.Plugin, h *host.Host, kinds setting.Kinds, lines ...string) []plugin.Item {
	t.Helper()
	items, err := tryPlan(pl, h, kinds, func(given profile.Option, more []plugin.Item) {
		Planned(t, h, *pl, given, more)
	}, lines)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// TryPlan plans like PlanUndotest and returns the error.
func TryPlan(pl *plugin.Plugin, h *host.Host, kinds setting.Kinds, lines ...string) ([]plugin.Item, error) {
	return tryPlan(pl, h, kinds, func(profile.Option, []plugin.Item) {}, lines)
}

func tryPlan(pl *plugin.Plugin, h *host.Host, kinds setting.Kinds, planned func(profile.Option, []plugin.Item), lines []string) ([]plugin.Item, error) {
	ctx := context.Background()
	u := profile.Unit{Name: pl.Name, Type: pl.Name, Enabled: true, Devices: "*"}
	for i, l := range lines {
		name, value, _ := strings.Cut(l, "=")
		u.Options = append(u.Options, profile.Option{Name: name, Value: value, Raw: value, Pos: profile.Pos{File: "/p/tuned.conf", Line: i + 2}})
	}
	r := &plugin.Request{
		Host: h, Kinds: kinds, Unit: u, ProfileDirs: []string{"/usr/lib/tuned", "/etc/tuned"},
		Original: func(s setting.Setting) (setting.Value, error) { return kinds.Read(ctx, s) },
	}
	if pl.Devices != nil {
		devices, err := pl.Devices(ctx, h)
		if err != nil {
			return nil, err
		}
		r.Devices = devices
	}
	var items []plugin.Item
	one := func(spec plugin.Option, o profile.Option) error {
		devices := []string{""}
		if spec.PerDevice {
			devices = r.Devices
		}
		for _, d := range devices {
			if spec.Control {
				continue
			}
			it, err := spec.Plan(ctx, r, o, d)
			if err != nil {
				return err
			}
			planned(o, it)
			items = append(items, it...)
		}
		return nil
	}
	fixed := map[string]bool{}
	for _, spec := range pl.Options {
		fixed[spec.Name] = true
		for _, o := range u.Options {
			if o.Name == spec.Name {
				if err := one(spec, o); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, o := range u.Options {
		if fixed[o.Name] || pl.Free == nil {
			continue
		}
		if spec, ok := pl.Free(o.Name); ok {
			if err := one(spec, o); err != nil {
				return nil, err
			}
		}
	}
	return items, nil
}

// Apply writes the items' values, stage by stage, and returns the before-images for Undo.
// Package tune does the same with a journal. A setting that does not read back as written fails
// the test.
func Apply(t testing.TB, kinds setting.Kinds, items []plugin.Item) []setting.Change {
	t.Helper()
	ctx := context.Background()
	read := func(s setting.Setting) setting.Value {
		t.Helper()
		v, err := kinds.Read(ctx, s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return v
	}
	var before []setting.Change
	for len(items) > 0 {
		n := 0
		for n < len(items) && !items[n].Fence {
			n++
		}
		stage := items[:min(n+1, len(items))]
		items = items[len(stage):]
		var changes []setting.Change
		main := map[setting.Setting]bool{}
		for _, it := range stage {
			if it.Verdict != "" {
				continue
			}
			s, err := kinds.Resolve(it.Change.Setting)
			if err != nil {
				t.Fatal(err)
			}
			main[s] = true
			changes = append(changes, setting.Change{Setting: s, Want: it.Change.Want})
		}
		for _, c := range changes {
			now := read(c.Setting)
			if kinds.Equal(c.Setting, now, c.Want) {
				continue
			}
			kind, _ := kinds.For(c.Setting)
			for _, other := range kind.Coupled(c.Setting) {
				if !main[other] {
					before = append(before, setting.Change{Setting: other, Want: read(other)})
				}
			}
			before = append(before, setting.Change{Setting: c.Setting, Want: now})
		}
		for _, c := range changes {
			if kinds.Equal(c.Setting, read(c.Setting), c.Want) {
				continue
			}
			if err := kinds.Write(ctx, c.Setting, c.Want); err != nil {
				t.Fatalf("%s: %v", c.Setting, err)
			}
			if now := read(c.Setting); !kinds.Equal(c.Setting, now, c.Want) {
				t.Fatalf("%s reads %q after %q was written", c.Setting, now.Text, c.Want.Text)
			}
		}
	}
	return before
}

// Undo restores the before-images in reverse order, and checks each one.
func Undo(t testing.TB, kinds setting.Kinds, before []setting.Change) {
	t.Helper()
	ctx := context.Background()
	for pass := range 2 {
		for i := len(before) - 1; i >= 0; i-- {
			c := before[i]
			now, err := kinds.Read(ctx, c.Setting)
			if err == nil && kinds.Equal(c.Setting, now, c.Want) {
				continue
			}
			// A setting that needs another restored setting is written in the second pass.
			if err := kinds.Write(ctx, c.Setting, c.Want); err != nil && pass > 0 {
				t.Fatalf("undo of %s: %v", c.Setting, err)
			}
		}
	}
	for _, c := range before {
		if now, err := kinds.Read(ctx, c.Setting); err != nil || !kinds.Equal(c.Setting, now, c.Want) {
			t.Errorf("%s reads %q after undo, was %q (%v)", c.Setting, now.Text, c.Want.Text, err)
		}
	}
}

// Snapshot returns every path of a machine with its type, mode and content.
func Snapshot(t testing.TB, h *host.Host) map[string]string {
	t.Helper()
	out := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := h.Files.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			p := filepath.Join(dir, e.Name())
			st, err := h.Files.Lstat(p)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case st.IsDir():
				out[p] = st.Mode().String()
				walk(p)
			case st.Mode()&fs.ModeSymlink != 0:
				to, _ := h.Files.Readlink(p)
				out[p] = "-> " + to
			default:
				b, err := h.Files.ReadFile(p)
				if err != nil {
					t.Fatal(err)
				}
				out[p] = st.Mode().String() + " " + string(bytes.Clone(b))
			}
		}
	}
	walk("/")
	return out
}

// Lines formats each item as one line: "setting = value", or "VERDICT: why" if nothing is
// written.
func Lines(items []plugin.Item) []string {
	var out []string
	for _, it := range items {
		l := it.Change.Setting.String() + " = " + it.Change.Want.Text
		if it.Change.Want.Absent {
			l = it.Change.Setting.String() + " absent"
		}
		if it.Verdict != "" {
			l = it.Change.Setting.String() + " " + string(it.Verdict) + ": " + it.Why
		}
		out = append(out, l)
	}
	return out
}
