package slow

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/root"
)

// cgroup creates a cgroup of version 1 and sets its files. It skips the test without the
// controller.
func cgroup(t *testing.T, controller, name string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup", controller, "fettle-test-"+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		root.Missing(t, "no cgroups of version 1 with the controller %s: %v", controller, err)
	}
	t.Cleanup(func() {
		root.Eventually(10*time.Second, func() bool { return os.Remove(dir) == nil })
	})
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			root.Missing(t, "%s: %v", file, err)
		}
	}
	return dir
}

// work runs a shell script a number of times in cgroups, until the test ends.
func work(t *testing.T, n int, script string, cgroups ...string) {
	t.Helper()
	enter := ""
	for _, dir := range cgroups {
		enter += "echo $$ >" + dir + "/cgroup.procs || exit 1; "
	}
	for range n {
		cmd := exec.Command("/bin/sh", "-c", enter+"echo; "+script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		started, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		})
		if _, err := started.Read(make([]byte, 1)); err != nil {
			t.Fatalf("a worker does not start: %v", err)
		}
	}
}

const burn = "while :; do :; done"

// until samples this machine while a load holds, at least for a second and until done.
func until(t *testing.T, done func() bool) *Diagnosis {
	t.Helper()
	begun := activity.Begin(host.Live())
	time.Sleep(time.Second)
	if !root.Eventually(time.Minute, done) {
		t.Error("the load has no effect")
	}
	d := Diagnose(begun.End())
	t.Log(d.Headline.Lines[0])
	t.Log(strings.Join(d.Lines(), "\n"))
	return d
}

// find returns a cause.
func (d *Diagnosis) find(t *testing.T, id string) Cause {
	t.Helper()
	for _, c := range d.Causes {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("%s is not among the causes: %+v", id, d.Causes)
	return Cause{}
}

// stat returns a number of a file of a cgroup.
func stat(t *testing.T, file, name string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if w := strings.Fields(line); len(w) == 2 && w[0] == name {
			n, err := strconv.Atoi(w[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %s", file, name)
	return 0
}

// A neighbor with nearly all shares of the CPUs makes the many tasks of another cgroup wait. Both
// are named, whatever else runs on this machine.
func TestBusyNeighbor(t *testing.T) {
	root.Disposable(t)
	neighbor := cgroup(t, "cpu", "neighbor", map[string]string{"cpu.shares": "262144"})
	victim := cgroup(t, "cpu", "victim", nil)
	work(t, 40, burn, victim)
	work(t, 4, burn, neighbor)
	d := until(t, func() bool { return true })
	if c := d.find(t, "cpu"); !c.Reason {
		t.Errorf("%+v", c)
	}
	who := map[string]string{}
	for _, r := range roles(d.Sample, cpu) {
		who[r.Role] = r.Group.Cgroup
	}
	if who["uses"] != "/fettle-test-neighbor" || who["waits"] != "/fettle-test-victim" {
		t.Errorf("%v", who)
	}
	if v, known := value(d.Sample, "run_queue_waiting_tasks"); !known || amount(v) < 20 {
		t.Errorf("run queues: %+v", v)
	}
}

func TestThrottled(t *testing.T) {
	root.Disposable(t)
	dir := cgroup(t, "cpu", "throttled", map[string]string{"cpu.shares": "262144", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "10000"})
	work(t, 2, burn, dir)
	before := stat(t, dir+"/cpu.stat", "nr_throttled")
	d := until(t, func() bool { return stat(t, dir+"/cpu.stat", "nr_throttled") > before+5 })
	if c := d.find(t, "cpu-throttled"); !c.Reason || c.Item != "/fettle-test-throttled" {
		t.Errorf("%+v", c)
	}
}

// A cgroup that reads again and again what its memory does not hold.
func TestMemoryPressure(t *testing.T) {
	root.Disposable(t)
	dir := cgroup(t, "memory", "memory", map[string]string{"memory.limit_in_bytes": "8M"})
	unified := cgroup(t, "unified", "memory", nil)
	file := filepath.Join(t.TempDir(), "data")
	// Written in the cgroup, so that it pays for the file's pages.
	work(t, 1, "dd if=/dev/zero of="+file+" bs=1M count=64 conv=fsync 2>/dev/null; while :; do cat "+file+" >/dev/null; done", dir, unified)
	work(t, 7, "while :; do cat "+file+" >/dev/null; done", dir, unified)
	d := until(t, func() bool { return stat(t, dir+"/memory.stat", "workingset_refault_file") > 1000 })
	if c := d.find(t, "memory"); !c.Reason {
		t.Errorf("%+v", c)
	}
	for _, r := range roles(d.Sample, memory) {
		if r.Measure == "memory_pressure_percent" {
			if r.Group == nil || r.Group.Cgroup != "/fettle-test-memory" {
				t.Errorf("%+v", r.Group)
			}
			return
		}
	}
	t.Error("nobody waits for memory")
}

func TestOOMKills(t *testing.T) {
	root.Disposable(t)
	dir := cgroup(t, "memory", "oom", map[string]string{"memory.limit_in_bytes": "4M"})
	work(t, 1, "while :; do (echo $$; tail /dev/zero) >/dev/null 2>&1; done", dir)
	before := stat(t, dir+"/memory.oom_control", "oom_kill")
	d := until(t, func() bool { return stat(t, dir+"/memory.oom_control", "oom_kill") > before+2 })
	d.find(t, "oom")
	for _, v := range d.Sample.Values {
		if v.Name == "cgroup_oom_kills_per_s" && *v.Value > 0 && v.Item == "/fettle-test-oom" {
			return
		}
	}
	t.Error("the cgroup is not named")
}

// A program that listens and never accepts.
func TestListenQueue(t *testing.T) {
	root.Disposable(t)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 4); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := at.(*syscall.SockaddrInet4).Port
	stop := make(chan struct{})
	defer close(stop)
	for range 20 {
		go func() {
			for {
				c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 200*time.Millisecond)
				if err == nil {
					<-stop // keep it in the queue
					c.Close()
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	overflows := func() float64 {
		v := activity.SinceBoot(host.Live()).Find("listen_overflows_per_s")
		return *v.Total
	}
	before := overflows()
	d := until(t, func() bool { return overflows() > before+5 })
	if c := d.find(t, "listen-queue"); !c.Reason || c.Item != strconv.Itoa(port) {
		t.Errorf("%+v, port %d", c, port)
	}
}
