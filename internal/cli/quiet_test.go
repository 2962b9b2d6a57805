package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// TestQuietKilled: kill -9 at every point at which a crash could leave something behind; the
// watchdog restores every value, and the command does not go on.
func TestQuietKilled(t *testing.T) {
	testkitroot.Real(t, "kills some fifty runs")
	t.Parallel()
	p := newProving(t)
	before := quietValues(t, p.machine)
	killed := 0
	for at := 1; ; at++ {
		ran := p.file("ran")
		cmd := p.command("quiet", "--", "sh", "-c", "echo >"+ran+"; sleep 0.1")
		cmd.Env = append(cmd.Env, "FETTLE_TEST_KILL_AT="+strconv.Itoa(at))
		out, err := cmd.CombinedOutput()
		if err == nil {
			if killed < 8 {
				t.Errorf("only %d crash points:\n%s", killed, out)
			}
			t.Logf("%d crash points, %d values watched", killed, len(before))
			p.quietRestored(before, at)
			return
		}
		killed++
		p.quietRestored(before, at)
	}
}

// TestQuietKilledAtWork: kill -9 while the command runs ends the command too.
func TestQuietKilledAtWork(t *testing.T) {
	testkitroot.Real(t, "waits for what must not go on")
	t.Parallel()
	p := newProving(t)
	before := quietValues(t, p.machine)
	cmd := p.command("quiet", "--", "sh", "-c", "echo $$ >"+p.file("pid")+"; exec sleep 1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid []byte
	await(t, "the command", func() bool {
		pid, _ = os.ReadFile(p.file("pid"))
		return len(pid) > 1
	})
	if now := quietValues(t, p.machine); len(before.Differences(now)) == 0 {
		t.Error("nothing is set while the command runs")
	}
	if out, err := p.command("tune", "--set", "vm.swappiness=10").CombinedOutput(); err == nil || !strings.Contains(string(out), "fettle quiet is in progress: it switches sysctl:vm.swappiness") {
		t.Errorf("another transaction changes a value meanwhile: %v %s", err, out)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	p.quietRestored(before, 0)
	await(t, "the end of the command", func() bool {
		_, err := os.Stat("/proc/" + strings.TrimSpace(string(pid)))
		return err != nil
	})
}

// TestQuietStays: kill -9 while the state is applied that stays: undo restores what was written.
func TestQuietStays(t *testing.T) {
	testkitroot.Real(t, "kills some twenty runs")
	t.Parallel()
	p := newProving(t)
	before := quietValues(t, p.machine)
	for at := 1; ; at++ {
		cmd := p.command("quiet")
		cmd.Env = append(cmd.Env, "FETTLE_TEST_KILL_AT="+strconv.Itoa(at))
		err := cmd.Run()
		if out, failed := p.command("undo").CombinedOutput(); failed != nil {
			t.Fatalf("killed at %d: %v: %s", at, failed, out)
		}
		p.quietRestored(before, at)
		if err == nil {
			return
		}
	}
}

// quietValues returns the kernel's values of a stand-in machine. The list of huge page modes is
// left out: a plain file has no brackets after a write.
func quietValues(t *testing.T, dir string) testkitroot.Tree {
	t.Helper()
	all := testkitroot.Tree{}
	for _, below := range []string{"proc/sys", "sys"} {
		tree, err := testkitroot.ReadTree(filepath.Join(dir, below))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range tree {
			if !strings.Contains(name, "transparent_hugepage") {
				all[below+"/"+name] = strings.TrimSpace(text)
			}
		}
	}
	for _, action := range []string{"drop_caches", "compact_memory"} { // not undone
		for name := range all {
			if strings.HasSuffix(name, action) {
				delete(all, name)
			}
		}
	}
	return all
}

// quietRestored waits until the machine is as it was and the journal has nothing live.
func (p *proving) quietRestored(before testkitroot.Tree, at int) {
	p.t.Helper()
	var differences []string
	if !testkitroot.Eventually(time.Minute, func() bool {
		differences = before.Differences(quietValues(p.t, p.machine))
		s, err := journal.Read(filepath.Join(p.machine, "var/lib/fettle"), "")
		return len(differences) == 0 && (os.IsNotExist(err) || err == nil && len(s.Live()) == 0 && len(s.Interrupted()) == 0)
	}) {
		p.t.Fatalf("killed at %d: not restored:\n%s", at, strings.Join(differences, "\n"))
	}
}

// TestQuietHere runs a command in the quiet state of this machine, is interrupted, and killed: each
// time all values and tasks are as before.
func TestQuietHere(t *testing.T) {
	testkitroot.Untuned(t)
	values, tasks := testkitroot.Settings(), testkitroot.Tasks()
	state := filepath.Join(t.TempDir(), "state")
	call := func(killAt int, args ...string) (int, string) {
		t.Helper()
		cmd := fettleCommand(t, append([]string{"--state-dir", state}, args...)...)
		cmd.Env = append(os.Environ(), "FETTLE_TEST_KILL_AT="+strconv.Itoa(killAt))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if _, exited := err.(*exec.ExitError); err != nil && !exited {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), out.String()
	}
	same := func(when string) {
		t.Helper()
		var d []string
		if !testkitroot.Eventually(time.Minute, func() bool {
			d = append(values.Differences(values.Reread()), changedTasks(tasks, testkitroot.Tasks())...)
			return len(d) == 0
		}) {
			t.Fatalf("%s: not restored:\n%s", when, strings.Join(d, "\n"))
		}
	}
	code, out := call(0, "quiet", "--", "sh", "-c", "cat /proc/sys/kernel/randomize_va_space; grep Cpus_allowed_list /proc/self/status; exit 9")
	if code != 9 || !strings.Contains(out, "\n0\n") || !strings.Contains(out, "95 % interval") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	same("after a run")
	points := []int{30}
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		points = []int{5, 20, 60, 120, 300}
	}
	for _, at := range points {
		call(at, "quiet", "--", "sleep", "1")
		same("killed at " + strconv.Itoa(at))
	}
}

// changedTasks returns the tasks of both trees that differ.
func changedTasks(before, after testkitroot.Tree) (changed []string) {
	for task, was := range before {
		if is, ok := after[task]; ok && is != was {
			changed = append(changed, task+": was "+was+", is "+is)
		}
	}
	return changed
}

// TestQuietInterrupted: a signal ends the command, and the machine is as it was when fettle ends.
func TestQuietInterrupted(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	before := quietValues(t, p.machine)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		_ = os.Remove(p.file("pid"))
		cmd := p.command("quiet", "--", "sh", "-c", "echo $$ >"+p.file("pid")+"; exec sleep 1000")
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "the command", func() bool { pid, _ := os.ReadFile(p.file("pid")); return len(pid) > 1 })
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if cmd.ProcessState.ExitCode() != 130 || !strings.Contains(said.String(), "and restored (transaction ") || !strings.Contains(said.String(), "fettle: interrupted\n") {
			t.Errorf("%v: %v: %s", signal, err, &said)
		}
		if d := before.Differences(quietValues(t, p.machine)); len(d) > 0 {
			t.Errorf("%v: not restored:\n%s", signal, strings.Join(d, "\n"))
		}
	}
}
