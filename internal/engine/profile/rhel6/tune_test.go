package rhel6

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// shellExec runs scripts of the tree with this machine's shell, which finds the tree through
// SYSROOT. Other programs do not exist.
type shellExec struct{ root string }

func (e shellExec) LookPath(name string) (string, error) {
	return "", &fs.PathError{Op: "look up", Path: name, Err: fs.ErrNotExist}
}

func (e shellExec) Run(ctx context.Context, c host.Command) (host.Result, error) {
	if !strings.HasPrefix(c.Argv[0], "/") {
		_, err := e.LookPath(c.Argv[0])
		return host.Result{}, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(e.root, c.Argv[0]), c.Argv[1:]...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "SYSROOT=" + e.root}, c.Env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return host.Result{}, err
	}
	return host.Result{Stdout: out.Bytes(), Stderr: errOut.Bytes(), ExitCode: cmd.ProcessState.ExitCode()}, nil
}

// settings returns the content of the test machine's files below /proc/sys and /sys.
func settings(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, top := range []string{"proc/sys", "sys"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(p)
			out[strings.TrimPrefix(p, root)] = setting.ActiveWord(strings.TrimSpace(string(b)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestImportTuneVerifyUndo runs all steps on a machine of files: import, install, tune, verify, a
// drift that verify detects, and undo, which restores everything.
func TestImportTuneVerifyUndo(t *testing.T) {
	testkitroot.Rights(t)
	for name, want := range map[string]map[string]string{
		"throughput-like": {
			"/proc/sys/vm/dirty_ratio": "40", "/proc/sys/vm/swappiness": "30", "/proc/sys/net/netfilter/nf_conntrack_max": "262144",
			"/sys/kernel/mm/transparent_hugepage/enabled": "always",
		},
		"powersave-like": {
			"/proc/sys/vm/laptop_mode": "5", "/proc/sys/vm/dirty_writeback_centisecs": "1500", "/proc/sys/kernel/nmi_watchdog": "0",
			"/sys/class/rfkill/rfkill0/soft": "1", "/sys/block/sr0/events_poll_msecs": "0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := rhel6Machine(t, "6.12.4", today...)
			r := importAt(t, root, place(t, root, name))
			machine.Write(t, root, map[string]string{
				"/proc/sys/kernel/random/boot_id":  "one\n",
				"/run/utmp":                        "",
				"/var/lib/dpkg/status":             "",
				"/sys/class/rfkill/rfkill0/type":   "bluetooth\n",
				"/sys/class/rfkill/rfkill0/soft":   "0\n",
				"/sys/block/sr0/events_poll_msecs": "-1\n",
			})
			for _, f := range r.Files {
				p := "/etc/tuned/profiles/" + r.Name + "/" + f.Path
				machine.WriteFile(t, root, p, f.Data)
				if err := os.Chmod(filepath.Join(root, p), f.Mode); err != nil {
					t.Fatal(err)
				}
			}
			before := settings(t, root)

			h := host.Mounted(root)
			h.Exec = shellExec{root}
			e := &tune.Engine{
				Host: h, Kinds: table.Kinds(h), Plugins: table.All, StateDir: filepath.Join(t.TempDir(), "state"), Main: profile.DefaultMain(),
				ProfileDirs: []string{"/etc/tuned/profiles"}, User: "tester", Reason: "tune " + r.Name,
			}
			ctx := context.Background()
			p, err := (&profile.Loader{Host: h, Execute: true}).Load(ctx, r.Name)
			if err != nil {
				t.Fatal(err)
			}
			planner := func(ctx context.Context, s *journal.State) (*tune.Plan, error) { return e.PlanProfile(ctx, p, s) }
			applied, err := e.Apply(ctx, planner, tune.ApplyOptions{Kind: journal.Tune})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range applied.Plan.Steps {
				if s.Verdict == plugin.Rejected {
					t.Errorf("%s: %s: %s", s.Setting, s.Verdict, s.Why)
				}
			}
			during := settings(t, root)
			for p, v := range want {
				if during[p] != v {
					t.Errorf("%s is %q, want %q", p, during[p], v)
				}
			}

			verdicts := func() map[plugin.Verdict][]string {
				s, err := e.State()
				if err != nil {
					t.Fatal(err)
				}
				v, err := e.Verify(ctx, p, s)
				if err != nil {
					t.Fatal(err)
				}
				out := map[plugin.Verdict][]string{}
				for _, c := range v.Values {
					out[c.Verdict] = append(out[c.Verdict], c.Setting.String()+" "+c.Why)
				}
				return out
			}
			got := verdicts()
			if len(got[plugin.Drifted])+len(got[plugin.Rejected]) > 0 || len(got[plugin.OK]) < 3 {
				t.Errorf("right after tune: %v", got)
			}
			drift := slices.Sorted(maps.Keys(want))[0]
			machine.WriteFile(t, root, drift, "7\n")
			if got := verdicts(); len(got[plugin.Drifted]) != 1 {
				t.Errorf("after a drift of %s: %v", drift, got)
			}
			machine.WriteFile(t, root, drift, want[drift]+"\n")

			if _, err := e.Undo(ctx); err != nil {
				t.Fatal(err)
			}
			for p, v := range settings(t, root) {
				if before[p] != v {
					t.Errorf("undo left %s at %q, it was %q", p, v, before[p])
				}
			}
		})
	}
}
