package placement

import (
	"bufio"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/internal/unit"
)

// TestMain runs this program as a process with memory, for TestRealWorkload.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "hold-memory" {
		memory, err := unix.Mmap(-1, 0, held, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			os.Exit(1)
		}
		for i := 0; i < len(memory); i += 4096 {
			memory[i] = 1
		}
		os.Stdout.WriteString("ready\n")
		_, _ = os.Stdin.Read(memory[:1]) // until the test ends
		return
	}
	os.Exit(m.Run())
}

const held = 64 << 20

// holdMemory starts a process with memory, after it has touched all of it.
func holdMemory(t *testing.T) int {
	c := exec.Command(os.Args[0], "hold-memory")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = c.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return c.Process.Pid
}

func TestRealWorkload(t *testing.T) {
	testkitroot.Undisturbed(t) // the quiet state of another test binds each process of this machine
	h := host.Live()
	free, bound := holdMemory(t), holdMemory(t)
	task, err := h.Sched.Task(bound)
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := h.Sched.Affinity(task.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Sched.SetAffinity(task.TaskID, unit.CPUs(cpus.Max())); err != nil {
		t.Fatal(err)
	}
	w, err := ReadWorkload(t.Context(), h, WorkloadOptions{Interval: 50 * time.Millisecond, ReadFor: time.Minute, Self: os.Getpid(), AboveBytes: held / 2, AboveCPU: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{free, bound} {
		task, err := h.Sched.Task(pid)
		if err != nil {
			t.Fatal(err)
		}
		cpus, err := h.Sched.Affinity(task.TaskID)
		if err != nil {
			t.Fatal(err)
		}
		p := w.process(t, pid)
		if p.ID != task.TaskID || p.Name != task.Comm || p.CPUs != cpus.String() || p.Threads < 1 || !p.Candidate || p.VirtualBytes < p.ResidentBytes {
			t.Errorf("%+v, %+v", p, task)
		}
		if p.ResidentBytes < held/2 || // the kernel counts it in batches
			p.Memory == nil || p.Memory.Bytes < held || p.Memory.Policies["default"] < held {
			t.Errorf("%+v, %+v", p, p.Memory)
		}
	}
	var all unit.CPUSet
	for _, n := range w.View.Nodes {
		cpus, _ := unit.ParseCPUList(n.CPUs.Or(""))
		all = all.Union(cpus)
	}
	if all.Len() > 1 && w.process(t, bound).Owner.Kind != OwnedByAdmin {
		t.Errorf("%+v", w.process(t, bound))
	}
	if p := w.process(t, free); p.CPUs == all.String() && p.Owner.Kind != "" {
		t.Errorf("%+v", p)
	}
	if slices.ContainsFunc(w.Processes, func(p WorkloadProcess) bool { return p.PID == os.Getpid() }) {
		t.Error("the caller is listed")
	}
}

// TestLargeOnly: a reading of large processes leaves out the others, and has the same counters.
func TestLargeOnly(t *testing.T) {
	small := exec.Command("sleep", "600")
	if err := small.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = small.Process.Kill(); _ = small.Wait() })
	large := holdMemory(t)
	o := WorkloadOptions{AboveBytes: held, Self: os.Getpid()}
	all, err := ReadUsage(host.Live(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.LargeOnly = true
	some, err := ReadUsage(host.Live(), o)
	if err != nil {
		t.Fatal(err)
	}
	got, want := some.processes[large], all.processes[large]
	if got.start == 0 || got.start != want.start || got.virtual != want.virtual || got.threads != want.threads {
		t.Errorf("%+v, %+v", got, want)
	}
	if all.processes[small.Process.Pid].start == 0 || some.processes[small.Process.Pid].start != 0 {
		t.Errorf("small process: %+v, %+v", all.processes[small.Process.Pid], some.processes[small.Process.Pid])
	}
	for pid, p := range some.processes {
		if p.virtual <= held || pid == os.Getpid() {
			t.Errorf("process %d: %+v", pid, p)
		}
	}
}

func (w *Workload) process(t *testing.T, pid int) *WorkloadProcess {
	t.Helper()
	for i := range w.Processes {
		if w.Processes[i].PID == pid {
			return &w.Processes[i]
		}
	}
	t.Fatalf("process %d is not among %d", pid, len(w.Processes))
	return nil
}

// Of the processes above a threshold, those above both are candidates; a process with another start
// time is another process.
func TestCandidates(t *testing.T) {
	const large = 400 << 20
	files := map[string]string{}
	for _, pid := range []string{"409600", "409601", "409602", "409603"} { // the size in kB
		maps.Copy(files, process(pid, "0", "0-3", "0-1", onZero, "/"))
	}
	maps.Copy(files, process("77", "0", "0-3", "0-1", onZero, "/")) // a small one
	was := used{at: time.Unix(0, 0), start: 5, ticks: 1000, virtual: large, size: large}
	is := func(start, ticks uint64, size int64) used {
		return used{at: time.Unix(2, 0), start: start, ticks: ticks, virtual: large, size: size, threads: 3}
	}
	before := map[int]used{409600: was, 409601: was, 409602: was, 77: was, 78: was}
	after := map[int]used{409600: is(5, 1200, large), 409601: is(5, 1100, large), 409602: is(6, 2000, large), 409603: is(5, 50, large), 77: is(5, 1200, 4096), 78: is(5, 1000, 4096), 79: is(5, 1, large)}
	w := &Workload{}
	w.add(machine.Mounted(t, files), before, after, NumadOptions(1))
	got := map[int][2]int{}
	for _, p := range w.Processes {
		got[p.PID] = [2]int{p.CPU, map[bool]int{true: 1}[p.Candidate]}
	}
	want := map[int][2]int{409600: {100, 1}, 409601: {50, 0}, 409602: {0, 0}, 409603: {0, 0}, 77: {100, 0}}
	if !maps.Equal(got, want) || w.Small != 1 || w.Processes[0].PID != 409603 || w.Processes[4].PID != 77 {
		t.Errorf("%v, %d small", got, w.Small)
	}
}

// TestMayMove: a process that is busy and may be large is one to look at; huge pages are not in its size.
func TestMayMove(t *testing.T) {
	read := func(start, ticks uint64, virtual, size int64, s int64) *Usage {
		return &Usage{processes: map[int]used{7: {at: time.Unix(s, 0), start: start, ticks: ticks, virtual: virtual, size: size}}}
	}
	before := read(5, 1000, 400<<20, 4096, 10)
	for _, c := range []struct {
		now  *Usage
		want bool
	}{
		{read(5, 1200, 400<<20, 4096, 12), true},
		{read(5, 1100, 400<<20, 400<<20, 12), false}, // 0.5 CPUs
		{read(5, 1200, 300<<20, 300<<20, 12), false},
		{read(6, 1200, 400<<20, 400<<20, 12), false}, // another process
		{&Usage{}, false},
	} {
		if got := c.now.MayMove(before, NumadOptions(1)); got != c.want {
			t.Errorf("%+v: %t", c.now.processes, got)
		}
	}
}

func TestOwners(t *testing.T) {
	w := &Workload{View: Read(machine.Mounted(t, processMachine())), isolated: unit.CPUs(3)}
	place := func(policy string, bytes int64) *Process {
		return &Process{Bytes: 1000, Policies: map[string]int64{"default": 1000 - bytes, policy: bytes}}
	}
	for _, c := range []struct {
		p    WorkloadProcess
		want string
	}{
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1"}}, ""},
		{WorkloadProcess{Identity: Identity{CPUs: "0-2", MemoryNodes: "0-1"}}, ""}, // without the isolated CPU
		{WorkloadProcess{Identity: Identity{CPUs: "1-3", MemoryNodes: "0-1"}}, OwnedByAdmin},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "1"}}, OwnedByAdmin},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1", Cgroup: pod}}, OwnedByKubelet},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1", Cgroup: "/machine.slice/machine-qemu\\x2d1\\x2dweb.scope"}}, OwnedByLibvirt},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1", Cgroup: "/machine/qemu-1-web.libvirt-qemu/emulator"}}, OwnedByLibvirt},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1", Cgroup: "/machine.slice/machine-lab.scope/payload"}}, ""},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1", Cgroup: "/machine.slice/libpod-0123", Container: "0123456789ab"}}, ""},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1", Name: "hdbindexserver"}}, OwnedByDatabase},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1", Name: "ora_dbw0_ORCL"}}, OwnedByDatabase},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1", Name: "postgres"}}, ""},
		// The CPUs may be those of an earlier move, which does not hide the other reasons.
		{WorkloadProcess{Identity: Identity{CPUs: "0", MemoryNodes: "0-1", Name: "hdbindexserver"}}, OwnedByDatabase},
		{WorkloadProcess{Identity: Identity{CPUs: "0", MemoryNodes: "0-1"}, Memory: place("interleave:0-1", 500)}, OwnedByPolicy},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1"}, Memory: place("interleave:0-1", 500)}, OwnedByPolicy},
		{WorkloadProcess{Identity: Identity{CPUs: "0-3", MemoryNodes: "0-1"}, Memory: place("bind:0", 100)}, ""},
	} {
		if got := w.owner(&c.p); got.Kind != c.want || (got.Why == "") != (c.want == "") {
			t.Errorf("%+v: %+v", c.p.Identity, got)
		}
	}
}
