package override

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

func TestLoggerLine(t *testing.T) {
	for text, want := range map[string]struct {
		key string
		w   Write
	}{
		"sysctl[2115] changed vm/swappiness from 60 to 10": {"vm/swappiness",
			Write{Process: "sysctl", PID: 2115, Old: "60", New: "10"}},
		"sh[7](sudo[6]) initiated change of net/ipv4/tcp_rmem from 4096\t131072 to '' to 1 2 3": {"net/ipv4/tcp_rmem",
			Write{Process: "sh", PID: 7, Parent: "sudo", ParentPID: 6, Old: "4096\t131072 to ''", New: "1 2 3"}},
		"a b[1](c (d[2]) initiated change of kernel/x from '' to y (note: truncation has occurred so the name or value may not be complete)": {"kernel/x",
			Write{Process: "a b", PID: 1, Parent: "c (d", ParentPID: 2, New: "y", Cut: true}},
		"Begin monitoring sysctl_logger changes.":       {},
		"x[99999999999999999999] changed a from b to c": {},
	} {
		w, key, ok := parseLoggerLine(text)
		if ok != (want.key != "") {
			t.Errorf("%q: %v", text, ok)
			continue
		}
		if ok {
			want.w.Source = "sysctl-logger"
		}
		if diff := cmp.Diff(want.w, w); diff != "" || key != want.key {
			t.Errorf("%q: key %q (-want +got):\n%s", text, key, diff)
		}
	}
}

// rootExec runs programs in a Root, as host.Live runs programs of this machine.
type rootExec struct{ root *testkitroot.Root }

func (e rootExec) LookPath(name string) (string, error) {
	out, err := e.root.Command("which", name).Output()
	return strings.TrimSpace(string(out)), err
}

func (e rootExec) Run(_ context.Context, c host.Command) (host.Result, error) {
	var stdout, stderr bytes.Buffer
	cmd := e.root.Command(c.Argv...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return host.Result{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: cmd.ProcessState.ExitCode()}, err
}

// TestLastWriterFromJournal uses a real journal: systemd-journald stores the output of
// sysctl-logger, and the real journalctl reads it.
func TestLastWriterFromJournal(t *testing.T) {
	root := testkitroot.New(t, testkitroot.Options{})
	h := &host.Host{Name: "test root", Live: true, Files: host.Mounted(root.Path("/")).Files, Exec: rootExec{root}, Clock: host.Live().Clock}
	swappiness := setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}
	logger := SysctlLogger{h}
	ctx := context.Background()
	if _, err := LastWriter(ctx, swappiness, logger); !errors.Is(err, ErrNotWatched) {
		t.Fatalf("without a journal: %v", err)
	}
	root.Must("mkdir", "-p", "/run/systemd/journal", "/run/log/journal")
	root.Must("mount", "-t", "cgroup2", "-o", "ro", "none", "/sys/fs/cgroup") // journald asks which unit speaks
	journald := root.Start("/lib/systemd/systemd-journald")
	say := func(lines ...string) {
		root.Must("sh", "-euc", `printf '%s\n' "$@" | systemd-cat -t sysctl-logger`, "sh", strings.Join(lines, "\n"))
	}
	if !testkitroot.Eventually(time.Minute, func() bool {
		_, code := root.Run("test", "-S", "/run/systemd/journal/stdout")
		return code == 0
	}) {
		t.Fatalf("systemd-journald does not listen\n%s", journald.Output())
	}
	start := time.Now()
	say("Begin monitoring sysctl_logger changes.")
	if !testkitroot.Eventually(time.Minute, func() bool {
		_, err := LastWriter(ctx, swappiness, logger)
		return errors.Is(err, ErrNotWritten)
	}) {
		_, err := LastWriter(ctx, swappiness, logger)
		t.Fatalf("watched and not written: %v", err)
	}
	say("sysctl[10](bash[9]) initiated change of vm/swappiness from 60 to 10",
		"tuned[20](systemd[1]) initiated change of vm/swappiness from 10 to 1",
		"sysctl[11](bash[9]) initiated change of vm/dirty_ratio from 20 to 5")
	var w Write
	var err error
	testkitroot.Eventually(time.Minute, func() bool { // the journal takes one line after the other
		w, err = LastWriter(ctx, swappiness, logger)
		return err == nil && w.PID == 20
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.Time.Before(start.Add(-time.Second)) || w.Time.After(time.Now().Add(time.Second)) {
		t.Errorf("time %v", w.Time)
	}
	w.Time = time.Time{}
	want := Write{Process: "tuned", PID: 20, Parent: "systemd", ParentPID: 1, Old: "10", New: "1", Source: "sysctl-logger"}
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := LastWriter(ctx, setting.Setting{Kind: "sysfs", Name: "/sys/kernel/mm/ksm/run"}, logger); !errors.Is(err, ErrNotWatched) {
		t.Errorf("sysfs is not watched: %v", err)
	}
}

// TestReadWatch tests that the daemon's record is read, and that anything else is refused.
func TestReadWatch(t *testing.T) {
	dir := t.TempDir()
	swappiness := setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}
	since := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	want := Watch{Schema: WatchSchema, BootID: "boot-1", PID: 7, Start: 9, Settings: []Watched{{
		Setting: swappiness, Since: since, Value: setting.Text("44"),
		Last: &Write{Time: since.Add(time.Minute), Process: "sysctl", PID: 70, Old: "10", New: "44", Source: "fettle's daemon"},
	}}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, WatchFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadWatch(dir, "boot-1"); !errors.Is(err, ErrNotWatched) {
		t.Errorf("without a record: %v", err)
	}
	put(string(text))
	got, err := ReadWatch(dir, "boot-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := ReadWatch(dir, "boot-2"); !errors.Is(err, ErrNotWatched) {
		t.Errorf("of another boot: %v", err)
	}
	for _, bad := range []string{"", "{}", "[]", string(text[:len(text)/2]), string(text) + "{}", strings.Replace(string(text), "/v1", "/v9", 1), strings.Replace(string(text), "2026-11", "2026-91", 1)} {
		put(bad)
		if w, err := ReadWatch(dir, "boot-1"); err == nil || errors.Is(err, ErrNotWatched) {
			t.Errorf("%q: %+v, %v", bad, w, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, WatchFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, WatchFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadWatch(dir, "boot-1"); err == nil || errors.Is(err, ErrNotWatched) {
		t.Errorf("through a link: %v", err)
	}
}

// TestDaemonAnswers tests the answer for each state of the daemon.
func TestDaemonAnswers(t *testing.T) {
	dir, h := t.TempDir(), machine.Mounted(t, map[string]string{"proc/sys/kernel/random/boot_id": "boot-1\n"})
	h.Sched = host.Live().Sched
	self, err := h.Sched.Task(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	d := Daemon{Host: h, StateDir: dir}
	id := setting.Setting{Kind: "sysctl", Name: "vm.swappiness"}
	watched := []Watched{{Setting: id, Since: time.Now(), Value: setting.Text("10")}}
	at := time.Now()
	for _, c := range []struct {
		name string
		w    Watch
		want error
		text string
	}{
		{"at work, no write", Watch{PID: self.TID, Start: self.Start, Settings: watched}, ErrNotWritten, "fettle's daemon still watches them)"},
		{"killed", Watch{PID: self.TID, Start: self.Start + 1, Settings: watched}, ErrNotWritten, "until it was killed"},
		{"ended", Watch{PID: self.TID, Start: self.Start, Ended: &at, Settings: watched}, ErrNotWritten, "watched them until 20"},
		{"another setting", Watch{PID: self.TID, Start: self.Start}, ErrNotWatched, ": fettle's daemon watches only settings of the active profile"},
		{"ended, another setting", Watch{PID: self.TID, Start: self.Start, Ended: &at}, ErrNotWatched, "is not running"},
		{"the kernel refuses", Watch{PID: self.TID, Start: self.Start, Trouble: "fanotify_init: operation not permitted"}, ErrNotWatched, "cannot watch them: fanotify_init"},
	} {
		c.w.Schema, c.w.BootID = WatchSchema, "boot-1"
		text, err := json.Marshal(c.w)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, WatchFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LastWriter(t.Context(), id, d); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.want, c.text)
		}
	}
}

func TestWriteInWords(t *testing.T) {
	for want, w := range map[string]Write{
		"sysctl (process 7: sysctl -w vm.swappiness=1), child of bash (6)": {Process: "sysctl", PID: 7, Command: "sysctl -w vm.swappiness=1", Parent: "bash", ParentPID: 6},
		"bash (process 7), child of process 6":                             {Process: "bash", PID: 7, Command: "bash", ParentPID: 6},
		"process 7 (ended before its name could be read)":                  {PID: 7},
		"a process outside fettle's PID namespace":                         {},
	} {
		if got := w.By(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
