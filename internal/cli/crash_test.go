package cli

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// crashProfiles are the profiles of the crash matrix.
var crashProfiles = []string{"throughput-performance", "latency-performance", "network-latency", "postgresql", "openshift-node", "hugepages"}

// run runs fettle as a process of its own, killed at a crash point if killAt is
// positive, and says whether it was.
func run(t *testing.T, killAt int, args ...string) (killed bool, out string) {
	t.Helper()
	cmd := fettleCommand(t, args...)
	if killAt > 0 {
		cmd.Env = append(os.Environ(), "FETTLE_TEST_KILL_AT="+strconv.Itoa(killAt))
	}
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		st := exit.Sys().(syscall.WaitStatus)
		if st.Signaled() && st.Signal() == syscall.SIGKILL {
			return true, buf.String()
		}
		if code := st.ExitStatus(); code != 0 && code != 7 {
			t.Fatalf("fettle %s: exit %d\n%s", strings.Join(args, " "), code, buf.String())
		}
		return false, buf.String()
	}
	if err != nil {
		t.Fatal(err)
	}
	return false, buf.String()
}

// binDir has this test binary under the name fettle, which is how testscript
// starts commands.
func binDir(t *testing.T) string {
	t.Helper()
	for _, d := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(d, "fettle")); err == nil && strings.Contains(d, "testscript") {
			return d
		}
	}
	t.Fatal("testscript has not put fettle on PATH")
	return ""
}

// fettleCommand is a call of the program under test, which ends with the tests, also if they are
// killed: some calls would never end.
func fettleCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(filepath.Join(binDir(t), "fettle"), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// The crash matrix: kill -9 at every write and at every journal operation of a
// tune, of a switch and of an undo, on the live kernel; each time undo leads
// back to where the machine was.
func TestCrashMatrix(t *testing.T) {
	testkitroot.Untuned(t)
	profiles := crashProfiles
	if testing.Short() {
		profiles = profiles[:1]
	}
	before := testkitroot.Settings()
	if len(before) < 500 {
		t.Fatalf("only %d writable values found", len(before))
	}
	for i, p := range profiles {
		t.Run(p, func(t *testing.T) {
			other := crashProfiles[(i+1)%len(crashProfiles)]
			for _, c := range []struct {
				name  string
				setUp [][]string
				cut   []string
			}{
				{"tune", nil, []string{"tune", p}},
				{"switch", [][]string{{"tune", other}}, []string{"tune", p}},
				{"undo", [][]string{{"tune", p}}, []string{"undo"}},
				{"undo of a switch", [][]string{{"tune", other}, {"tune", p}}, []string{"undo", "2"}},
			} {
				if i > 0 && c.setUp != nil && os.Getenv("FETTLE_TEST_NIGHTLY") != "1" {
					continue // the slow part of the matrix
				}
				t.Run(c.name, func(t *testing.T) {
					points := 0
					var watch testkitroot.Tree
					for n := 1; ; n++ {
						state := []string{"--state-dir", filepath.Join(t.TempDir(), "state")}
						for _, args := range c.setUp {
							run(t, 0, append(args, state...)...)
						}
						if watch == nil {
							// What the commands touch at all, found once in full, is
							// what is compared each time.
							watch = before.Changed(testkitroot.Settings())
							run(t, 0, append(slices.Clone(c.cut), state...)...)
							maps.Copy(watch, before.Changed(testkitroot.Settings()))
							if len(watch) == 0 {
								t.Fatal("nothing is changed, so nothing would be tested")
							}
							run(t, 0, append([]string{"undo"}, state...)...)
							n--
							continue
						}
						killed, _ := run(t, n, append(slices.Clone(c.cut), state...)...)
						run(t, 0, append([]string{"undo"}, state...)...)
						if d := watch.Differences(watch.Reread()); len(d) > 0 {
							t.Fatalf("killed at point %d: not restored:\n%s", n, strings.Join(d, "\n"))
						}
						if !killed {
							break
						}
						points++
					}
					if d := before.Differences(testkitroot.Settings()); len(d) > 0 {
						t.Errorf("at the end, not restored:\n%s", strings.Join(d, "\n"))
					}
					if points < 8 {
						t.Errorf("only %d crash points", points)
					}
					t.Logf("%d crash points, %d values watched", points, len(watch))
				})
			}
		})
	}
}

// A trial is undone by its watchdog when the process that began it is killed,
// at whatever point, and nothing else is done.
func TestTrialSurvivesKill(t *testing.T) {
	testkitroot.Untuned(t)
	before := testkitroot.Settings()
	for _, n := range []int{2, 8, 14, 20, 1000} {
		state := filepath.Join(t.TempDir(), "state")
		run(t, n, "tune", "throughput-performance", "--try", "1s", "--state-dir", state)
		var d []string
		if !testkitroot.Eventually(2*time.Minute, func() bool { d = before.Differences(testkitroot.Settings()); return len(d) == 0 }) {
			t.Fatalf("killed at point %d: not restored:\n%s", n, strings.Join(d, "\n"))
		}
	}
}

// TestPartialTrial: a trial whose values are applied in part says that it is one; where no value
// was written, none is said to be in force.
func TestPartialTrial(t *testing.T) {
	testkitroot.Untuned(t)
	before := testkitroot.Settings()
	state := filepath.Join(t.TempDir(), "state")
	_, out := run(t, 0, "tune", "--set", "vm.swappiness=10", "--set", "vm.dirty_ratio=500", "--try", "10m", "--state-dir", state)
	if !strings.Contains(out, "1 of 2 values were rejected") || !strings.Contains(out, "on trial until") || !strings.Contains(out, "the other values are in force") {
		t.Errorf("a trial in part:\n%s", out)
	}
	run(t, 0, "undo", "--state-dir", state)
	_, out = run(t, 0, "tune", "--set", "vm.swappiness=61", "--set", "vm.dirty_ratio=500", "--state-dir", state)
	if !strings.Contains(out, "1 of 2 values were rejected") || strings.Contains(out, "values are in force") {
		t.Errorf("nothing is written:\n%s", out)
	}
	run(t, 0, "undo", "--state-dir", state)
	if d := before.Differences(testkitroot.Settings()); len(d) > 0 {
		t.Error(d)
	}
}
