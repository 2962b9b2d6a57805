package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/measure/memory"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/ui"
)

// waiting makes the first runs with the change wait as long as there is a file, and
// returns once one does.
func (p *proving) waiting(cmd *exec.Cmd) *bytes.Buffer {
	p.t.Helper()
	work, err := os.ReadFile(p.work)
	if err != nil {
		p.t.Fatal(err)
	}
	hold, held := p.file("hold"), p.file("held")
	work = append(work, "[ $base = 9200 ] && while [ -e "+hold+" ]; do echo >"+held+"; sleep 0.02; done; true\n"...)
	if err := os.WriteFile(p.work, work, 0o755); err != nil {
		p.t.Fatal(err)
	}
	p.touch("hold")
	said := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(p.t, "a run with the change", func() bool { _, err := os.Stat(held); return err == nil })
	return said
}

func (p *proving) on() {
	if err := os.Remove(p.file("hold")); err != nil {
		p.t.Fatal(err)
	}
}

// TestProveBeside: the transactions of others are waited for, and are told of the
// experiment; what it has under test they do not get. A second experiment comes second.
func TestProveBeside(t *testing.T) {
	testkitroot.Real(t, "makes experiments")
	t.Parallel()
	p := newProving(t)
	cmd := p.prove("--force")
	said := p.waiting(cmd)
	if out, code := p.run("tune", "--set", "vm.swappiness=20"); code != 75 || !strings.Contains(out, "fettle prove is in progress: it switches sysctl:vm.swappiness (process ") {
		t.Errorf("the same setting: exit code %d: %s", code, out)
	}
	if out, code := p.run("tune", "--set", "vm.dirty_ratio=25"); code != 0 || !strings.Contains(out, "fettle prove is running (process ") {
		t.Errorf("another setting: exit code %d: %s", code, out)
	}
	if out, code := p.prove().CombinedOutput(); code == nil || !strings.Contains(string(out), "fettle prove is in progress") {
		t.Errorf("a second experiment: %v: %s", code, out)
	} else if exit := (*exec.ExitError)(nil); !errors.As(code, &exit) || exit.ExitCode() != 75 {
		t.Errorf("a second experiment: %v: %s", code, out)
	}
	for _, bench := range [][]string{{"memory"}, {"disk", "/var/lib"}, {"postgres"}} {
		out, code := p.run(append([]string{"bench"}, bench...)...)
		for _, says := range []string{"fettle prove is in progress (process ", "prove --set vm.swappiness=10", "); two at once would disturb each other", "wait until it ends, or interrupt it (which restores the machine): kill -INT "} {
			if code != 75 || !strings.Contains(out, says) {
				t.Errorf("bench %s: exit code %d: %s", bench, code, out)
			}
		}
	}
	if out, code := p.run("status"); code != 0 || !strings.Contains(out, "fettle prove is running (process ") || strings.Contains(out, "fettle confirm") {
		t.Errorf("status: exit code %d: %s", code, out)
	}
	// Another transaction stands for a while, and is there when the change is to
	// be undone.
	lock, err := os.OpenFile(filepath.Join(p.machine, "var/lib/fettle/lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	p.on()
	time.Sleep(700 * time.Millisecond)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "faster by ") {
		t.Errorf("%v: %s", err, said)
	}
	if out, code := p.run("undo"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.restored()
}

// TestProveTakenBack: who takes the change back ends the experiment, and the machine is
// restored.
func TestProveTakenBack(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	cmd := p.prove("--force")
	said := p.waiting(cmd)
	if out, code := p.run("undo"); code != 0 || !strings.Contains(out, "fettle prove is running (process ") {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.on()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said.String(), "another program reverted the change") {
		t.Errorf("exit code %d: %s", code, said)
	}
	p.restored()
}

// TestProveWatchdogAtWork: as long as the watchdog tries to undo, all verbs report it, and
// no other experiment begins.
func TestProveWatchdogAtWork(t *testing.T) {
	testkitroot.Real(t, "waits for a watchdog")
	t.Parallel()
	p := newProving(t)
	place, stuck := filepath.Join(p.machine, "proc/sys/vm/swappiness"), p.file("stuck")
	args := []string{"prove", "--force", "--change-cmd", "echo 10 >" + place + "; echo >" + stuck, "--undo-cmd", "[ ! -e " + stuck + " ] && echo 60 >" + place, "--", p.work}
	if out, code := p.run(args...); code != 6 || !strings.Contains(out, "the watchdog keeps trying to undo the change for ten minutes; to undo it by hand:") {
		t.Errorf("exit code %d: %s", code, out)
	}
	state := filepath.Join(p.machine, "var/lib/fettle")
	await(t, "the watchdog", func() bool { x := tune.Holder(state); return x != nil && x.Restoring })
	if out, code := p.run("status"); code != 0 || !strings.Contains(out, "is still undoing its change") || strings.Contains(out, experiment.LeftBehind) {
		t.Errorf("status: exit code %d: %s", code, out)
	}
	if out, code := p.run("undo"); code != 1 || !strings.Contains(out, "the change of fettle prove may still be in force; it is not in fettle's journal, and process") || strings.Contains(out, experiment.LeftBehind) {
		t.Errorf("undo: exit code %d: %s", code, out)
	}
	if out, code := p.run(args...); code != 75 || !strings.Contains(out, "still undoing the change") {
		t.Errorf("a second experiment: exit code %d: %s", code, out)
	}
	if err := os.Remove(stuck); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the watchdog", func() bool { return !tune.Leased(state) })
	if how := tune.Armed(state); how != "" {
		t.Errorf("left: %s", how)
	}
	p.restored()
}

// TestProveInsisted: a second signal while the machine is being restored gets a word, a
// third one leaves it to the watchdog.
func TestProveInsisted(t *testing.T) {
	testkitroot.Real(t, "waits for a watchdog")
	t.Parallel()
	for _, c := range []struct {
		// Each another one: two of a kind may reach a busy process as one.
		signals []os.Signal
		code    int
		says    string
	}{
		{[]os.Signal{syscall.SIGINT, syscall.SIGTERM}, 130, "interrupted; machine restored, nothing measured"},
		{[]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}, 6, "left to the watchdog"},
	} {
		p := newProving(t)
		place := filepath.Join(p.machine, "proc/sys/vm/swappiness")
		undoing, hold := p.file("undoing"), p.file("hold")
		p.touch("hold")
		cmd := p.command("prove", "--force", "--change-cmd", "echo 10 >"+place, "--undo-cmd", "echo >"+undoing+"; while [ -e "+hold+" ]; do sleep 0.02; done; echo 60 >"+place,
			"--metric", "took=took ([0-9]+)", "--unit", "s", "--", p.work)
		said := &watched{}
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		await(t, "the undo", func() bool { _, err := os.Stat(undoing); return err == nil })
		for _, s := range c.signals {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		await(t, "a word about the second signal", func() bool { return strings.Contains(said.String(), "restoring the old values; please wait") })
		if c.code == 130 {
			p.on()
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(said.String(), c.says) {
			t.Errorf("%v: exit code %d: %s", c.signals, code, said.String())
		}
		if c.code != 130 {
			p.on()
		}
		p.restored()
		await(t, "the end of the watchdog", func() bool { return !tune.Leased(filepath.Join(p.machine, "var/lib/fettle")) })
	}
}

// TestProveRehearsed: a change that cannot be made is found before anything is measured,
// undone, and nothing is kept; two values for one place are refused.
func TestProveRehearsed(t *testing.T) {
	t.Parallel()
	p := newProving(t)
	out, code := p.run("prove", "--force", "--change-cmd", "echo no such device >&2; exit 3", "--undo-cmd", "true", "--", p.work)
	if code != 5 || !strings.Contains(out, "the change could not be applied: ") || !strings.Contains(out, "no such device") || !strings.Contains(out, "nothing was measured") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if names, err := p.runs().Unfinished(); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := os.Stat(p.file("count")); err == nil {
		t.Error("the work was run")
	}
	p.restored()
	out, code = p.run("prove", "--set", "vm.swappiness=10", "--set", "sysctl:vm/swappiness=20", "--", p.work)
	if code != 2 || !strings.Contains(out, "are the same setting") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestProveRejected: the kernel's answer to a value is told with the setting.
func TestProveRejected(t *testing.T) {
	testkitroot.Real(t, "watches the machine for three seconds, in a network namespace of its own")
	if os.Geteuid() != 0 {
		testkitroot.Missing(t, "a network namespace of its own needs root")
	}
	t.Parallel()
	var out []byte
	code := 0
	// While another test runs a real TuneD on this machine, the experiment is refused with code 4.
	testkitroot.Eventually(5*time.Minute, func() bool {
		fettle := fettleCommand(t, "prove", "--force", "--state-dir", filepath.Join(t.TempDir(), "state"), "--set", "sysctl:net.ipv4.tcp_keepalive_time=abc", "--", "true")
		fettle.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
		out, _ = fettle.CombinedOutput()
		code = fettle.ProcessState.ExitCode()
		return code != 4
	})
	if code != 5 || !strings.Contains(string(out), "tcp_keepalive_time = abc") || !strings.Contains(string(out), "invalid argument") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestProveGoesOn: an experiment that has ended without an answer goes on from its record.
func TestProveGoesOn(t *testing.T) {
	testkitroot.Real(t, "makes experiments")
	t.Parallel()
	p := newProving(t)
	// An effect that seven blocks do not show.
	text := "#!/bin/sh\nn=$(cat " + p.file("count") + " 2>/dev/null || echo 0); n=$((n+1)); echo $n >" + p.file("count") + "\n" +
		"base=10000; [ \"$(cat " + p.machine + "/proc/sys/vm/swappiness)\" = 10 ] && base=9900\necho took $((base + n * n * 7919 % 401 - 200))\n"
	if err := os.WriteFile(p.work, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	said, code := p.run("prove", "--force", "--set", "vm.swappiness=10", "--metric", "took=took ([0-9]+)", "--unit", "s", "--seed", "7", "--margin", "0.5%", "--blocks", "7", "--", p.work)
	all, err := p.runs().All()
	if err != nil || len(all) != 1 || code != 0 || !strings.Contains(said, "fettle prove --resume "+all[0].ID) {
		t.Fatalf("%v, exit code %d: %s", err, code, said)
	}
	id := all[0].ID
	if out, code := p.run("prove", "--resume", id, "--blocks", "7"); code != 2 || !strings.Contains(out, "has 7 blocks") {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, code := p.run("prove", "--force", "--resume", id, "--budget", "5m", "--blocks", "60", "--expect", "faster")
	if code != 0 || !strings.Contains(out, "resumed after block 7, where run "+id) {
		t.Errorf("exit code %d: %s", code, out)
	}
	if all, err = p.runs().All(); err != nil || len(all) != 2 {
		t.Fatalf("%v: %d runs", err, len(all))
	}
	for _, r := range all {
		if out, code := p.run("runs", "show", r.ID); code != 0 || !strings.Contains(out, printedVerdict(r.Verdict)) {
			t.Errorf("exit code %d: %s", code, out)
		}
	}
	if out, code := p.run("prove", "--resume", all[1].ID); code != 2 || !strings.Contains(out, "; only a run that reached its limit of time or blocks can be resumed") {
		t.Errorf("exit code %d: %s", code, out)
	}
	p.restored()
}

// TestReserveBeside: huge pages are not reserved during an experiment that began a moment
// ago, and one that is over does not block.
func TestReserveBeside(t *testing.T) {
	if os.Getuid() != 0 {
		testkitroot.Missing(t, "root's rights: huge pages are reserved by root")
	}
	state := filepath.Join(t.TempDir(), "state")
	lease, err := tune.Lease(state, "prove")
	if err != nil {
		t.Fatal(err)
	}
	m := &tune.Machine{Engine: &tune.Engine{Host: host.Live(), StateDir: state}}
	_, err = experiment.Reserve(t.Context(), m, tune.Watchdog{}, &memory.Plan{Reserve: []memory.Reservation{{File: "/nonexistent"}}}, nil)
	var coded *ui.Error
	if ui.Code(err) != ui.Busy || !errors.As(err, &coded) || !strings.Contains(err.Error(), fmt.Sprintf("process %d: ", os.Getpid())) || !strings.Contains(coded.Hint, "wait until it ends") {
		t.Errorf("%d, %v", ui.Code(err), err)
	}
	if err := tune.Restoring(lease); err != nil {
		t.Fatal(err)
	}
	if err := mayMeasure(m); ui.Code(err) != ui.Busy || !strings.Contains(err.Error(), "its watchdog is still undoing the change (process ") {
		t.Errorf("%d, %v", ui.Code(err), err)
	}
	if err := errors.Join(tune.End(lease), lease.Close()); err != nil {
		t.Fatal(err)
	}
	if err := mayMeasure(m); err != nil {
		t.Error(err)
	}
}
