package daemon

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// calls remembers how programs were called, and that all was well.
type calls struct{ all []string }

func (*calls) LookPath(name string) (string, error) { return name, nil }

func (c *calls) Run(_ context.Context, cmd host.Command) (host.Result, error) {
	c.all = append(c.all, strings.Join(cmd.Argv, " "))
	return host.Result{}, nil
}

// TestVerifyTellsScripts: a script is told whether what is missing is to be passed over, as
// TuneD tells it.
func TestVerifyTellsScripts(t *testing.T) {
	root.Rights(t)
	f := newFake(t, map[string]string{
		"/etc/tuned/scripted/tuned.conf": "[script]\nscript=${i:PROFILE_DIR}/a.sh",
		"/etc/tuned/scripted/a.sh":       "#!/bin/sh",
		"/run/x":                         "", "/var/lib/x": "",
	})
	ran := &calls{}
	if err := os.Chmod(filepath.Join(f.dir, "etc/tuned/scripted/a.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Only on the machine itself scripts are asked; this one's files are those of the fake.
	f.machine = func(h *host.Host) { h.Exec, h.Live = ran, true }
	d := f.start(Config{TuneD: true})
	if ok, msg := d.Switch(t.Context(), "scripted"); !ok {
		t.Fatalf("%s\n%s", msg, f.log.String())
	}
	for ignore, want := range map[bool]string{false: "/etc/tuned/scripted/a.sh verify", true: "/etc/tuned/scripted/a.sh verify ignore_missing"} {
		ran.all = nil
		if ok := d.Verify(t.Context(), ignore); !ok || !slices.Equal(ran.all, []string{want}) {
			t.Errorf("ignore_missing %v: %v, called %q, want %q\n%s", ignore, ok, ran.all, want, f.log.String())
		}
	}
}
