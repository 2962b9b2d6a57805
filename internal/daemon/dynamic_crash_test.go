package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
)

// The variables by which TestCrashWhileFollowing runs itself as the process that
// is killed: the machine, and at which point.
const (
	crashMachine = "FETTLE_TEST_CRASH_MACHINE"
	crashAt      = "FETTLE_TEST_CRASH_AT"
)

// TestCrashWhileFollowing kills a daemon at each point at which something could
// be left half done, from the selection until the clock has followed the load up
// and down: undo gives back what was there before, at once and also where another
// daemon has begun to follow in between. The journal does not grow meanwhile.
func TestCrashWhileFollowing(t *testing.T) {
	if dir := os.Getenv(crashMachine); dir != "" {
		at, err := strconv.Atoi(os.Getenv(crashAt))
		if err != nil {
			t.Fatal(err)
		}
		followAndDie(t, dir, at)
		return
	}
	middle := 0
	for n := 1; ; n++ {
		f := newFake(t, map[string]string{
			mainConf:                     "dynamic_tuning=1",
			"/etc/tuned/load/tuned.conf": "[sysctl]\nvm.swappiness=10\n[eeepc_she]",
			"/proc/loadavg":              "0.50 0 0 1/1 1",
			cpufv:                        "0x300",
		})
		c := exec.Command(os.Args[0], "-test.run", "^TestCrashWhileFollowing$")
		c.Env = append(os.Environ(), crashMachine+"="+f.dir, crashAt+"="+strconv.Itoa(n))
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("point %d: %v\n%s", n, err, out)
		}
		if left := f.read(cpufv); left == "1" || left == "2" {
			middle++
		}
		if n%2 == 0 { // another daemon comes, and is killed at another level
			d := f.start(Config{})
			f.write("/proc/loadavg", "9.00 0 0 1/1 1")
			d.tick(t.Context())
			d.alive.Close()
		}
		m, _ := f.open(t.Context())
		if _, err := m.Engine.Undo(t.Context()); err != nil && !errors.Is(err, tune.ErrNothing) {
			t.Errorf("point %d: %v", n, err)
		}
		if v, err := m.Kinds.Read(t.Context(), clockPlace); err != nil || v.Text != "0" {
			t.Errorf("point %d: the clock is %s (%v) after undo, want 0\n%s", n, v, err, f.log.String())
		}
		f.want(swappiness, "60")
		if err == nil {
			t.Logf("%d points, at %d of them the clock was at a level", n-1, middle)
			if n < 30 || middle < 6 {
				t.Errorf("too few points")
			}
			return
		}
	}
}

// followAndDie selects, follows the load, and dies at a point. It is a process of
// its own.
func followAndDie(t *testing.T, dir string, at int) {
	f := &fake{t: t, dir: dir, state: filepath.Join(dir, "state"), clock: &fakeClock{now: time.Now()}}
	f.at = func(string) {
		if at--; at == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	f.tune("load", nil)
	d := f.start(Config{})
	for _, load := range []string{"0.00", "9.00", "0.00", "0.50", "9.00"} {
		f.write("/proc/loadavg", load+" 0 0 1/1 1")
		d.tick(t.Context())
	}
}
