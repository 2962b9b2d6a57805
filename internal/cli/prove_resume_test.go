package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// cutOff starts an experiment, and sends it a signal once its change is in force.
func (p *proving) cutOff(signal syscall.Signal, more ...string) (said string, code int) {
	p.t.Helper()
	cmd := p.prove("--anyway")
	cmd.Args = append(cmd.Args, more...) // of the work
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() })
	p.changed()
	if err := cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	_ = cmd.Wait()
	return out.String(), cmd.ProcessState.ExitCode()
}

// changed waits until the change is in force.
func (p *proving) changed() {
	p.t.Helper()
	await(p.t, "the change", func() bool {
		text, err := os.ReadFile(filepath.Join(p.machine, "proc/sys/vm/swappiness"))
		return err == nil && strings.TrimSpace(string(text)) == "10"
	})
}

// TestProveQuit: SIGQUIT, which ends a Go program with what its threads were at, leaves
// the machine restored, and the experiment to be resumed.
func TestProveQuit(t *testing.T) {
	p := newProving(t)
	said, code := p.cutOff(syscall.SIGQUIT)
	if code != 2 || !strings.Contains(said, "SIGQUIT") {
		t.Errorf("exit code %d: %s", code, said)
	}
	p.restored()
	if out, code := p.run("runs", "list"); code != 0 || !strings.Contains(out, "cut-off, can be resumed") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := p.run("prove", "--resume", "last", "--anyway", "--expect", "faster"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.restored()
}

// TestResumeRefused: an experiment does not go on where what is measured now would not go
// together with what was measured then.
func TestResumeRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("makes experiments")
	}
	p := newProving(t)
	resume := func(code int, says string) {
		t.Helper()
		if out, got := p.run("prove", "--resume", "last", "--anyway"); got != code || !strings.Contains(out, says) {
			t.Errorf("exit code %d, want %d and %q: %s", got, code, says, out)
		}
		if names, err := p.runs().CutOff(); code != 0 && (err != nil || len(names) != 1) {
			t.Errorf("the record does not stay: %v, %v", names, err)
		}
		p.restored()
	}
	if said, code := p.cutOff(syscall.SIGTERM); code != 130 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	p.restored()

	// Another processor.
	file := filepath.Join(p.machine, "proc/cpuinfo")
	cpus, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.ReplaceAll(cpus, []byte("model name\t: "), []byte("model name\t: Another "))
	if bytes.Equal(other, cpus) {
		t.Fatal("this processor has no name")
	}
	if err := os.WriteFile(file, other, 0o644); err != nil {
		t.Fatal(err)
	}
	resume(4, "was begun on another machine")
	if err := os.WriteFile(file, cpus, 0o644); err != nil {
		t.Fatal(err)
	}

	// Another value.
	p.write("70")
	if out, code := p.run("prove", "--resume", "last", "--anyway"); code != 4 || !strings.Contains(out, "the machine has other values now than when the experiment was begun") {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.write("60")
	resume(0, "faster by ")

	// A command that JSON cannot hold.
	if said, code := p.cutOff(syscall.SIGTERM, "g\xfcte"); code != 130 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	p.restored()
	resume(4, "have bytes that are not UTF-8")
	if out, code := p.run("runs", "prune", "--cut-off", "--yes"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestPruneStanding: the record of an experiment stays as long as its change is in force,
// which it is once both it and its watchdog were killed.
func TestPruneStanding(t *testing.T) {
	p := newProving(t)
	work, err := os.ReadFile(p.work)
	if err != nil {
		t.Fatal(err)
	}
	// It does not end with the change, which stays in force.
	if err := os.WriteFile(p.work, append(work, "[ $base = 9200 ] && { echo >"+p.file("hangs")+"; sleep 1000; }; true\n"...), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := p.prove("--anyway")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(t, "a run with the change", func() bool { _, err := os.Stat(p.file("hangs")); return err == nil })
	watchdog := childOf(t, cmd.Process.Pid, "watch-experiment")
	// Not to act on the death of the other.
	if err := syscall.Kill(watchdog, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	p.changed()
	names, err := p.runs().CutOff()
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	out, code := p.run("runs", "prune", "--cut-off", "--yes")
	if left, err := p.runs().CutOff(); code != 0 || !strings.Contains(out, names[0]+" stays: the change of an experiment that was cut off stands (transaction ") || err != nil || len(left) != 1 {
		t.Errorf("exit code %d, left are %v: %s", code, left, out)
	}
	if out, code := p.run("undo"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.restored()
	out, code = p.run("runs", "prune", "--cut-off", "--yes")
	if left, err := p.runs().CutOff(); code != 0 || err != nil || len(left) > 0 {
		t.Errorf("exit code %d, left are %v: %s", code, left, out)
	}
}

// childOf is the process that another one has started with a word among its arguments.
func childOf(t *testing.T, parent int, word string) (pid int) {
	t.Helper()
	await(t, "a process with "+word, func() bool {
		all, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			stat, err := os.ReadFile(name)
			if errors.Is(err, os.ErrNotExist) || err != nil {
				continue
			}
			fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent
			if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
				continue
			}
			args, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			if err != nil || !strings.Contains(string(args), word) {
				continue
			}
			pid, err = strconv.Atoi(filepath.Base(filepath.Dir(name)))
			return err == nil
		}
		return false
	})
	return pid
}
