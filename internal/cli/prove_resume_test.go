package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// holding starts an experiment whose first run with the change does not end, and waits
// for that. The next experiment has work that ends.
func (p *proving) holding(more ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
	p.t.Helper()
	work, err := os.ReadFile(p.work)
	if err != nil {
		p.t.Fatal(err)
	}
	hold, held := p.file("hold"), p.file("held")
	if !bytes.Contains(work, []byte(hold)) {
		work = append(work, "[ $base = 9200 ] && [ -e "+hold+" ] && { echo >"+held+"; sleep 1000; }; true\n"...)
		if err := os.WriteFile(p.work, work, 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	p.touch("hold")
	cmd = p.prove("--force")
	cmd.Args = append(cmd.Args, more...) // of the work
	said = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(p.t, "a run with the change", func() bool { _, err := os.Stat(held); return err == nil })
	if err := errors.Join(os.Remove(hold), os.Remove(held)); err != nil {
		p.t.Fatal(err)
	}
	return cmd, said
}

// cutOff starts an experiment, and sends it a signal in a run with the change.
func (p *proving) cutOff(signal syscall.Signal, more ...string) (string, int) {
	p.t.Helper()
	cmd, said := p.holding(more...)
	if err := cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	_ = cmd.Wait()
	return said.String(), cmd.ProcessState.ExitCode()
}

// TestProveQuit: SIGQUIT is an interruption like another, and ends the program with what
// its threads were at only if requested. Both leave the machine restored,
// and the experiment to be resumed.
func TestProveQuit(t *testing.T) {
	testkitroot.Real(t, "makes experiments")
	p := newProving(t)
	if said, code := p.cutOff(syscall.SIGQUIT); code != 130 || strings.Contains(said, "goroutine") || !strings.Contains(said, "machine restored") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if text, err := os.ReadFile(filepath.Join(p.machine, "proc/sys/vm/swappiness")); err != nil || strings.TrimSpace(string(text)) != "60" {
		t.Errorf("vm.swappiness is %q (%v)", text, err)
	}
	t.Setenv("GOTRACEBACK", "single")
	p = newProving(t)
	said, code := p.cutOff(syscall.SIGQUIT)
	if code != 2 || !strings.Contains(said, "SIGQUIT") {
		t.Errorf("exit code %d: %s", code, said)
	}
	p.restored()
	if out, code := p.run("runs", "list"); code != 0 || !strings.Contains(out, "cut-off before its first block, can be resumed") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := p.run("prove", "--resume", "last", "--force", "--expect", "faster"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.restored()
}

// TestResumeRefused: an experiment does not go on where what is measured now would not go
// together with what was measured then.
func TestResumeRefused(t *testing.T) {
	testkitroot.Real(t, "makes experiments")
	t.Parallel()
	p := newProving(t)
	resume := func(code int, says string) {
		t.Helper()
		if out, got := p.run("prove", "--resume", "last", "--force"); got != code || !strings.Contains(out, says) {
			t.Errorf("exit code %d, want %d and %q: %s", got, code, says, out)
		}
		if names, err := p.runs().Unfinished(); code != 0 && (err != nil || len(names) != 1) {
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
	resume(4, "was started on another machine (")
	if err := os.WriteFile(file, cpus, 0o644); err != nil {
		t.Fatal(err)
	}

	// Another value.
	p.write("70")
	if out, code := p.run("prove", "--resume", "last", "--force"); code != 4 || !strings.Contains(out, "values on this machine have changed since the experiment began; old and new measurements cannot be combined") {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.write("60")
	resume(0, "faster by ")

	// A command that JSON cannot hold.
	if said, code := p.cutOff(syscall.SIGTERM, "g\xfcte"); code != 130 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	p.restored()
	resume(4, ": its commands contain bytes that are not UTF-8, which the record does not store")
	if out, code := p.run("runs", "prune", "--cut-off", "--yes"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestPruneStanding: the record of an experiment stays as long as its change is in force,
// which it is once both it and its watchdog were killed.
func TestPruneStanding(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	cmd, _ := p.holding()
	watchdog := childOf(t, cmd.Process.Pid, "watch-experiment")
	// Not to act on the death of the other.
	if err := syscall.Kill(watchdog, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	await(t, "the watchdog's end", func() bool { return syscall.Kill(watchdog, 0) != nil })
	if text, err := os.ReadFile(filepath.Join(p.machine, "proc/sys/vm/swappiness")); err != nil || strings.TrimSpace(string(text)) != "10" {
		t.Fatalf("the change is not in force: %q, %v", text, err)
	}
	names, err := p.runs().Unfinished()
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	out, code := p.run("runs", "prune", "--cut-off", "--yes")
	if left, err := p.runs().Unfinished(); code != 0 || !strings.Contains(out, "not removed: "+names[0]+": the change of an interrupted experiment is in force (transaction ") || err != nil || len(left) != 1 {
		t.Errorf("exit code %d, left are %v: %s", code, left, out)
	}
	if out, code := p.run("status"); code != 0 || !strings.Contains(out, "belongs to fettle prove, which was killed with its watchdog; undo it with fettle undo") || strings.Contains(out, "confirm") {
		t.Errorf("status: exit code %d: %s", code, out)
	}
	// No other process would end it: the next one that writes does.
	if out, code := p.run("tune", "--set", "vm.dirty_ratio=25"); code != 0 || !strings.Contains(out, "was interrupted or not confirmed; undone first") {
		t.Errorf("tune: exit code %d: %s", code, out)
	}
	if text, err := os.ReadFile(filepath.Join(p.machine, "proc/sys/vm/swappiness")); err != nil || strings.TrimSpace(string(text)) != "60" {
		t.Errorf("the change is in force: %q, %v", text, err)
	}
	if out, code := p.run("undo"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.restored()
	out, code = p.run("runs", "prune", "--cut-off", "--yes")
	if left, err := p.runs().Unfinished(); code != 0 || err != nil || len(left) > 0 {
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
