package activity

import (
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
)

// maxTasks is the maximum number of threads whose counters are read.
const maxTasks = 20_000

// process holds the counters of a process since its start.
type process struct {
	at      time.Time // time of reading: reading all processes takes long on a busy machine
	pid     int
	start   string // in ticks since boot; process ids are reused
	command string
	kernel  bool // a thread of the kernel
	cgroup  string
	cpu     float64 // seconds
	delay   float64 // seconds for which its threads waited on run queues
	faults  float64 // major page faults
	rss     float64 // pages
	disk    float64 // bytes read from and written to disks; -1 if unknown
	// locks holds the number of threads that wait for each mutex, by its address. locksUnknown
	// is why it could not be read, or "".
	locks        map[string]int
	locksUnknown string
}

// processes holds the processes at one time.
type processes struct {
	at  time.Time // start of the reading
	all map[int]*process
	// partial is the reason that not all processes were read, or "".
	partial string
	own     *snapshot // values of single processes
}

// readProcesses reads the counters of all processes. If last is true, it also reads properties that
// do not change while a process runs, and the use of limits.
func readProcesses(h *host.Host, last bool) *processes {
	p := &processes{at: h.Clock.Now(), all: map[int]*process{}, own: newSnapshot(h)}
	list, err := h.PIDs()
	if err != nil {
		p.partial = host.Why("/proc", err)
		return p
	}
	left := maxTasks
	for _, pid := range list {
		if h.Live && pid == os.Getpid() {
			continue
		}
		one, threads := readProcess(h, pid)
		if one == nil {
			continue // the process has ended
		}
		if left -= threads; left < 0 {
			p.partial = "more than " + strconv.Itoa(maxTasks) + " threads"
			break
		}
		p.all[pid] = one
		if last {
			one.cgroup = CgroupOf(h.File(one.dir("cgroup")).Text)
			if !one.kernel { // those have no descriptors
				readFiles(h, one, p.own)
			}
		}
	}
	return p
}

func (p *process) dir(name string) string { return "/proc/" + strconv.Itoa(p.pid) + "/" + name }

// readProcess reads the counters of a process and returns its number of threads. It returns
// nil if the process has ended.
func readProcess(h *host.Host, pid int) (*process, int) {
	p := &process{at: h.Clock.Now(), pid: pid, disk: -1}
	threads, err := parseProcess(h.File(p.dir("stat")).Text, p)
	if err != nil {
		return nil, 0
	}
	if text := h.File(p.dir("io")).Text; text != "" { // readable only by the process's user
		read, err := keyedNumber(text, "read_bytes:")
		written, err2 := keyedNumber(text, "write_bytes:")
		if err == nil && err2 == nil {
			p.disk = read + written
		}
	}
	if threads == 1 {
		p.delay, _ = parseDelay(h.File(p.dir("schedstat")).Text)
		return p, 1
	}
	tasks, _ := h.Files.ReadDir(p.dir("task"))
	for _, t := range tasks {
		delay, _ := parseDelay(h.File(path.Join(p.dir("task"), t.Name(), "schedstat")).Text)
		p.delay += delay
	}
	readLocks(h, p, tasks)
	return p, threads
}

// parseProcess parses /proc/PID/stat (proc_pid_stat(5)) and returns the number of threads.
func parseProcess(text string, p *process) (threads int, err error) {
	begin, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if begin < 0 || end < begin {
		return 0, errFormat
	}
	w := strings.Fields(text[end+1:]) // from the third field, the state
	if len(w) < 22 {
		return 0, errFormat
	}
	n, err := numbers([]string{w[9], w[11], w[12], w[17], w[19]}) // majflt utime stime num_threads starttime
	if err != nil {
		return 0, err
	}
	rss, err := strconv.ParseInt(w[21], 10, 64)
	if err != nil || n[3] > 1<<22 {
		return 0, errFormat
	}
	const kernelThread = 0x00200000 // PF_KTHREAD in include/linux/sched.h
	flags, err := strconv.ParseUint(w[6], 10, 32)
	if err != nil {
		return 0, errFormat
	}
	p.kernel = flags&kernelThread != 0
	p.command, p.start = text[begin+1:end], w[19]
	p.faults, p.cpu, p.rss = n[0], (n[1]+n[2])/ticksPerSecond, float64(rss)
	return int(n[3]), nil
}

// parseDelay returns the time on run queues in seconds, from /proc/PID/schedstat
// (Documentation/scheduler/sched-stats.rst). The file has the time on a CPU and the time on a
// run queue, both in ns, and the number of time slices.
func parseDelay(text string) (float64, error) {
	w := strings.Fields(text)
	if len(w) != 3 {
		return 0, errFormat
	}
	ns, err := number(w[1])
	return ns / 1e9, err
}

// readFiles reads the number of open files of a process that is near its limit. Counting them
// is expensive. So it only counts if FDSize in /proc/PID/status, the size of the table of
// descriptors, permits a number near the limit.
func readFiles(h *host.Host, p *process, into *snapshot) {
	size, err := keyedNumber(h.File(p.dir("status")).Text, "FDSize:")
	if err != nil {
		return
	}
	limit, err := parseFileLimit(h.File(p.dir("limits")).Text)
	if err != nil || limit == 0 || size < 0.8*limit {
		return
	}
	open, err := h.Files.ReadDir(p.dir("fd"))
	if err != nil {
		return
	}
	item := p.command + " (pid " + strconv.Itoa(p.pid) + ")"
	into.counters[counter{"process.files", item}] = float64(len(open))
	into.counters[counter{"process.files_limit", item}] = limit
}

// keyedNumber returns the number in the line of a file that begins with a name. The files of all
// processes are read, so it makes no map of their lines.
func keyedNumber(text, name string) (float64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return number(strings.TrimSpace(rest))
		}
	}
	return 0, errFormat
}

// parseFileLimit returns the soft limit of open files in /proc/PID/limits.
func parseFileLimit(text string) (float64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			w := strings.Fields(rest)
			if len(w) < 2 {
				return 0, errFormat
			}
			return number(w[0])
		}
	}
	return 0, errors.New(`the line "Max open files" is missing`)
}
