package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// proving is a machine that can be tuned, with work on it that prints a number which
// depends on vm.swappiness: 100 without the change and 92 with it, a little more or
// less each time.
type proving struct {
	t       *testing.T
	machine string
	work    string
}

func newProving(t *testing.T) *proving {
	dir := machine.Dir(t)
	p := &proving{t, filepath.Join(dir, "machine"), filepath.Join(dir, "work")}
	unpack(t, "../../testdata/hosts/kvm-guest.txt", p.machine)
	if err := withoutTuneD(p.machine); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`#!/bin/sh
n=0; [ -e %[1]s/count ] && read n <%[1]s/count; n=$((n+1)); echo $n >%[1]s/count
if [ -e %[1]s/fail ]; then echo "no such table" >&2; exit 3; fi
if [ -e %[1]s/hang ] && [ $n -ge "$(cat %[1]s/hang)" ]; then echo >%[1]s/hangs; sleep 1000; fi
[ -e %[1]s/slow ] && sleep 0.1
read swappiness <%[2]s/proc/sys/vm/swappiness
base=10000; [ "$swappiness" = 10 ] && base=9200
echo "took $((base + n * 7919 %% 41 - 20))"
`, dir, p.machine)
	if err := os.WriteFile(p.work, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// await waits for a condition.
func await(t *testing.T, what string, ask func() bool) {
	t.Helper()
	if !testkitroot.Eventually(time.Minute, ask) {
		t.Fatalf("waited in vain for %s", what)
	}
}

func (p *proving) file(name string) string { return filepath.Join(filepath.Dir(p.work), name) }

func (p *proving) command(args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(binDir(p.t), "fettle"), args...)
	c.Env = append(os.Environ(), "FETTLE_TEST_MACHINE="+p.machine)
	return c
}

// prove is the command line of an experiment.
func (p *proving) prove(more ...string) *exec.Cmd {
	args := append([]string{"prove", "--set", "vm.swappiness=10", "--metric", "took=took ([0-9]+)", "--unit", "s", "--seed", "7"}, more...)
	return p.command(append(args, "--", p.work)...)
}

// restored waits until the machine is as it was and the journal has nothing live.
func (p *proving) restored() {
	p.t.Helper()
	await(p.t, "the machine as it was", func() bool {
		text, err := os.ReadFile(filepath.Join(p.machine, "proc/sys/vm/swappiness"))
		if err != nil || strings.TrimSpace(string(text)) != "60" {
			return false
		}
		s, err := journal.Read(filepath.Join(p.machine, "var/lib/fettle"), "")
		if err != nil {
			return os.IsNotExist(err)
		}
		return len(s.Live()) == 0 && len(s.Interrupted()) == 0
	})
}

func (p *proving) runs() evidence.Store {
	return evidence.Store{Dir: filepath.Join(p.machine, "var/lib/fettle/runs")}
}

// TestProveKilled: kill -9 at any point of an experiment leaves the machine as it was,
// the evidence so far valid, and the experiment to be resumed.
func TestProveKilled(t *testing.T) {
	testkitroot.Real(t, "kills some thirty experiments")
	t.Parallel()
	step := 37 // a prime, so that each kind of point has its turn
	if os.Getenv("FETTLE_TEST_NIGHTLY") != "" {
		step = 11
	}
	resumed := 0
	for at := 1; ; at += step {
		p := newProving(t)
		cmd := p.prove("--output", "json")
		cmd.Env = append(cmd.Env, "FETTLE_TEST_KILL_AT="+strconv.Itoa(at))
		out, err := cmd.Output()
		if err == nil {
			if at == 1 || resumed == 0 {
				t.Fatal("nothing was killed")
			}
			t.Logf("%d points, %d experiments resumed", at, resumed)
			p.restored()
			var r evidence.Run
			var e prove.Evidence
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(r.Body, &e); err != nil || e.Word != prove.Better || *e.Effect < 0.07 || *e.Effect > 0.09 {
				t.Errorf("%+v, %v", e.Verdict, err)
			}
			return
		}
		p.restored()
		names, err := p.runs().Unfinished()
		if err != nil || len(names) > 1 {
			t.Fatalf("killed at %d: %v, %v", at, names, err)
		}
		if len(names) == 0 {
			continue // before there was anything to record
		}
		list, err := p.command("runs", "list").CombinedOutput()
		if err != nil || !strings.Contains(string(list), "cut-off") {
			t.Fatalf("killed at %d: %v: %s", at, err, list)
		}
		out, err = p.command("prove", "--resume", "last", "--expect", "faster").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "faster by ") {
			t.Fatalf("killed at %d, resumed: %v: %s", at, err, out)
		}
		resumed++
		p.restored()
		if runs, err := p.runs().All(); err != nil || len(runs) != 1 {
			t.Fatalf("killed at %d: %d runs, %v", at, len(runs), err)
		}
	}
}

// TestProveInterrupted: a signal ends the work at once, and the machine is as it was
// when fettle ends.
func TestProveInterrupted(t *testing.T) {
	t.Parallel()
	cases := []struct {
		signal syscall.Signal
		run    int
	}{{syscall.SIGTERM, 10}, {syscall.SIGINT, 1}, {syscall.SIGHUP, 11}, {syscall.SIGINT, 12}}
	for _, c := range cases[:testkitroot.Sample(len(cases))] {
		p := newProving(t)
		p.hang(c.run)
		cmd := p.prove()
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "the run", func() bool { _, err := os.Stat(p.file("hangs")); return err == nil })
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if cmd.ProcessState.ExitCode() != 130 || !strings.Contains(said.String(), "machine restored") || !strings.Contains(said.String(), "--resume") {
			t.Errorf("%v: %v: %s", c, err, said.String())
		}
		if text, err := os.ReadFile(filepath.Join(p.machine, "proc/sys/vm/swappiness")); err != nil || strings.TrimSpace(string(text)) != "60" {
			t.Errorf("%v: vm.swappiness is %q (%v)", c, text, err)
		}
		p.restored()
		out, err := p.command("runs", "prune", "--cut-off", "--yes").CombinedOutput()
		if names, unread := p.runs().Unfinished(); err != nil || unread != nil || len(names) > 0 || !strings.Contains(string(out), map[bool]string{true: "interrupted before its first block, can be resumed", false: "interrupted, can be resumed"}[c.run == 1]) {
			t.Errorf("%v: %v, %v left: %s", c, err, names, out)
		}
	}
}

// TestProveFaults: what goes wrong with the work is said, and the machine restored.
func TestProveFaults(t *testing.T) {
	t.Parallel()
	untouched := newProving(t) // for calls that are refused before anything is changed
	for name, x := range map[string]struct {
		prepare func(*proving)
		args    []string
		code    int
		says    string
	}{
		"the work fails":       {func(p *proving) { p.touch("fail") }, nil, 1, "the measured work failed without the change: exit status 3: no such table"},
		"the work hangs":       {func(p *proving) { p.hang(1) }, []string{"--timeout", "300ms"}, 1, "did not finish within 300ms"},
		"no such number":       {nil, []string{"--metric", "tps=tps ([0-9]+)"}, 1, "tps does not appear in the command's output"},
		"not a number":         {nil, []string{"--metric", "word=(took)"}, 1, `"took", found by (took), is not a number`},
		"below 0":              {nil, []string{"--percentile", "-5"}, 2, `--percentile "-5": want 0 to 100`},
		"the values are there": {func(p *proving) { p.write("10\n") }, nil, 1, "this machine already has these values"},
		"no such setting":      {nil, []string{"--set", "vm.no_such=1"}, 1, "vm.no_such: unsupported"},
		"--expect not met":     {nil, []string{"--expect", "no-effect"}, 3, "--expect no-effect not met; the verdict is: faster by "},
		"no margin":            {nil, []string{"--margin", "2"}, 2, "want a percentage"},
		"a bad pattern":        {nil, []string{"--metric", "a=("}, 2, "missing closing"},
		"two changes":          {nil, []string{"--change-cmd", "true", "--undo-cmd", "true"}, 2, "want exactly one of"},
		// A run takes 0.1 s and a verdict 22 runs, so no machine has one before.
		"little time":        {func(p *proving) { p.touch("slow") }, []string{"--budget", "1s"}, 0, "ended by budget"},
		"a name for numbers": {nil, []string{"--metric", "instructions=([0-9]+)"}, 2, "must not be time, cpu-time, max-memory, instructions or energy"},
		"no time":            {nil, []string{"--budget", "1ms"}, 2, "want 1s to 168h"},
		"nothing to resume":  {nil, []string{"--resume", "last"}, 2, "--resume continues with the original options; leave out"},
	} {
		t.Run(name, func(t *testing.T) {
			p := untouched
			if x.code != 2 {
				t.Parallel()
				p = newProving(t)
			}
			if x.prepare != nil {
				x.prepare(p)
			}
			out, err := p.prove(x.args...).CombinedOutput()
			code := 0
			if err != nil {
				code = err.(*exec.ExitError).ExitCode()
			}
			if code != x.code || !strings.Contains(string(out), x.says) {
				t.Errorf("exit code %d, want %d:\n%s", code, x.code, out)
			}
			if name != "the values are there" {
				p.restored()
			}
		})
	}
}

func (p *proving) touch(name string) {
	if err := os.WriteFile(p.file(name), nil, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// hang lets the work not end from one of its runs on.
func (p *proving) hang(run int) {
	if err := os.WriteFile(p.file("hang"), []byte(strconv.Itoa(run)), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *proving) write(swappiness string) {
	if err := os.WriteFile(filepath.Join(p.machine, "proc/sys/vm/swappiness"), []byte(swappiness), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// TestProveCommands: a change by two commands, also when fettle is killed.
func TestProveCommands(t *testing.T) {
	testkitroot.Real(t, "waits for what must not go on")
	t.Parallel()
	p := newProving(t)
	place := filepath.Join(p.machine, "proc/sys/vm/swappiness")
	args := []string{"prove", "--change-cmd", "echo 10 >" + place, "--undo-cmd", "echo 60 >" + place, "--metric", "took=took ([0-9]+)", "--unit", "s", "--", p.work}
	out, err := p.command(args...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "faster by ") {
		t.Fatalf("%v: %s", err, out)
	}
	p.restored()
	cmd := p.command(args...)
	p.waiting(cmd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	p.on()
	p.restored()

	// Killed while the change is being made, by a child that would go on; commands of
	// the caller's own directory; an UNDO that fails at first.
	for name, script := range map[string]string{"apply.sh": "while [ ! -e on ]; do sleep 0.1; done; echo 10 >" + place, "undo.sh": "test -e failed || { touch failed; exit 1; }; echo 60 >" + place} {
		if err := os.WriteFile(p.file(name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.touch("failed") // not yet
	args = []string{"prove", "--change-cmd", "echo >begun; ./apply.sh >/dev/null 2>&1; true", "--undo-cmd", "./undo.sh", "--metric", "took=took ([0-9]+)", "--unit", "s", "--", p.work}
	for _, how := range []os.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		cmd := p.command(args...)
		cmd.Dir = filepath.Dir(p.work)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "the change to begin", func() bool { _, err := os.Stat(p.file("begun")); return err == nil })
		if how == syscall.SIGKILL {
			if err := os.Remove(p.file("failed")); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Signal(how); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if how == syscall.SIGKILL {
			await(t, "the second UNDO", func() bool { return tune.Armed(filepath.Join(p.machine, "var/lib/fettle")) == "" })
			if _, err := os.Stat(p.file("failed")); err != nil {
				t.Error("the first UNDO was not made in the caller's directory")
			}
		}
		for _, name := range []string{"apply.sh", "experiment-apply"} {
			await(t, "the end of "+name, func() bool { return exec.Command("pgrep", "-f", p.file(name)).Run() != nil })
		}
		p.touch("on")
		time.Sleep(time.Second) // what runs next to UNDO would be there by now
		if text, err := os.ReadFile(place); err != nil || strings.TrimSpace(string(text)) != "60" {
			t.Errorf("%v: the place is %q (%v)", how, text, err)
		}
		if err := errors.Join(os.Remove(p.file("begun")), os.Remove(p.file("on"))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProveRealTime: real runs of work that takes a tenth less time with the change,
// under injected drift and spikes and whatever else this machine does: the interval
// contains the truth. At 5 % a single experiment may be wrong, so not all of them may.
func TestProveRealTime(t *testing.T) {
	testkitroot.Real(t, "measures real time")
	experiments, mayBeWrong := 3, 2
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		experiments, mayBeWrong = 20, 5 // of 20 at 5 %, more than 5 are wrong once in 3,000
	}
	wrong := 0
	for range experiments {
		p := newProving(t)
		text := fmt.Sprintf(`#!/bin/sh
n=0; [ -e %[1]s/count ] && read n <%[1]s/count; n=$((n+1)); echo $n >%[1]s/count
loops=20000; [ "$(cat %[2]s/proc/sys/vm/swappiness)" = 10 ] && loops=18000
loops=$((loops + loops * n / 2000))               # drift: 0.05 %% a run
[ $((n * n * 7919 %% 97)) -lt 9 ] && loops=$((loops + loops / 4)) # spikes
i=0; while [ $i -lt $loops ]; do i=$((i+1)); done
`, filepath.Dir(p.work), p.machine)
		if err := os.WriteFile(p.work, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := p.command("prove", "--set", "vm.swappiness=10", "--metric", "cpu-time", "--budget", "2m", "--blocks", "25", "--force", "--output", "json", "--", p.work).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		p.restored()
		var r evidence.Run
		var e prove.Evidence
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r.Body, &e); err != nil {
			t.Fatal(err)
		}
		t.Log(e.Text)
		// The start of the shell is part of the time, and does not become shorter.
		if e.Interval != nil && (e.Interval[1] < 0.07 || e.Interval[0] > 0.105) || e.Word == prove.Worse {
			wrong++
		}
	}
	if wrong > mayBeWrong {
		t.Errorf("%d of %d experiments are wrong", wrong, experiments)
	}
}
