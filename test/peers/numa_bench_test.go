package peers

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

// What TestBenchNuma measures with.
const (
	numaRounds       = 7
	numaProcesses    = 500     // for numa show
	balanceProcesses = 2000    // for numa balance and the daemon
	numaMappings     = 100_000 // of one process
	daemonWindow     = 30 * time.Second
	numaInside       = "FETTLE_BENCH_NUMA"
	numaMaps         = "FETTLE_BENCH_NUMA_MAPPINGS"
)

// numaFigures is what the part in the namespaces has measured.
type numaFigures struct {
	// CPU is the processor time of each job and round.
	CPU map[string][]time.Duration
	// Wakes are the voluntary context switches of a daemon in daemonWindow. Resident and Own are its memory
	// and the anonymous part, in KiB.
	Wakes, Resident, Own map[string]int
}

// TestBenchNuma measures fettle numa next to numastat and numad. All of them run in a mount and PID
// namespace of their own: there are only the processes that the bench starts, and two made-up nodes, because
// numad and fettle end early where there is one.
func TestBenchNuma(t *testing.T) {
	if os.Getenv(numaMaps) != "" {
		holdMappings(t)
	}
	if os.Getenv(numaInside) != "" {
		measureNuma(t)
		return
	}
	if os.Getenv("FETTLE_BENCH") != "1" {
		t.Skip("measures; make bench runs it")
	}
	testkitroot.Disposable(t)
	t.Setenv("FETTLE_TEST_NIGHTLY", "1") // for the peers
	program, programs := asInstalled(t, testkitroot.Program(t, "./cmd/fettle")), testkitroot.Numactl(t)
	dir := t.TempDir()
	c := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0], "-test.run", "^TestBenchNuma$", "-test.v")
	c.Env = append(os.Environ(), numaInside+"="+dir+" "+program+" "+programs)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "figures"))
	if err != nil {
		t.Fatal(err)
	}
	var f numaFigures
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	table, unmet := f.table()
	record(t, "numa", table, unmet)
}

// table returns the table of the page, and the promises that are not met.
func (f *numaFigures) table() (text string, unmet []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "numastat 2.0.16 and numad 20150602 of Debian 12 and fettle on the same machine, alternately, %d rounds: the processor time of each call, as the median with the range in parentheses. Only the processes of the bench exist, each of them `sleep`, on two made-up NUMA nodes. numad is measured until it has looked twice, as fettle does. The daemons ran for %d s at the same time, with %d processes and an interval of 5 s.\n\n", numaRounds, int(daemonWindow.Seconds()), balanceProcesses)
	fmt.Fprintf(&b, "| job | peer | peer, ms | fettle, ms | of the peer's | promised |\n|---|---|---|---|---|---|\n")
	for _, j := range []struct {
		name, peer, fettle string
		most               float64
	}{
		{fmt.Sprintf("memory of %d processes by node (`numa show -p sleep`)", numaProcesses), "numastat -p sleep", "show", 0.5},
		{"the same as numastat's table (`numa show --numastat -p sleep`)", "numastat -p sleep", "show --numastat", 0},
		{"the kernel's part: their numa_maps are only read", "numastat -p sleep", "read", 0},
		{fmt.Sprintf("a process with %d mappings (`numa show -p PID`)", numaMappings), "numastat -p PID", "show -p PID", 1},
		{"the same as numastat's table", "numastat -p PID", "show --numastat -p PID", 1},
		{"the kernel's part: its numa_maps is only read", "numastat -p PID", "read PID", 0},
		{fmt.Sprintf("look at %d processes twice (`numa balance --dry-run --all`)", balanceProcesses), "numad", "balance", 1},
	} {
		theirs, ours := f.CPU[j.peer], f.CPU[j.fettle]
		times, promised := float64(median(ours))/float64(median(theirs)), "-"
		ratio := fmt.Sprintf("%.2f", times)
		why := unsteady(theirs)
		if why != "" {
			ratio = why
		}
		if j.most > 0 {
			promised = fmt.Sprintf("at most %g", j.most)
			if why == "" && times > j.most {
				unmet = append(unmet, fmt.Sprintf("%s: %.2f of the CPU time of `%s`, promised %s", j.name, times, j.peer, promised))
			}
		}
		spread := func(d []time.Duration) string {
			return fmt.Sprintf("%s (%s-%s)", ms(median(d)), ms(slices.Min(d)), ms(slices.Max(d)))
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s |\n", j.name, j.peer, spread(theirs), spread(ours), ratio, promised)
	}
	fmt.Fprintf(&b, "\n| daemon | numad | fettle | fettle with `numa_balance=all` | promised |\n|---|---|---|---|---|\n")
	row := func(name string, of map[string]int, unit int, promised string) {
		fmt.Fprintf(&b, "| %s | %.*f | %.*f | %.*f | %s |\n", name, unit, scaled(of["numad"], unit), unit, scaled(of["off"], unit), unit, scaled(of["on"], unit), promised)
	}
	row(fmt.Sprintf("wake-ups (voluntary context switches) in %d s", int(daemonWindow.Seconds())), f.Wakes, 0, "at most numad's")
	row("resident memory, MiB", f.Resident, 1, "at most 2 more than without")
	row("memory of its own, MiB", f.Own, 1, "at most 2 more than without")
	if f.Wakes["on"] > f.Wakes["numad"] {
		unmet = append(unmet, fmt.Sprintf("the daemon woke %d times in %s, numad %d times", f.Wakes["on"], daemonWindow, f.Wakes["numad"]))
	}
	for _, of := range []map[string]int{f.Resident, f.Own} {
		if more := of["on"] - of["off"]; more > 2<<10 {
			unmet = append(unmet, fmt.Sprintf("the daemon has %d KiB more with numa_balance, promised at most 2 MiB", more))
		}
	}
	return b.String(), unmet
}

// scaled converts KiB to MiB where a row has decimals.
func scaled(n, decimals int) float64 {
	if decimals > 0 {
		return float64(n) / 1024
	}
	return float64(n)
}

// holdMappings maps memory in pages of alternating protection, and waits until it is killed.
func holdMappings(t *testing.T) {
	const page = 4096
	memory, err := unix.Mmap(-1, 0, numaMappings*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	for i := range numaMappings {
		memory[i*page] = 1
		if i%2 == 0 {
			if err := unix.Mprotect(memory[i*page:(i+1)*page], unix.PROT_READ); err != nil {
				t.Fatal(err)
			}
		}
	}
	fmt.Println("ready")
	for {
		_ = unix.Pause()
	}
}

// numaBench is a run in the namespaces.
type numaBench struct {
	t                     *testing.T
	dir, fettle, programs string
	figures               numaFigures
	sleepers              []string // their process numbers
}

// measureNuma runs in the namespaces, and writes its figures to a file.
func measureNuma(t *testing.T) {
	words := strings.Fields(os.Getenv(numaInside))
	if len(words) != 3 {
		t.Fatal(words)
	}
	b := &numaBench{t: t, dir: words[0], fettle: words[1], programs: words[2], figures: numaFigures{map[string][]time.Duration{}, map[string]int{}, map[string]int{}, map[string]int{}}}
	b.twoNodes()
	b.sleep(numaProcesses)
	state := filepath.Join(b.dir, "state")
	numastat, fettle := filepath.Join(b.programs, "numastat"), []string{b.fettle, "numa", "--state-dir", state}
	mapped := b.mappings()
	for range numaRounds {
		b.cpu("numastat -p sleep", numastat, "-p", "sleep")
		b.read("read", b.sleepers...)
		b.cpu("show", append(fettle, "show", "-p", "sleep")...)
		b.cpu("show --numastat", append(fettle, "show", "--numastat", "-p", "sleep")...)
		b.cpu("numastat -p PID", numastat, "-p", mapped)
		b.read("read PID", mapped)
		b.cpu("show -p PID", append(fettle, "show", "-p", mapped)...)
		b.cpu("show --numastat -p PID", append(fettle, "show", "--numastat", "-p", mapped)...)
	}
	b.sleep(balanceProcesses)
	for range numaRounds {
		b.cpu("balance", append(fettle, "balance", "--dry-run", "--all")...)
		pid := b.numad()
		time.Sleep(3500 * time.Millisecond) // it looks at once, after 2 s, and then after its interval
		b.figures.CPU["numad"] = append(b.figures.CPU["numad"], b.cpuOf(pid))
		b.kill(pid)
	}
	b.daemons()
	text, err := json.Marshal(b.figures)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.dir, "figures"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// twoNodes covers the nodes of this machine with two made-up ones, each with a CPU, and the directories
// that the programs write to.
func (b *numaBench) twoNodes() {
	nodes := filepath.Join(b.dir, "nodes")
	write := func(name, text string) {
		name = filepath.Join(nodes, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, name := range []string{"online", "possible", "has_cpu", "has_memory"} {
		write(name, "0-1\n")
	}
	for i, distance := range []string{"10 20\n", "20 10\n"} {
		dir := fmt.Sprintf("node%d/", i)
		write(dir+"cpulist", fmt.Sprintln(i))
		write(dir+"distance", distance)
		write(dir+"meminfo", fmt.Sprintf("Node %d MemTotal: 4194304 kB\nNode %[1]d MemFree: 2097152 kB\nNode %[1]d Inactive(file): 1024 kB\n", i))
		write(dir+"numastat", "numa_hit 1\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 1\nother_node 0\n")
	}
	if err := unix.Mount(nodes, "/sys/devices/system/node", "", unix.MS_BIND, ""); err != nil {
		b.t.Fatal(err)
	}
	for _, dir := range []string{"/run", "/var/log", "/etc"} {
		if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			b.t.Fatal(err)
		}
	}
}

// sleep starts processes until there are so many. They end with the namespace.
func (b *numaBench) sleep(n int) {
	for len(b.sleepers) < n {
		b.sleepers = append(b.sleepers, strconv.Itoa(b.start("sleep", "100000").Process.Pid))
	}
	time.Sleep(time.Second) // until the last one sleeps
}

func (b *numaBench) start(argv ...string) *exec.Cmd {
	b.t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	if err := c.Start(); err != nil {
		b.t.Fatalf("%q: %v", argv, err)
	}
	return c
}

// mappings starts the process with many mappings, and returns its number.
func (b *numaBench) mappings() string {
	const file = "/proc/sys/vm/max_map_count"
	before, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	// The kernel checks the limit only when a mapping is made.
	defer func() {
		if err := os.WriteFile(file, before, 0o644); err != nil {
			b.t.Error(err)
		}
	}()
	if err := os.WriteFile(file, []byte(strconv.Itoa(2*numaMappings)), 0o644); err != nil {
		b.t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestBenchNuma$")
	c.Env = append(os.Environ(), numaMaps+"=1")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		b.t.Fatalf("%q, %v", line, err)
	}
	return strconv.Itoa(c.Process.Pid)
}

// cpu measures the processor time of a program.
func (b *numaBench) cpu(name string, argv ...string) {
	b.t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	if out, err := c.CombinedOutput(); err != nil {
		b.t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	b.figures.CPU[name] = append(b.figures.CPU[name], c.ProcessState.UserTime()+c.ProcessState.SystemTime())
}

// read measures the processor time that the kernel takes for the numa_maps of processes.
func (b *numaBench) read(name string, pids ...string) {
	b.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			b.t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, buffer := spent(), make([]byte, 64<<10)
	for _, pid := range pids {
		fd, err := unix.Open("/proc/"+pid+"/numa_maps", unix.O_RDONLY, 0)
		if err != nil {
			b.t.Fatal(err)
		}
		for n := 1; n > 0; {
			if n, err = unix.Read(fd, buffer); err != nil {
				b.t.Fatal(err)
			}
		}
		unix.Close(fd)
	}
	b.figures.CPU[name] = append(b.figures.CPU[name], spent()-before)
}

// numad starts numad, and returns the process that it leaves. Its interval is 5 s, and it leaves
// khugepaged alone (-H 0).
func (b *numaBench) numad() int {
	b.t.Helper()
	if out, err := exec.Command(filepath.Join(b.programs, "numad"), "-H", "0", "-i", "5:5").CombinedOutput(); err != nil {
		b.t.Fatalf("numad: %v\n%s", err, out)
	}
	text, err := os.ReadFile("/run/numad.pid")
	pid, err2 := strconv.Atoi(strings.TrimSpace(string(text)))
	if err = cmp.Or(err, err2); err != nil {
		b.t.Fatal(err)
	}
	return pid
}

func (b *numaBench) kill(pid int) {
	b.t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		b.t.Fatal(err)
	}
	_, _ = unix.Wait4(pid, nil, 0, nil) // a child of this process, the first one of its namespace
	_ = os.Remove("/run/numad.pid")
}

// threads calls each with the text of a file of every thread of a process.
func (b *numaBench) threads(pid int, name string, each func(text string)) {
	b.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", pid, name))
	if err != nil || len(files) == 0 {
		b.t.Fatalf("process %d has ended: %v", pid, err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil {
			each(string(text))
		}
	}
}

// cpuOf returns the processor time of a running process.
func (b *numaBench) cpuOf(pid int) (sum time.Duration) {
	b.threads(pid, "schedstat", func(text string) {
		ran, _, _ := strings.Cut(text, " ")
		n, err := strconv.ParseInt(ran, 10, 64)
		if err != nil {
			b.t.Fatal(err)
		}
		sum += time.Duration(n)
	})
	return sum
}

// statusOf returns the sum of a number over the threads of a process.
func (b *numaBench) statusOf(pid int, key string) (sum int) {
	b.threads(pid, "status", func(text string) {
		_, rest, _ := strings.Cut(text, "\n"+key+":")
		var n int
		if _, err := fmt.Sscan(rest, &n); err != nil {
			b.t.Fatalf("%s of process %d: %v", key, pid, err)
		}
		sum += n
	})
	return sum
}

// daemons measures numad, and fettle's daemon with and without numa_balance.
func (b *numaBench) daemons() {
	pids := map[string]int{}
	for name, config := range map[string]string{"off": "", "on": "numa_balance=all\nnuma_balance_interval=5:5\n"} {
		if err := errors.Join(os.MkdirAll("/etc/tuned", 0o755), os.WriteFile("/etc/tuned/tuned-main.conf", []byte("dynamic_tuning=0\n"+config), 0o644)); err != nil {
			b.t.Fatal(err)
		}
		c := b.start(b.fettle, "--state-dir", filepath.Join(b.dir, name), "daemon", "--tuned=false")
		pids[name] = c.Process.Pid
		time.Sleep(3 * time.Second) // until it has read its configuration
	}
	pids["numad"] = b.numad() // last, as fettle moves nothing where numad is in force
	time.Sleep(10 * time.Second)
	const wakes = "voluntary_ctxt_switches"
	for name, pid := range pids {
		b.figures.Wakes[name] = -b.statusOf(pid, wakes)
	}
	time.Sleep(daemonWindow)
	for name, pid := range pids {
		b.figures.Wakes[name] += b.statusOf(pid, wakes)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			b.t.Fatal(err)
		}
		for key, to := range map[string]map[string]int{"VmRSS": b.figures.Resident, "RssAnon": b.figures.Own} {
			_, rest, _ := strings.Cut(string(status), "\n"+key+":")
			var kib int
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				b.t.Fatalf("%s: %v", key, err)
			}
			to[name] = kib
		}
	}
}
