package daemon

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/unit"
)

// nodes is a machine of two made-up NUMA nodes with a CPU of this machine each, and a real process
// whose memory is said to be on node 1, while it runs on the CPU of node 0.
type nodes struct {
	*fake
	pid   int
	cpus  [2]int
	all   string      // the CPUs that the process may use before a move
	ticks int         // CPU time that the process is said to have used
	idle  atomic.Bool // it uses none
	mu    sync.Mutex  // guards next
	// opened is how often the daemon has opened the machine.
	opened atomic.Int64
	next   []time.Duration
}

const kernelBalancing = "/proc/sys/kernel/numa_balancing"

// startSleeper starts a process that does nothing.
func startSleeper(t *testing.T) int {
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c.Process.Pid
}

func newNodes(t *testing.T, pid int, config string) *nodes {
	t.Helper()
	root.Undisturbed(t) // the quiet state of another test binds each process of this machine
	task, err := host.Live().Sched.Task(pid)
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := host.Live().Sched.Affinity(task.TaskID)
	if err != nil || cpus.Len() < 2 {
		root.Missing(t, "needs two CPUs")
	}
	n := &nodes{fake: newFake(t, map[string]string{
		mainConf: config, kernelBalancing: "1", "/proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0",
	}), pid: pid, cpus: [2]int(cpus.Numbers()[:2]), all: cpus.String()}
	n.machine = func(h *host.Host) { h.Sched, h.Clock = host.Live().Sched, host.Live().Clock }
	for i, c := range n.cpus {
		dir := fmt.Sprintf("/sys/devices/system/node/node%d/", i)
		n.write(dir+"cpulist", fmt.Sprint(c))
		n.write(dir+"distance", []string{"10 20", "20 10"}[i])
		n.write(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 2097152 kB\nNode %[1]d MemFree: 1048576 kB", i))
		n.write(dir+"numastat", "numa_hit 1\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 1\nother_node 0")
	}
	n.write("/proc/stat", fmt.Sprintf("cpu  0 0 0 0 0 0 0 0 0 0\ncpu%d 0 0 0 0 0 0 0 0 0 0\ncpu%d 0 0 0 0 0 0 0 0 0 0", n.cpus[0], n.cpus[1]))
	n.works(task.TaskID)
	return n
}

// works makes the process use a CPU: its counters rise with each look.
func (n *nodes) works(id host.TaskID) {
	n.t.Helper()
	cpus, err := host.Live().Sched.Affinity(id)
	if err != nil {
		n.t.Fatal(err)
	}
	if !n.idle.Load() {
		n.ticks += 1000
	}
	dir := fmt.Sprintf("/proc/%d/", n.pid)
	stat := fmt.Sprintf("%d (db) S 1 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 %d 500000000 102400 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 %d 0 0 0 0 0", n.pid, n.ticks, id.Start, n.cpus[0])
	n.write(dir+"stat", stat)
	n.write(dir+fmt.Sprintf("task/%d/stat", n.pid), stat)
	n.write(dir+fmt.Sprintf("task/%d/schedstat", n.pid), "1 1 1")
	n.write(dir+"status", fmt.Sprintf("Name:\tdb\nVmRSS:\t409600 kB\nCpus_allowed_list:\t%s\nMems_allowed_list:\t0-1", cpus))
	n.write(dir+"cgroup", "0::/system.slice/db.service")
	n.write(dir+"cmdline", "db")
	n.write(dir+"numa_maps", "7f0000000000 default anon=102400 N1=102400 kernelpagesize_kB=4")
	n.write(dir+"maps", "7f0000000000-7f0019000000 rw-p 00000000 00:00 0")
}

// bound returns the CPUs that the process may use.
func (n *nodes) bound() string {
	n.t.Helper()
	task, err := host.Live().Sched.Task(n.pid)
	if err != nil {
		n.t.Fatal(err)
	}
	cpus, err := host.Live().Sched.Affinity(task.TaskID)
	if err != nil {
		n.t.Fatal(err)
	}
	return cpus.String()
}

func (n *nodes) wantBound(when, cpus string) {
	n.t.Helper()
	if got := n.bound(); got != cpus {
		n.t.Errorf("%s: the process may use CPUs %s, want %s\n%s", when, got, cpus, n.log.String())
	}
	n.want(kernelBalancing, "1")
}

// intervals returns the times to the next passes since its last call.
func (n *nodes) intervals() []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.next
	n.next = nil
	return all
}

// run starts a daemon whose loop has only the timer of numa_balance.
func (n *nodes) run(ctx context.Context) *Daemon {
	n.t.Helper()
	d := New(Config{Open: func(ctx context.Context) (*Machine, error) { n.opened.Add(1); return n.open(ctx) }, Log: &n.log})
	m, err := d.open(ctx)
	if err != nil {
		n.t.Fatal(err)
	}
	passes, next := timer()
	d.next = func(after time.Duration) {
		n.mu.Lock()
		n.next = append(n.next, after)
		n.mu.Unlock()
		task, _ := host.Live().Sched.Task(n.pid)
		n.works(task.TaskID) // before the next look
		next(after)
	}
	d.experiment = func() *tune.Leaseholder { return tune.Holder(n.state) }
	if err := d.begin(ctx, m); err != nil {
		n.t.Fatal(err)
	}
	d.mu.Lock()
	d.restartBalance()
	d.mu.Unlock()
	go d.loop(ctx, &events{balance: passes})
	return d
}

func (n *nodes) remove(p string) {
	if err := os.RemoveAll(filepath.Join(n.dir, p)); err != nil {
		n.t.Fatal(err)
	}
}

// hold takes a lock of the state directory as another process would.
func (n *nodes) hold(lock func(stateDir string) (*os.File, error)) {
	if err := journal.Prepare(n.state); err != nil {
		n.t.Fatal(err)
	}
	f, err := lock(n.state)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { f.Close() })
}

// in runs a test with made-up time.
func (n *nodes) in(test func(d *Daemon)) {
	outer := n.t
	defer func() { n.t = outer }()
	synctest.Test(n.t, func(t *testing.T) {
		n.t = t
		ctx, end := context.WithCancel(context.Background())
		d := n.run(ctx)
		test(d)
		end()
		synctest.Wait()
		if d.alive != nil {
			d.alive.Close()
		}
		if d.deadline != nil {
			d.deadline.Stop()
		}
	})
}

// after lets time pass, and the passes in it end.
func after(passed time.Duration) { time.Sleep(passed); synctest.Wait() }

// TestBalance: the daemon moves a process to the node of its memory, and adapts its interval. Off
// restores the process and ends the passes; a move that a user has undone is not repeated.
func TestBalance(t *testing.T) {
	n := newNodes(t, startSleeper(t), "numa_balance=all")
	there := fmt.Sprint(n.cpus[1])
	n.in(func(d *Daemon) {
		after(4 * time.Second)
		n.wantBound("before the first pass", n.all)
		after(6 * time.Second)
		n.wantBound("after the first pass", there)
		for _, want := range []string{"numa_balance: on: all processes, every 5s to 15s\n", fmt.Sprintf("numa_balance: db (%d) to nodes 1: moved, 0 %% local before", n.pid)} {
			if !strings.Contains(n.log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, n.log.String())
			}
		}
		n.intervals()
		after(2 * time.Minute)
		got, want := n.intervals(), []time.Duration{10 * time.Second, 15 * time.Second, 15 * time.Second}
		if len(got) < 3 || !slices.Equal(got[:3], want) {
			t.Errorf("the next passes are after %v, want %v", got, want)
		}
		n.wantBound("later", there)

		if !d.Disable(n.t.Context()) {
			t.Errorf("off: %s", n.log.String())
		}
		n.wantBound("off", n.all)
		n.intervals()
		after(10 * time.Minute)
		n.wantBound("off", n.all)
		if got := n.intervals(); len(got) > 0 {
			t.Errorf("passes after off: %v", got)
		}
		d.Start(n.t.Context())
		after(time.Minute)
		n.wantBound("started again", there)

		n.undo()
		after(10 * time.Minute)
		n.wantBound("undone by a user", n.all)
	})
}

// TestBalanceQuiet: while no process may move, passes do not open the machine. Later ones move.
func TestBalanceQuiet(t *testing.T) {
	n := newNodes(t, startSleeper(t), "numa_balance=all")
	n.idle.Store(true)
	n.in(func(*Daemon) {
		after(time.Second)
		n.intervals()
		opened := n.opened.Load()
		after(time.Minute)
		if got, want := n.intervals(), []time.Duration{10 * time.Second, 15 * time.Second, 15 * time.Second, 15 * time.Second, 15 * time.Second}; !slices.Equal(got, want) || n.opened.Load() != opened {
			t.Errorf("the next passes are after %v, want %v; opened the machine %d times, %d times before", got, want, n.opened.Load(), opened)
		}
		n.wantBound("idle", n.all)
		n.idle.Store(false)
		after(time.Minute)
		n.wantBound("busy", fmt.Sprint(n.cpus[1]))
	})
}

// TestBalanceLeaves: without a reason to move, or with one not to, nothing is moved, and nothing is
// written.
func TestBalanceLeaves(t *testing.T) {
	pid := startSleeper(t)
	for name, c := range map[string]struct {
		config string
		before func(n *nodes)
		log    string
	}{
		"off":          {"", nil, ""},
		"excluded":     {"numa_balance=all\nnuma_balance_exclude=db", nil, "on: all processes"},
		"not running":  {"numa_balance=other, another.service", nil, "on: other, another.service"},
		"pressure":     {"numa_balance=all", func(n *nodes) { n.write("/proc/pressure/memory", "some avg10=12.00 avg60=0.00 total=1") }, "memory pressure: 12 % of the last 10 s, limit 10 %"},
		"one node":     {"numa_balance=all", func(n *nodes) { n.remove("/sys/devices/system/node/node1") }, "nothing to do: this machine has 1 NUMA node"},
		"another pass": {"numa_balance=all", func(n *nodes) { n.hold(tune.Pass) }, "another pass moves processes between NUMA nodes"},
		"experiment":   {"numa_balance=all", func(n *nodes) { n.hold(func(dir string) (*os.File, error) { return tune.Lease(dir, "quiet") }) }, "fettle quiet is running"},
		"another tuner": {"numa_balance=all", func(n *nodes) {
			n.write("/usr/lib/systemd/system/numad.service", "[Service]")
			n.link("/etc/systemd/system/multi-user.target.wants/numad.service", "/usr/lib/systemd/system/numad.service")
		}, "nothing moved: numad sets NUMA placement"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNodes(t, pid, c.config)
			if c.before != nil {
				c.before(n)
			}
			n.in(func(*Daemon) { after(20 * time.Second) })
			n.wantBound(name, n.all)
			if len(n.journal().Txs) > 0 {
				t.Error("transactions were made")
			}
			if log := n.log.String(); strings.Count(log, "numa_balance: ") > 2 || c.log == "" && strings.Contains(log, "numa_balance") || !strings.Contains(log, c.log) {
				t.Errorf("want once %q:\n%s", c.log, log)
			}
			if timers := n.intervals(); (c.config == "" || name == "one node") && len(timers) > 1 {
				t.Errorf("timers: %v", timers)
			}
		})
	}
}

// TestBalanceReload: a wrong line is refused with its place, and passes go on once it is corrected.
func TestBalanceReload(t *testing.T) {
	n := newNodes(t, startSleeper(t), "numa_balance=nothing")
	n.in(func(d *Daemon) {
		after(time.Minute)
		n.write(mainConf, "daemon=1\nnuma_balance=yes")
		after(time.Minute)
		if d.Reload(n.t.Context()); !strings.Contains(n.log.String(), mainConf+":2: numa_balance=yes: expected all, or a list") {
			t.Errorf("the log: %s", n.log.String())
		}
		n.intervals()
		after(time.Minute)
		if got := n.intervals(); len(got) > 0 {
			t.Errorf("passes with a wrong configuration: %v", got)
		}
		n.write(mainConf, "numa_balance=db.service\nnuma_balance_interval=20")
		d.Reload(n.t.Context())
		after(time.Minute)
		n.wantBound("corrected", fmt.Sprint(n.cpus[1]))
		n.write(mainConf, "")
		d.Reload(n.t.Context())
		n.intervals()
		after(time.Minute)
		if got := n.intervals(); len(got) > 0 {
			t.Errorf("passes after it was turned off: %v", got)
		}
		n.wantBound("turned off", fmt.Sprint(n.cpus[1]))
	})
}

// TestBalanceRepinned: CPUs that an administrator sets after a move stay.
func TestBalanceRepinned(t *testing.T) {
	n := newNodes(t, startSleeper(t), "numa_balance=all")
	n.in(func(*Daemon) {
		after(10 * time.Second)
		n.wantBound("moved", fmt.Sprint(n.cpus[1]))
		task, err := host.Live().Sched.Task(n.pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := host.Live().Sched.SetAffinity(task.TaskID, unit.CPUs(n.cpus[0])); err != nil {
			t.Fatal(err)
		}
		after(10 * time.Minute)
		n.wantBound("bound by an administrator", fmt.Sprint(n.cpus[0]))
	})
}
