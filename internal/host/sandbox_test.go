package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// A sandboxed program leaves nothing behind, whichever user runs it: it writes
// only to empty directories, has no network, and its children end with it.
func TestSandboxLeavesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		root.Missing(t, "only root makes a private view")
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o777); err != nil { //nolint:gosec // another user is to get there
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir+"/logs/deep", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/logs/old", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	// The test directory may be below /tmp, which is empty in the sandbox.
	script := `id -u
for f in /etc/fettle-test /fettle-test /usr/fettle-test /sys/fettle-test /dev/fettle-test /var/lib/fettle-test; do
  (echo x >$f) 2>/dev/null && echo wrote $f
done
mount -o remount,rw / 2>/dev/null && echo remounted
echo x >/tmp/fettle-test && echo x >` + dir + `/logs/deep/new && test ! -e ` + dir + `/logs/old && echo empty
grep -q private.example /etc/hosts && echo named
tail -n +3 /proc/net/dev | grep -vc ' lo:'
grep -c 'NoNewPrivs:.1' /proc/self/status
sed -n 's/^CapEff:[^0-9a-f]*//p' /proc/self/status
(sleep 600; echo late) & echo $! >/tmp/pid
`
	for _, u := range []host.User{{0, 0}, {65534, 65534}} {
		began := time.Now()
		res, err := host.Live().Exec.Run(t.Context(), host.Command{Argv: []string{"/bin/sh", "-c", script}, As: &u, Sandbox: &host.Sandbox{Empty: []string{dir + "/logs", "/not/there"}, Names: []string{"private.example"}}})
		if err != nil {
			t.Fatalf("as %d: %v", u.UID, err)
		}
		want := []string{"0", "empty", "named", "0", "1", "0000000000000000"}
		if u.UID != 0 {
			want[0] = "65534"
		}
		if got := strings.Fields(string(res.Stdout)); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("as %d: %q, want %q; %s", u.UID, got, want, res.Stderr)
		}
		if time.Since(began) > 5*time.Minute {
			t.Errorf("as %d: what it has started in the background held it up", u.UID)
		}
	}
	for _, name := range []string{"/etc/fettle-test", "/fettle-test", "/usr/fettle-test", "/tmp/fettle-test", "/var/lib/fettle-test", dir + "/logs/deep/new"} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s has stayed", name)
		}
	}
	if _, err := os.Stat(dir + "/logs/old"); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile("/etc/hosts"); strings.Contains(string(text), "private.example") {
		t.Error("the name has stayed in /etc/hosts")
	}
	// A hanging program is killed with all its children.
	_, err := host.Live().Exec.Run(t.Context(), host.Command{Argv: []string{"/bin/sh", "-c", "trap '' TERM; setsid sleep 4242 & sleep 4242"}, Sandbox: &host.Sandbox{}, Timeout: 300 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "killed after") {
		t.Errorf("one that hangs: %v", err)
	}
	if !root.Eventually(time.Minute, func() bool { return !anyRuns(t, "sleep\x004242\x00") }) {
		t.Error("what it has started runs on")
	}
	// This process is not affected.
	if err := os.WriteFile(dir+"/after", nil, 0o600); err != nil {
		t.Error(err)
	}
}

// anyRuns reports whether a process has some arguments.
func anyRuns(t *testing.T, args string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if text, err := os.ReadFile(f); err == nil && string(text) == args {
			return true
		}
	}
	return false
}
