package placement

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/fact/activity"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// Workload holds, for an interval, the free memory and CPU time of a machine's nodes, and the usage
// of its large or busy processes.
type Workload struct {
	View  *View
	Rooms []Room
	// Processes are those above a threshold of WorkloadOptions, the largest first.
	Processes []WorkloadProcess
	// Small counts the other processes, without kernel threads.
	Small int
	// Notes lists the assumptions about values that the machine does not report.
	Notes []string
	// Usage holds the counters at the end of the interval. The next interval can start with them.
	Usage *Usage
	// isolated are the CPUs that no process uses by default.
	isolated unit.CPUSet
}

// WorkloadProcess is a process with its usage in the interval.
type WorkloadProcess struct {
	Identity
	// ID has the start time as well, because the kernel reuses process numbers.
	ID           host.TaskID
	VirtualBytes int64
	// CPU and Waiting are in hundredths of a core: CPU time, and time in which its threads waited for
	// a CPU. Waiting is 0 for processes below AboveBytes.
	CPU, Waiting int
	Threads      int
	// Candidate reports whether the process exceeds both thresholds.
	Candidate bool
	// Memory is the distribution of memory and CPU time over the nodes. It is nil for processes
	// that are not candidates, and if it could not be read; Unread then has the reason.
	Memory *Process
	Unread string
	// Owner is the program that already places the process.
	Owner Owner
}

// WorkloadOptions control the reading of a workload.
type WorkloadOptions struct {
	// Interval is the time between the two readings of the CPU time.
	Interval time.Duration
	// LargeOnly omits processes that have at most AboveBytes of virtual memory at the start or the
	// end of the interval. Small does not count them.
	LargeOnly bool
	// Since and Until are the readings at the start and the end of the interval, made by ReadUsage
	// with the same options. Without Since, the interval starts now. Without Until, it ends now if
	// Since is set, otherwise after Interval.
	Since, Until *Usage
	// ReadFor limits the time of reading the memory of candidates.
	ReadFor time.Duration
	// Self is a process that is left out, such as the caller.
	Self int
	// AboveBytes and AboveCPU (hundredths of a core) are the thresholds of a candidate.
	AboveBytes int64
	AboveCPU   int
}

// NumadOptions returns numad's thresholds, and an interval of 2 s.
func NumadOptions(self int) WorkloadOptions {
	return WorkloadOptions{Interval: Sample, ReadFor: 2 * time.Second, Self: self, AboveBytes: 300 << 20, AboveCPU: 50}
}

// used are the counters of a process in /proc/PID/stat (proc_pid_stat(5)).
type used struct {
	at            time.Time
	start, ticks  uint64 // clock ticks: start after boot; CPU time
	virtual, size int64  // bytes
	threads       int
	waited        uint64 // nanoseconds in which threads waited for a CPU; 0 below AboveBytes
}

// Usage are the counters of the CPUs and processes at a moment.
type Usage struct {
	cpus      map[string]activity.CPUTime
	processes map[int]used
}

// ReadUsage reads the counters of a live machine and of the processes that the options select.
func ReadUsage(h *host.Host, o WorkloadOptions) (*Usage, error) {
	if o.LargeOnly {
		pids, err := large(h, o)
		if err != nil {
			return nil, err
		}
		return readUsage(h, pids, o)
	}
	pids, err := h.PIDs()
	if err != nil {
		return nil, err
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == o.Self })
	return readUsage(h, pids, o)
}

// ReadWorkload reads the workload of a live machine.
func ReadWorkload(ctx context.Context, h *host.Host, o WorkloadOptions) (*Workload, error) {
	before := o.Since
	if before == nil {
		var err error
		if before, err = ReadUsage(h, o); err != nil {
			return nil, err
		}
		if host.Sleep(ctx, o.Interval) != nil {
			return nil, context.Cause(ctx)
		}
	}
	after := o.Until
	if after == nil {
		var err error
		if o.LargeOnly {
			after, err = readUsage(h, slices.Collect(maps.Keys(before.processes)), o)
		} else {
			after, err = ReadUsage(h, o)
		}
		if err != nil {
			return nil, err
		}
	}
	var err error
	w := &Workload{View: ReadNodes(h), Usage: after}
	if w.Rooms, w.Notes, err = Rooms(h, before.cpus, after.cpus); err != nil {
		return nil, err
	}
	w.add(h, before.processes, after.processes, o)
	w.locate(h, o.ReadFor)
	return w, nil
}

// MayMove reports whether any process may exceed both thresholds since an earlier reading. It
// compares the virtual size, because the resident size in /proc/PID/stat lacks huge pages of
// hugetlbfs.
func (u *Usage) MayMove(since *Usage, o WorkloadOptions) bool {
	for pid, now := range u.processes {
		if now.virtual > o.AboveBytes && now.share(since.processes[pid]) > o.AboveCPU {
			return true
		}
	}
	return false
}

// share returns the CPU time of a process since an earlier reading, in hundredths of a core. It is
// 0 if the earlier reading is missing or was of another process.
func (u used) share(was used) int {
	const ticksPerSecond = 100 // USER_HZ
	s := u.at.Sub(was.at).Seconds()
	if was.start != u.start || u.ticks < was.ticks || was.at.IsZero() || s <= 0 {
		return 0
	}
	return int(100 * float64(u.ticks-was.ticks) / ticksPerSecond / s)
}

// waiting returns the time in which threads of a process waited for a CPU since an earlier reading,
// in hundredths of a core. It is 0 if share returns 0.
func (u used) waiting(was used) int {
	if u.share(was) == 0 || u.waited < was.waited { // a thread has ended
		return 0
	}
	return int(100 * float64(u.waited-was.waited) / float64(u.at.Sub(was.at)))
}

// large returns the processes with more than AboveBytes of virtual memory. Most processes are small,
// and statm, which has the size, costs the kernel less than stat.
func large(h *host.Host, o WorkloadOptions) (pids []int, err error) {
	limit := o.AboveBytes / h.PageSize()
	err = h.EachProcess("statm", func(pid int, text []byte) {
		word, _, _ := bytes.Cut(text, []byte(" "))
		pages, err := strconv.ParseInt(string(word), 10, 64)
		if pid != o.Self && (err != nil || pages > limit) {
			pids = append(pids, pid)
		}
	})
	return pids, err
}

// readUsage reads the counters of the CPUs, and of processes if they have memory (kernel threads have
// none) and are as large as the options say.
func readUsage(h *host.Host, pids []int, o WorkloadOptions) (*Usage, error) {
	cpus, err := cpuTimes(h)
	if err != nil {
		return nil, err
	}
	all, page, above := map[int]used{}, h.PageSize(), int64(0)
	if o.LargeOnly {
		above = o.AboveBytes
	}
	for _, pid := range pids {
		text, err := h.Files.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue // the process has ended
		}
		if u, err := parseUsed(string(text), page); err == nil && u.virtual > above {
			if u.size > o.AboveBytes {
				u.waited = waited(h, pid, u.threads)
			}
			u.at = h.Clock.Now()
			all[pid] = u
		}
	}
	return &Usage{cpus, all}, nil
}

// waited returns the time in which the threads of a process have waited for a CPU, in nanoseconds: the
// second field of schedstat (Documentation/scheduler/sched-stats.rst). It is 0 if the kernel does not
// count it.
func waited(h *host.Host, pid, threads int) (sum uint64) {
	dir := "/proc/" + strconv.Itoa(pid)
	files := []string{dir + "/schedstat"}
	if threads > 1 {
		files = nil
		list, _ := h.Files.ReadDir(dir + "/task")
		for _, d := range list {
			files = append(files, dir+"/task/"+d.Name()+"/schedstat")
		}
	}
	for _, file := range files {
		if f := strings.Fields(h.File(file).Text); len(f) == 3 {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			sum += n
		}
	}
	return sum
}

func parseUsed(stat string, page int64) (u used, err error) {
	w := host.StatFields(stat) // from the third field
	if len(w) < 22 {
		return u, errors.New("too few fields")
	}
	number := func(field int) int64 {
		n, e := strconv.ParseInt(w[field-3], 10, 64)
		err = cmp.Or(err, e)
		return n
	}
	u.ticks = uint64(number(14) + number(15)) // user and system time
	u.threads, u.start = int(number(20)), uint64(number(22))
	u.virtual, u.size = number(23), number(24)*page
	return u, err
}

// add adds the processes that exceed a threshold. A process that started in the interval has no
// CPU time yet.
func (w *Workload) add(h *host.Host, before, after map[int]used, o WorkloadOptions) {
	all := newIdentities(h)
	for pid, now := range after {
		cpu := now.share(before[pid])
		if now.size <= o.AboveBytes && cpu <= o.AboveCPU {
			w.Small++
			continue
		}
		identity, ok := all.read(pid)
		if !ok {
			continue
		}
		w.Processes = append(w.Processes, WorkloadProcess{
			Identity: identity, ID: host.TaskID{TID: pid, Start: now.start}, VirtualBytes: now.virtual, CPU: cpu,
			Waiting: now.waiting(before[pid]), Threads: now.threads,
			Candidate: identity.ResidentBytes > o.AboveBytes && cpu > o.AboveCPU,
		})
	}
	slices.SortFunc(w.Processes, func(a, b WorkloadProcess) int {
		return cmp.Or(cmp.Compare(b.ResidentBytes, a.ResidentBytes), cmp.Compare(a.PID, b.PID))
	})
}

// locate reads the memory of the candidates, and finds the program that already places each
// process, if any.
func (w *Workload) locate(h *host.Host, limit time.Duration) {
	var read []*WorkloadProcess
	var names []Identity
	byPID := map[int]*WorkloadProcess{}
	for i := range w.Processes {
		p := &w.Processes[i]
		byPID[p.PID] = p
		if p.Candidate {
			read, names = append(read, p), append(names, p.Identity)
		}
	}
	unread := readMaps(h, names, limit, func(i int, m *pages) {
		placed := w.View.place(h, &names[i], m)
		read[i].Memory = &placed
	})
	for _, u := range unread {
		byPID[u.PID].Unread = u.Why
	}
	w.isolated, _ = unit.ParseCPUList(strings.TrimSpace(h.File("/sys/devices/system/cpu/isolated").Text))
	for i := range w.Processes {
		w.Processes[i].Owner = w.owner(&w.Processes[i])
	}
}
