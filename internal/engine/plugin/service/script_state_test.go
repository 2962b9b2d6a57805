package service_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/engine/journal"
	engineplugin "fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/service"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/plugin"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestFailingScriptIsTold tests that a failing script does not block apply or undo, and that each
// failed call is reported once, with script, call and exit code.
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
	if st := a.Plan.Steps[0]; !st.Failing() || st.Why != "the script's verify exited with 1: no verify" {
		t.Errorf("step: %+v", st)
	}
	u, err := e.Undo(context.Background())
	if err != nil || u.Result != journal.ResultDone {
		t.Errorf("undo: %+v, %v", u, err)
	}
	want := []string{"script:" + path + ": the script's start exited with 3: no start", "script:" + path + ": the script's stop exited with 4: no stop"}
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

// within starts the files of a tree as this machine's kernel does.
type within struct {
	host.Exec
	root string
}

func (e within) Run(ctx context.Context, c host.Command) (host.Result, error) {
	c.Argv, c.Dir = append([]string{e.root + c.Argv[0]}, c.Argv[1:]...), e.root+c.Dir
	return e.Exec.Run(ctx, c)
}

// TestScriptThatCannotBeStarted tests a script that could not be started: the value is rejected
// with the kernel's reason, no record remains, and undo calls nothing.
func TestScriptThatCannotBeStarted(t *testing.T) {
	root.Rights(t)
	for text, why := range map[string]string{
		"echo no interpreter is named\n": "exec format error",
		"#!/no/such/interpreter\n":       "no such file or directory",
	} {
		const path = "/usr/lib/tuned/p/a.sh"
		h := machine.Mounted(t, map[string]string{
			path: text, "/run/": "", "/var/lib/": "", "/proc/sys/kernel/random/boot_id": "boot-1\n", "/proc/sys/vm/swappiness": "60",
		})
		if err := os.Chmod(filepath.Join(h.Name, path), 0o755); err != nil {
			t.Fatal(err)
		}
		h.Exec = within{host.Live().Exec, h.Name}
		before := plugin.Snapshot(t, h)
		e := &tune.Engine{
			Host: h, Kinds: plugin.Kinds(h, service.ScriptKinds(h)), StateDir: filepath.Join(t.TempDir(), "state"),
			Main: profile.DefaultMain(), ProfileDirs: []string{"/usr/lib/tuned"}, User: "test", Reason: t.Name(),
		}
		run := setting.Change{Setting: setting.Setting{Kind: "script", Name: path}, Want: setting.Text("started TUNED_a=1")}
		value := setting.Change{Setting: setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}, Want: setting.Text("10")}
		for range 2 { // the second time nothing of the first is in the way
			a, err := e.Apply(context.Background(), func(ctx context.Context, s *journal.State) (*tune.Plan, error) {
				return e.PlanChanges(ctx, []setting.Change{run, value}, s)
			}, tune.ApplyOptions{Kind: journal.Apply})
			if err != nil {
				t.Fatal(err)
			}
			if st := a.Plan.Steps[0]; st.Verdict != engineplugin.Rejected || st.Why != why {
				t.Errorf("%q: %s (%s), want rejected (%s)", text, st.Verdict, st.Why, why)
			}
		}
		if v, err := e.Kinds.Read(context.Background(), run.Setting); err != nil || v.Text != "stopped" {
			t.Errorf("%q: reads %v (%v)", text, v, err)
		}
		if _, err := e.Undo(context.Background()); err != nil {
			t.Errorf("%q: undo: %v", text, err)
		}
		if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
			t.Errorf("%q: left behind: %s", text, d)
		}
		// A record of an earlier fettle, or of one that was killed right there.
		for _, state := range []string{"starting", "failed"} {
			if err := os.MkdirAll(filepath.Join(h.Name, "run/fettle-scripts"), 0o700); err != nil {
				t.Fatal(err)
			}
			record := filepath.Join(h.Name, "run/fettle-scripts", "script-%2Fusr%2Flib%2Ftuned%2Fp%2Fa.sh")
			if err := os.WriteFile(record, []byte(`{"state":"`+state+`","said":"`+why+`"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			var told *setting.ProgramWarning
			if err := e.Kinds.Write(context.Background(), run.Setting, setting.Text("stopped")); !errors.As(err, &told) {
				t.Errorf("%q, %s: stop: %v, want a complaint", text, state, err)
			}
			if d := cmp.Diff(before, plugin.Snapshot(t, h)); d != "" {
				t.Errorf("%q, %s: left behind: %s", text, state, d)
			}
		}
	}
}

// shell runs the scripts of a tree, with the tree's path in ROOT.
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

// keeps is a script with an effect that survives a boot. It removes its own file, and only with the
// variables of its start.
const keeps = `#!/bin/sh
case $1 in
start) echo "$TUNED_cores" >"$ROOT/etc/made"; echo start "$*" >>"$ROOT/calls" ;;
stop) echo "$*" >>"$ROOT/calls"; test "$(cat "$ROOT/etc/made")" = "$TUNED_cores" && rm "$ROOT/etc/made" ;;
esac
`

// TestUndoAfterAReboot tests a reboot between apply and undo: kernel settings of the script are
// gone, but its files remain. Undo calls the script's stop once, with the variables of its start.
// It does not if the script was stopped before the reboot, or while a later transaction uses it.
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
