package tune_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

// fakeMachine is a writable tree with the given files that counts as a live machine. Plain files
// keep the last written value. This is enough for the engine's own logic; other tests use the real
// kernel.
func fakeMachine(t *testing.T, files map[string]string) (*host.Host, string) {
	t.Helper()
	dir := machine.Dir(t)
	for p, text := range files {
		machine.WriteFile(t, dir, p, text+"\n")
	}
	return host.Mounted(dir), dir
}

func sysctls(values ...string) map[string]string {
	m := map[string]string{"/proc/sys/kernel/random/boot_id": "boot-1"}
	for i := 0; i < len(values); i += 2 {
		m["/proc/sys/"+strings.ReplaceAll(values[i], ".", "/")] = values[i+1]
	}
	return m
}

func newEngine(t *testing.T, h *host.Host) *tune.Engine {
	t.Helper()
	return &tune.Engine{
		Host: h, Kinds: setting.Kernel(h), StateDir: stateDir(t),
		Main: profile.DefaultMain(), User: "test", Reason: t.Name(),
	}
}

func stateDir(t *testing.T) string { return filepath.Join(machine.Dir(t), "state") }

func sysctl(name string) setting.Setting { return setting.Setting{Kind: "sysctl", Name: name} }

func set(name, value string) setting.Change {
	return setting.Change{Setting: sysctl(name), Want: setting.Text(value), Reason: setting.Reason{Text: "test"}}
}

// apply applies single changes, or a selection if kind is Tune: values that only the previous
// selection has are restored.
func apply(t *testing.T, e *tune.Engine, kind journal.TxKind, changes ...setting.Change) *tune.Applied {
	t.Helper()
	a, err := e.Apply(context.Background(), planOf(e, kind, changes), tune.ApplyOptions{Kind: kind, Selection: selectionFor(kind)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func selectionFor(kind journal.TxKind) *tune.Selection {
	if kind != journal.Tune {
		return nil
	}
	return &tune.Selection{Profiles: []string{"test"}, Mode: tune.ModeManual}
}

// planOf plans changes directly, or through a plug-in as a profile would.
func planOf(e *tune.Engine, kind journal.TxKind, changes []setting.Change) tune.Planner {
	return func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
		if kind != journal.Tune {
			return e.PlanChanges(ctx, changes, s)
		}
		e.Plugins = []plugin.Plugin{changesPlugin}
		u := profile.Unit{Name: "changes", Type: "changes", Enabled: true, Devices: "*"}
		for _, c := range changes {
			u.Options = append(u.Options, profile.Option{Name: c.Setting.String(), Value: c.Want.Text})
		}
		return e.PlanProfile(ctx, &profile.Profile{Names: []string{"test"}, Units: []profile.Unit{u}}, s)
	}
}

// changesPlugin sets settings by name.
var changesPlugin = plugin.Plugin{
	Name: "changes",
	Free: func(name string) (plugin.Option, bool) {
		return plugin.Option{Name: name, Plan: func(_ context.Context, _ *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
			s, err := setting.Parse(o.Name)
			return []plugin.Item{plugin.Want(s, o.Value, o)}, err
		}}, true
	},
}

func read(t *testing.T, e *tune.Engine, name string) string {
	t.Helper()
	v, err := e.Kinds.Read(context.Background(), sysctl(name))
	if err != nil {
		t.Fatal(err)
	}
	return v.String()
}

func wantValue(t *testing.T, e *tune.Engine, name, want string) {
	t.Helper()
	if got := read(t, e, name); got != want {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

func undo(t *testing.T, e *tune.Engine, ids ...int) *tune.Undone {
	t.Helper()
	u, err := e.Undo(context.Background(), ids...)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
