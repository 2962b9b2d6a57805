package service_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/service"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
)

// shell runs the scripts of a tree, with the tree's place in ROOT.
type shell struct{ root string }

func (e shell) Run(ctx context.Context, c host.Command) (host.Result, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{e.root + c.Argv[0]}, c.Argv[1:]...)...)
	cmd.Env = append(c.Env, "ROOT="+e.root)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return host.Result{}, err
	}
	return host.Result{ExitCode: cmd.ProcessState.ExitCode(), Stdout: out}, nil
}
func (shell) LookPath(name string) (string, error) { return name, nil }

// keeps is a script with an effect that outlasts a boot. It takes its own file
// away, and only with the variables that it was started with.
const keeps = `#!/bin/sh
case $1 in
start) echo "$TUNED_cores" >"$ROOT/etc/made"; echo start "$*" >>"$ROOT/calls" ;;
stop) echo "$*" >>"$ROOT/calls"; test "$(cat "$ROOT/etc/made")" = "$TUNED_cores" && rm "$ROOT/etc/made" ;;
esac
`

// TestUndoAfterAReboot: what a script had set in the running kernel ends with
// the boot, the files it wrote do not. Undo calls its stop, once, with the
// variables of its start; not where the script had been stopped before the
// reboot, and not while a later transaction has it on.
func TestUndoAfterAReboot(t *testing.T) {
	const path = "/usr/lib/tuned/p/a.sh"
	for name, c := range map[string]struct {
		selections []string // before the reboot: with the script or without
		after      []string // after it
		calls      string
	}{
		"undone after the reboot":     {[]string{"with"}, nil, "stop full_rollback\n"},
		"a switch after the reboot":   {[]string{"with"}, []string{"without"}, "stop full_rollback\n"},
		"started again by the reboot": {[]string{"with"}, []string{"with"}, "start start\nstop full_rollback\n"},
		"switched before the reboot":  {[]string{"with", "without"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := machine.Mounted(t, map[string]string{
				path: keeps, "/etc/": "", "/run/": "", "/var/lib/": "",
				"/proc/sys/kernel/random/boot_id": "boot-1\n", "/proc/sys/a/one": "0\n",
			})
			root := h.Name
			h.Exec = shell{root}
			file := func(p string) string {
				b, _ := os.ReadFile(filepath.Join(root, p))
				return string(b)
			}
			e := &tune.Engine{
				Host: h, Kinds: plugin.Kinds(h, service.ScriptKinds(h)), Plugins: []engineplugin.Plugin{service.Script}, StateDir: filepath.Join(t.TempDir(), "state"),
				Main: profile.DefaultMain(), ProfileDirs: []string{"/usr/lib/tuned"}, User: "test", Reason: t.Name(),
			}
			sel := func(which string) {
				t.Helper()
				p := &profile.Profile{Names: []string{which}, Variables: []profile.Variable{{Name: "cores", Value: "1-3"}}}
				if which == "with" {
					p.Units = []profile.Unit{{Name: "script", Type: "script", Enabled: true, Devices: "*", Options: []profile.Option{
						{Name: "script", Value: path, Scripts: []profile.Script{{Path: path}}},
					}}}
				}
				_, err := e.Apply(context.Background(), func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
					return e.PlanProfile(ctx, p, s)
				}, tune.ApplyOptions{Kind: journal.Tune, Selection: &tune.Selection{Profiles: p.Names, Mode: tune.ModeManual}})
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range c.selections {
				sel(s)
			}
			// The reboot.
			for p, text := range map[string]string{"proc/sys/kernel/random/boot_id": "boot-2\n", "calls": ""} {
				if err := os.WriteFile(filepath.Join(root, p), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.RemoveAll(filepath.Join(root, "run/fettle-scripts")); err != nil {
				t.Fatal(err)
			}
			// A file that is set aside takes nothing of this with it.
			j, err := journal.Lock(e.StateDir, journal.Options{BootID: "boot-2", RotateAt: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(j.Rotate(), j.Close()); err != nil {
				t.Fatal(err)
			}
			if old, _ := filepath.Glob(filepath.Join(e.StateDir, "journal.*")); len(old) != 1 {
				t.Fatalf("set aside: %v", old)
			}
			for _, s := range c.after {
				sel(s)
			}
			u, err := e.Undo(context.Background())
			if err != nil || u.Result != journal.ResultDone {
				t.Fatalf("undo: %v", err)
			}
			if got := file("calls"); got != c.calls {
				t.Errorf("called\n%swant\n%s", got, c.calls)
			}
			if got := file("etc/made"); got != "" {
				t.Errorf("its file is left behind: %q", got)
			}
			s, err := e.State()
			if err != nil || len(s.Live()) > 0 {
				t.Errorf("still live: %v (%v)", s.Live(), err)
			}
			if _, err := e.Undo(context.Background()); err == nil || !strings.Contains(err.Error(), "nothing to undo") {
				t.Errorf("a second undo: %v", err)
			}
		})
	}
}
