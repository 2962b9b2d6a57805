package prove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/fact/power"
	"fettle.dev/fettle/internal/host"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

// mark is unique to this process: fettle kills all processes of the machine with this mark, and
// another process may run the same tests.
var mark = fmt.Sprintf("test-%d", os.Getpid())

func command(script string, metrics ...Printed) *Command {
	return &Command{Args: []string{"/bin/sh", "-c", script}, Metrics: metrics, Clock: wallClock{}, Mark: mark}
}

func printed(name, pattern string, percentile float64) Printed {
	return Printed{Name: name, Number: regexp.MustCompile("(?m)" + pattern), Percentile: percentile}
}

func TestCommand(t *testing.T) {
	for name, x := range map[string]struct {
		command *Command
		metric  string
		want    float64
		says    string
	}{
		"a number":               {command("echo 'tps = 1,234.5 (ok)'", printed("tps", `tps = ([0-9.,]+)`, -1)), "tps", 1234.5, ""},
		"the last of two":        {command("echo took 3; echo took 4", printed("took", `took (\d+)`, -1)), "took", 4, ""},
		"on standard error":      {command("echo took 7 >&2", printed("took", `took (\d+)`, -1)), "took", 7, ""},
		"all of the match":       {command("echo 5e3", printed("n", `^[0-9e]+$`, -1)), "n", 5000, ""},
		"a percentile":           {command("seq 1 101", printed("p90", `^(\d+)$`, 90)), "p90", 91, ""},
		"the time":               {command("sleep 0.05"), "time", 0.05, ""},
		"the time of processors": {command("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"), "cpu-time", 1e-6, ""},
		"a decimal comma":        {command("echo 0,9", printed("n", `([0-9,]+)`, -1)), "", 0, `"0,9", found by`},
		"infinite":               {command("echo inf", printed("n", `(inf)`, -1)), "", 0, "is not a number"},
		"nothing printed":        {command("true", printed("n", `(\d+)`, -1)), "", 0, "n does not appear"},
		"it fails":               {command("echo no such table >&2; exit 3"), "", 0, "exit status 3: no such table"},
		"killed":                 {command("kill -9 $$"), "", 0, "signal: killed"},
		"no such program":        {&Command{Args: []string{"/no/such"}, Clock: wallClock{}, Mark: mark}, "", 0, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := x.command.Measure(t.Context(), Step{})
			if x.says != "" {
				if err == nil || !strings.Contains(err.Error(), x.says) {
					t.Fatalf("%v, want %q", err, x.says)
				}
				return
			}
			got := m.Values[x.metric]
			exact := len(x.command.Metrics) > 0
			if err != nil || exact && got != x.want || !exact && got < x.want { // at least: a machine may be slow, or fast
				t.Errorf("%s is %v, want %v (%v)", x.metric, got, x.want, err)
			}
			if p := x.command.Metrics; len(p) > 0 && p[0].Percentile > 0 {
				if m.Within == nil || m.Within.N != 101 || m.Within.Mean != 51 || math.Abs(m.Within.SD-29.3) > 0.01 {
					t.Errorf("within the sample: %+v", m.Within)
				}
			} else if m.Within != nil {
				t.Errorf("within the sample: %+v", m.Within)
			}
		})
	}
}

// TestCommandWithoutStarter tests that metrics that need the starter are refused without it.
func TestCommandWithoutStarter(t *testing.T) {
	ballast := make([]byte, 64<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	defer runtime.KeepAlive(ballast)
	var self syscall.Rusage // of this process, whatever other tests have taken before
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		t.Fatal(err)
	}
	more := (self.Maxrss+self.Maxrss/4)>>10 + 64 // MiB: peakOf's floor is an eighth above this process
	for script, says := range map[string]string{
		":": "cannot measure max-memory below fettle's own memory (",
		fmt.Sprintf("dd if=/dev/zero of=/dev/null bs=%dM count=1 2>/dev/null; :", more): "",
	} {
		cmd := exec.Command("/bin/sh", "-c", script)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		got, err := peakOf(nil, cmd)
		switch {
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%d bytes, %v, want %q", got, err, says)
		case says == "" && (err != nil || int64(got) < more<<20):
			t.Errorf("%d bytes, %v", got, err)
		}
	}
}

// TestCommandEnds tests that the end of a sample, for any reason, kills all processes that the sample
// started. These tests do not run in parallel, because the end of a sample kills every process
// started in the meantime.
func TestCommandEnds(t *testing.T) {
	dir := t.TempDir()
	child := filepath.Join(dir, "child")
	for _, memory := range []bool{false, true} {
		testCommandEnds(t, child, memory)
	}
}

// timesOut runs work with increasing timeouts until the work has written a file before it was
// killed, and returns the content of the file.
func timesOut(t *testing.T, c *Command, file string) string {
	t.Helper()
	for c.Timeout = 50 * time.Millisecond; ; c.Timeout *= 2 {
		if _, err := c.Measure(t.Context(), Step{}); err == nil || !strings.Contains(err.Error(), "did not finish within "+c.Timeout.String()) {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err == nil && strings.HasSuffix(string(text), "\n") {
			return strings.TrimSpace(string(text))
		}
	}
}

func testCommandEnds(t *testing.T, child string, memory bool) {
	c := command("sleep 1000 & echo $! >" + child + "; wait")
	c.Memory = memory
	gone := func() {
		t.Helper()
		pid, err := os.ReadFile(child)
		if err != nil {
			t.Fatal(err)
		}
		status := "/proc/" + strings.TrimSpace(string(pid)) + "/stat"
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			text, err := os.ReadFile(status)
			if err != nil || strings.Contains(string(text), ") Z ") {
				return
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("process %s is left", pid)
			}
		}
	}
	timesOut(t, c, child)
	gone()
	if err := os.Remove(child); err != nil {
		t.Fatal(err)
	}
	c.Timeout = 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		root.Eventually(time.Minute, func() bool { text, _ := os.ReadFile(child); return strings.HasSuffix(string(text), "\n") })
	}()
	if _, err := c.Measure(ctx, Step{}); err == nil {
		t.Error("interrupted, and no error")
	}
	gone()
	c = command("sleep 1000 >/dev/null 2>&1 & echo $! >" + child)
	c.Memory = memory
	if _, err := c.Measure(t.Context(), Step{}); err != nil {
		t.Error(err)
	}
	gone()
}

func TestCommandPrintsTooMuch(t *testing.T) {
	if _, err := command("yes 1 | head -c 80000000", printed("n", `(\d)`, -1)).Measure(t.Context(), Step{}); err == nil || !strings.Contains(err.Error(), "reduce its output") {
		t.Error(err)
	}
}

func TestCommandsAsChange(t *testing.T) {
	place := filepath.Join(t.TempDir(), "place")
	applying := 0
	c := &Commands{ApplyWith: "echo b >" + place, UndoWith: "echo a >" + place, Timeout: time.Minute,
		Applying: func(bool) error { applying++; return nil }, End: func(string) error { return nil }}
	for _, step := range []struct {
		do   func(context.Context) error
		want string
	}{{c.Apply, "b"}, {c.Undo, "a"}} {
		if err := step.do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(place); err != nil || strings.TrimSpace(string(text)) != step.want {
			t.Errorf("%s, %v, want %s", text, err, step.want)
		}
	}
	if applying != 2 {
		t.Errorf("told %d times that it applies", applying)
	}
	c.UndoWith = "echo there is no way back >&2; exit 9"
	if err := c.Undo(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 9: there is no way back") {
		t.Error(err)
	}
	// One that hangs is ended, with what it has started, and the experiment with it.
	c.Timeout, c.ApplyWith = 200*time.Millisecond, "sleep 1000; true"
	if err := c.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "sleep 1000; true: did not finish within 200ms") {
		t.Error(err)
	}
}

// TestCounters tests that the machine's counters exist and do not decrease.
func TestCounters(t *testing.T) {
	m := &Machine{Host: host.Live()}
	if err := m.Begin(); err != nil {
		t.Fatal(err)
	}
	moved, err := m.End()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu.user_s", "context_switches", "vmstat.pgfault"} {
		if _, there := moved[name]; !there {
			t.Errorf("no %s", name)
		}
	}
	for name, v := range moved {
		if v < 0 && name != "cpu.iowait_s" { // which proc(5) says may decrease
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestUnfit(t *testing.T) {
	quiet := Values{"cpu.user_s": 10, "cpu.idle_s": 100, "cpu.steal_s": 1, "pressure.cpu.some_s": 5, "vmstat.pswpin": 3, "vmstat.pswpout": 4}
	for name, x := range map[string]struct {
		change Values
		says   string
	}{
		"nothing":    {Values{"cpu.idle_s": 105.9}, ""},
		"steal":      {Values{"cpu.idle_s": 103, "cpu.steal_s": 1.5}, "steal"},
		"other work": {Values{"cpu.user_s": 15, "pressure.cpu.some_s": 7}, "a task waits for a CPU"},
		"swap":       {Values{"vmstat.pswpin": 50}, "swaps (47 pages)"},
	} {
		ended := Values{}
		maps.Copy(ended, quiet)
		maps.Copy(ended, x.change)
		got := strings.Join(Unfit(emptyHost(t), quiet, ended, 3), "; ")
		if (x.says == "") != (got == "") || !strings.Contains(got, x.says) {
			t.Errorf("%s: %q, want %q", name, got, x.says)
		}
	}
}

// TestCheckHere: a program in the working directory, of this process or of the work, is found there.
func TestCheckHere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bench"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	elsewhere := &Command{Args: []string{"./bench"}, Dir: dir}
	if err := elsewhere.Check(t.Context()); err != nil {
		t.Error(err)
	}
	t.Chdir(dir)
	here := &Command{Args: []string{"./bench"}}
	if err := here.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUnfitOnBattery: a second battery may be the one in use.
func TestUnfitOnBattery(t *testing.T) {
	h := testkitmachine.Mounted(t, map[string]string{"/sys/class/power_supply/BAT0/status": "Not charging\n", "/sys/class/power_supply/BAT1/status": "Discharging\n"})
	if got := Unfit(h, Values{}, Values{}, 3); len(got) != 1 || got[0] != "the machine runs on battery" {
		t.Error(got)
	}
}

func emptyHost(t *testing.T) *host.Host {
	h, err := host.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestCommandEndsAll tests that all processes of the work are killed, also those in their own
// session and without its environment.
func TestCommandEndsAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	c := &Command{Args: []string{"sh", "-c", "setsid env -i sh -c 'echo $$ >" + file + "; exec sleep 1000' </dev/null >/dev/null 2>&1 & sleep 1000"}, Clock: wallClock{}, Mark: mark}
	pid := timesOut(t, c, file)
	if _, err := os.Stat("/proc/" + pid); err == nil {
		t.Errorf("process %s goes on", pid)
	}
}

// TestCommandEnergy tests the energy of a run from a counter that overflows during the command. It
// also tests that a counter that does not advance is an error, not 0 J.
func TestCommandEnergy(t *testing.T) {
	const zone = "/sys/class/powercap/intel-rapl:0/"
	h := testkitmachine.Mounted(t, map[string]string{zone + "name": "package-0\n", zone + "energy_uj": "9000000\n", zone + "max_energy_range_uj": "10000000\n"})
	c := command("echo 2500000 > " + h.Name + zone + "energy_uj")
	c.Energy = power.OpenEnergy(h)
	if m, err := c.Measure(t.Context(), Step{}); err != nil || m.Values["energy"] != 3.5 {
		t.Errorf("%v J, want 3.5; %v", m.Values["energy"], err)
	}
	if _, err := c.Measure(t.Context(), Step{}); err == nil || !strings.Contains(err.Error(), "did not change") {
		t.Errorf("a counter that does not advance: %v", err)
	}
}

// TestCommandLate tests that the reason for the time limit is reported.
func TestCommandLate(t *testing.T) {
	c := command("sleep 60")
	c.Timeout, c.Late = 50*time.Millisecond, errors.New("longer than the budget")
	if _, err := c.Measure(t.Context(), Step{}); err == nil || err.Error() != "longer than the budget" {
		t.Error(err)
	}
}

// TestCommandInstructions tests that the instructions of a command are counted, or that the machine is
// reported to lack the counter.
func TestCommandInstructions(t *testing.T) {
	c := command("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
	c.Instructions = true
	m, err := c.Measure(t.Context(), Step{})
	if err == nil && m.Values["instructions"] < 1e6 || err != nil && !strings.HasPrefix(err.Error(), "cannot count instructions: ") {
		t.Error(m.Values, err)
	}
}
