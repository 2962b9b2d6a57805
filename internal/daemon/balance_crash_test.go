package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// balanceCrash makes TestBalanceKilled the process that is killed: the machine, the number of the
// process to move, and the point.
const balanceCrash = "FETTLE_TEST_BALANCE_CRASH"

// TestBalanceKilled kills a daemon at every write of a pass, and of its undo by off. Undo then restores
// the CPUs of the process and kernel.numa_balancing, at once and also after another daemon has started,
// which restores kernel.numa_balancing by itself.
func TestBalanceKilled(t *testing.T) {
	if words := strings.Fields(os.Getenv(balanceCrash)); len(words) == 3 {
		balanceAndDie(t, words)
		return
	}
	pid, step, bound, off := startSleeper(t), 1, 0, 0
	if testing.Short() {
		step = 7
	}
	for point := 1; ; point += step {
		n := newNodes(t, pid, "numa_balance=all")
		c := exec.Command(os.Args[0], "-test.run", "^TestBalanceKilled$")
		c.Env = append(os.Environ(), balanceCrash+"="+n.dir+" "+strconv.Itoa(pid)+" "+strconv.Itoa(point))
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if err != nil && !killed {
			t.Fatalf("point %d: %v\n%s", point, err, out)
		}
		if n.bound() != n.all {
			bound++
		}
		if n.read(kernelBalancing) == "0" {
			off++
		}
		if point%2 == 0 { // its configuration is off, so it moves nothing
			n.write(mainConf, "")
			n.in(func(*Daemon) { after(time.Minute) })
			n.want(kernelBalancing, "1")
		}
		m, _ := n.open(t.Context())
		if _, err := m.Engine.Undo(t.Context()); err != nil && !errors.Is(err, tune.ErrNothing) {
			t.Errorf("point %d: %v", point, err)
		}
		n.wantBound("killed at point "+strconv.Itoa(point), n.all)
		if t.Failed() {
			return
		}
		if !killed {
			t.Logf("%d points; the process was bound after %d of %d, kernel.numa_balancing off after %d", point, bound, point/step, off)
			if point < 20 || bound < 2 || off < 2 {
				t.Error("too few points")
			}
			return
		}
	}
}

// balanceAndDie runs a daemon until a point. words are the directory of the machine, the process and
// the point.
func balanceAndDie(t *testing.T, words []string) {
	pid, err := strconv.Atoi(words[1])
	left, err2 := strconv.Atoi(words[2])
	if err != nil || err2 != nil {
		t.Fatal(words)
	}
	n := &nodes{fake: &fake{t: t, dir: words[0], state: filepath.Join(words[0], "state"), clock: &fakeClock{}}, pid: pid}
	n.machine = func(h *host.Host) { h.Sched, h.Clock = host.Live().Sched, host.Live().Clock }
	for i := range n.cpus {
		cpu, err := unit.ParseCPUList(n.read("/sys/devices/system/node/node" + strconv.Itoa(i) + "/cpulist"))
		if err != nil {
			t.Fatal(err)
		}
		n.cpus[i] = cpu.Max()
	}
	n.at = func(string) {
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	n.in(func(d *Daemon) {
		after(10 * time.Second)
		d.Disable(n.t.Context())
	})
}
