package daemon_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/root"
)

// process is a real daemon on this machine with a journal of its own.
type process struct {
	t       *testing.T
	program string
	state   string
	cmd     *exec.Cmd
	log     *bytes.Buffer
}

func (p *process) start(more ...string) {
	p.t.Helper()
	ready := filepath.Join(p.t.TempDir(), "notify")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: ready}); err != nil {
		p.t.Fatal(err)
	}
	p.log = &bytes.Buffer{}
	p.cmd = exec.Command(p.program, append([]string{"daemon", "--tuned=false", "--state-dir", p.state,
		"--schedule", filepath.Join(filepath.Dir(p.state), "schedule")}, more...)...)
	p.cmd.Stderr, p.cmd.SysProcAttr = p.log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+ready)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { p.cmd.Process.Kill() })
	timeout := syscall.Timeval{Sec: 60}
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout)
	buf := make([]byte, 256)
	n, _, err := syscall.Recvfrom(fd, buf, 0)
	for err == syscall.EINTR { // with a time limit no signal's handler restarts it (signal(7))
		n, _, err = syscall.Recvfrom(fd, buf, 0)
	}
	n = max(n, 0)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "READY=1\n") {
		p.t.Fatalf("no READY=1: %v %q\n%s", err, buf[:n], p.log)
	}
}

func (p *process) fettle(args ...string) {
	p.t.Helper()
	out, err := exec.Command(p.program, append([]string{"--state-dir", p.state}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("fettle %v: %v\n%s", args, err, out)
	}
}

// latency is the limit on wake-up latency that is in force, in microseconds.
func latency(t *testing.T) uint32 {
	t.Helper()
	b, err := os.ReadFile("/dev/cpu_dma_latency")
	if err != nil || len(b) != 4 {
		t.Fatalf("/dev/cpu_dma_latency: %v, %d bytes", err, len(b))
	}
	return binary.NativeEndian.Uint32(b)
}

// switches counts the context switches of all threads since they were started.
func switches(t *testing.T, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("threads of %d: %v", pid, err)
	}
	for _, f := range files {
		n += field(t, f, "voluntary_ctxt_switches:") + field(t, f, "nonvoluntary_ctxt_switches:")
	}
	return n
}

func field(t *testing.T, file, name string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s has no %s", file, name)
	return 0
}

// firstState is what latency-performance wants here, cstate.id_no_zero:1|3: the latency of
// the first idle state, in µs, or 3 if it is missing or 0.
func firstState(t *testing.T) uint32 {
	t.Helper()
	text, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpuidle/state1/latency")
	if err != nil {
		return 3
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Or(uint32(n), 3)
}

// TestProcess runs the program itself: a value that only an open descriptor
// keeps is there while the daemon lives and selects it, and at no other time.
func TestProcess(t *testing.T) {
	root.Disposable(t)
	if _, err := os.Stat("/dev/cpu_dma_latency"); err != nil {
		root.Missing(t, "this kernel has no /dev/cpu_dma_latency")
	}
	p := &process{t: t, program: root.Program(t, "./cmd/fettle"), state: filepath.Join(t.TempDir(), "state")}
	none := latency(t)
	if none < 1000 {
		root.Missing(t, "another process holds a latency of %d µs on this machine (see who has /dev/cpu_dma_latency open)", none)
	}
	wait := func(what string, want uint32) {
		t.Helper()
		if !root.Eventually(time.Minute, func() bool { return latency(t) == want }) {
			t.Fatalf("%s: the latency is %d µs, want %d\n%s", what, latency(t), want, p.log)
		}
	}
	want := firstState(t)
	p.start()
	t.Cleanup(func() { exec.Command(p.program, "--state-dir", p.state, "undo").Run() })
	p.fettle("tune", "latency-performance")
	wait("selected by the command line", want)
	p.fettle("verify")

	// At rest: at most one context switch in ten seconds, at most half of
	// TuneD's 28 MB.
	// The first of the windows may still see the end of the work before.
	for window := 1; ; window++ {
		before := switches(t, p.cmd.Process.Pid)
		time.Sleep(10 * time.Second)
		n := switches(t, p.cmd.Process.Pid) - before
		if n <= 1 {
			break
		}
		if window == 4 {
			t.Errorf("%d context switches in ten seconds at rest, want at most 1", n)
			break
		}
	}
	rss := field(t, fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid), "VmRSS:")
	t.Logf("resident memory %d KiB", rss)
	if rss > 14<<10 {
		t.Errorf("resident memory is %d KiB, want at most half of TuneD's 28 MB", rss)
	}

	p.cmd.Process.Kill()
	p.cmd.Wait()
	wait("after kill -9", none)
	p.start()
	wait("started again", want)
	p.fettle("undo")
	wait("undone by the command line", none)
	p.fettle("tune", "latency-performance")
	wait("selected again", want)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	wait("reloaded", want)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the daemon ended with %v\n%s", err, p.log)
	}
	wait("after the end", none)
}

// TestNewTasksAreFollowed starts a process after the selection is in force: it
// gets the group's policy, and keeps nothing of it once fettle is undone.
func TestNewTasksAreFollowed(t *testing.T) {
	root.Disposable(t)
	dir := t.TempDir()
	p := &process{t: t, program: root.Program(t, "./cmd/fettle"), state: filepath.Join(dir, "state")}
	// A program with a unique name.
	sleep := filepath.Join(dir, "fettlesleeper")
	b, err := os.ReadFile("/bin/sleep")
	if err == nil {
		err = os.WriteFile(sleep, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	machine.WriteFile(t, dir, "profiles/tasks/tuned.conf", "[scheduler]\ngroup.sleepers=0:b:0:*:fettlesleeper.*\n")
	p.start()
	t.Cleanup(func() { exec.Command(p.program, "--state-dir", p.state, "undo").Run() })
	p.fettle("tune", "--profile-dir", filepath.Join(dir, "profiles"), "tasks")
	task := exec.Command(sleep, "120")
	if err := task.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { task.Process.Kill(); task.Wait() })
	const other, batch = 0, 3 // sched(7)
	policy := func() int {
		n, _, errno := syscall.Syscall(syscall.SYS_SCHED_GETSCHEDULER, uintptr(task.Process.Pid), 0, 0)
		if errno != 0 {
			t.Fatal(errno)
		}
		return int(n)
	}
	if !root.Eventually(time.Minute, func() bool { return policy() == batch }) {
		t.Fatalf("policy %d of a new task, want %d\n%s", policy(), batch, p.log)
	}
	p.fettle("undo")
	if !root.Eventually(time.Minute, func() bool { return policy() == other }) {
		t.Errorf("policy %d after undo, want %d\n%s", policy(), other, p.log)
	}
}
