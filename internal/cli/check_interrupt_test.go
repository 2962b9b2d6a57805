package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/audit"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// ruleOfCopy is a directory as --root takes it, with a rule of its own that measures
// an expression.
func ruleOfCopy(t *testing.T, measured string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, audit.OwnRules, "own.yaml")
	text := fmt.Sprintf(`- id: X01
  title: It measures something
  failed: not It measures something
  platforms: [linux]
  inputs: {total: memory.total_bytes}
  measured: '%s'
  want: '1'
  why: It does.
  sources: [{document: ours}]
  examples:
    - {name: one, given: {total: 1}, finding: pass}
    - {name: two, given: {total: 2}, finding: warn}
`, measured)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{file: text, filepath.Join(dir, "proc/meminfo"): "MemTotal: 16000000 kB\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A signal ends whatever asks rules also in the middle of an expression that never
// does, and nothing is left of it.
func TestInterruptedExpression(t *testing.T) {
	t.Parallel()
	dir := ruleOfCopy(t, `let text = join(map(1..100000, "aaaaaaaaaaaaaaaaaaaa"), ""); all(1..500000, not (text matches "a*b$")) ? 1 : 2`)
	to, tmp := t.TempDir(), t.TempDir()
	cases := []struct {
		args []string
		sig  syscall.Signal
	}{
		{[]string{"check", "linux"}, syscall.SIGTERM},
		{[]string{"check", "--explain", "X01"}, syscall.SIGINT},
		{[]string{"fix", "X01", "--write", filepath.Join(to, "files")}, syscall.SIGINT},
		{[]string{"facts", "--archive", filepath.Join(to, "archive")}, syscall.SIGTERM},
		{[]string{"rules", "test", "X01"}, syscall.SIGINT},
	}
	for _, c := range cases[:testkitroot.Sample(len(cases))] {
		cmd := fettleCommand(t, append(c.args, "--root", dir)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		// All else takes a fraction of this time.
		if !testkitroot.Eventually(5*time.Minute, func() bool { return cpuTicks(cmd.Process.Pid) > 100 }) {
			t.Errorf("%v: the expression was not evaluated for a second", c.args)
		}
		if err := cmd.Process.Signal(c.sig); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if code := cmd.ProcessState.ExitCode(); code != 130 {
				t.Errorf("%v, %v: %v, exit code %d, want 130", c.args, c.sig, err, code)
			}
		case <-time.After(5 * time.Minute):
			t.Errorf("%v, %v: still running five minutes later", c.args, c.sig)
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	for _, d := range []string{to, tmp} {
		if left, err := os.ReadDir(d); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v (%v)", left, err)
		}
	}
}

// cpuTicks is the CPU time of a process in its own mode, in hundredths of a second.
func cpuTicks(pid int) (ticks int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	if f := strings.Fields(rest); len(f) > 11 {
		_, _ = fmt.Sscan(f[11], &ticks)
	}
	return ticks
}
