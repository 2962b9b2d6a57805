package service_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// within starts the files of a tree as this machine's kernel does.
type within struct {
	host.Exec
	root string
}

func (e within) Run(ctx context.Context, c host.Command) (host.Result, error) {
	c.Argv, c.Dir = append([]string{e.root + c.Argv[0]}, c.Argv[1:]...), e.root+c.Dir
	return e.Exec.Run(ctx, c)
}

// TestScriptThatCannotBeStarted: nothing of it has run, so the value is rejected
// with the kernel's reason, nothing stays on record, and undo has nothing to call.
func TestScriptThatCannotBeStarted(t *testing.T) {
	testkitroot.Rights(t)
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
