package service_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/journal"
	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/service"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

// A script that fails keeps nothing from being done or undone, and is told of:
// each call once, by script, call and exit code.
func TestFailingScriptIsTold(t *testing.T) {
	root.Rights(t)
	const path = "/usr/lib/tuned/p/a.sh"
	h := machine.Mounted(t, map[string]string{
		path:    "#!/bin/sh\necho first\necho \"no $1\"\ncase $1 in start) exit 3;; stop) exit 4;; esac\nexit 1\n",
		"/run/": "", "/var/lib/": "", "/proc/sys/kernel/random/boot_id": "boot-1\n",
	})
	h.Exec = shell{h.Name}
	var told []string
	e := &tune.Engine{
		Host: h, Kinds: plugin.Kinds(h, service.ScriptKinds(h)), Plugins: []engineplugin.Plugin{service.Script}, StateDir: filepath.Join(t.TempDir(), "state"),
		Main: profile.DefaultMain(), ProfileDirs: []string{"/usr/lib/tuned"}, User: "test", Reason: t.Name(),
		Tell: func(text string) { told = append(told, text) },
	}
	p := &profile.Profile{Names: []string{"p"}, Units: []profile.Unit{{Name: "script", Type: "script", Enabled: true, Devices: "*", Options: []profile.Option{
		{Name: "script", Value: path, Scripts: []profile.Script{{Path: path}}},
	}}}}
	apply := func(atomic bool) *tune.Applied {
		a, err := e.Apply(context.Background(), func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
			return e.PlanProfile(ctx, p, s)
		}, tune.ApplyOptions{Kind: journal.Tune, Atomic: atomic, Selection: &tune.Selection{Profiles: p.Names, Mode: tune.ModeManual}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := apply(false)
	if a.Result != journal.ResultPartial || a.Failing() != 1 || a.Failed() != 0 {
		t.Errorf("%s, %d do not work, %d rejected", a.Result, a.Failing(), a.Failed())
	}
	if st := a.Plan.Steps[0]; !st.Failing() || st.Why != "its verify exited with 1: no verify" {
		t.Errorf("step: %+v", st)
	}
	u, err := e.Undo(context.Background())
	if err != nil || u.Result != journal.ResultDone {
		t.Errorf("undo: %+v, %v", u, err)
	}
	want := []string{"script:" + path + ": its start exited with 3: no start", "script:" + path + ": its stop exited with 4: no stop"}
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	if a := apply(true); a.Result != journal.ResultRolledBack {
		t.Errorf("--atomic: %s", a.Result)
	}
	if now, err := e.Kinds.Read(context.Background(), a.Plan.Steps[0].Setting); err != nil || now.Text != "stopped" {
		t.Errorf("--atomic: %s, %v", now, err)
	}
}
