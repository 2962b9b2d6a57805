package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/unit"
)

type liveSched struct{}

// Task flags (include/linux/sched.h).
const (
	pfKthread       = 0x00200000
	pfNoSetAffinity = 0x04000000
)

func (s liveSched) Tasks() ([]Task, error) {
	pids, err := numbersIn("/proc")
	if err != nil {
		return nil, err
	}
	tasks := make([]Task, 0, 2*len(pids))
	for _, pid := range pids {
		process := "/proc/" + strconv.Itoa(pid)
		tids, err := numbersIn(process + "/task")
		if err != nil {
			continue // ended since
		}
		cmdline := readCmdline(process)
		for _, tid := range tids {
			if t, err := readTask(process+"/task/"+strconv.Itoa(tid), pid, cmdline); err == nil {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks, nil
}

// numbersIn lists the numeric names of a directory in ascending order.
func numbersIn(dir string) ([]int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	out := make([]int, 0, len(names))
	for _, n := range names {
		if v, err := strconv.Atoi(n); err == nil {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out, nil
}

func readCmdline(process string) string {
	b, _ := readCapped(process + "/cmdline")
	return strings.TrimRight(strings.ReplaceAll(string(b), "\x00", " "), " ")
}

func (liveSched) Task(tid int) (Task, error) {
	dir := "/proc/" + strconv.Itoa(tid) // exists for every thread; the listing has only processes
	status, err := readCapped(dir + "/status")
	if err != nil {
		return Task{}, ended(err)
	}
	pid := tid
	for line := range strings.Lines(string(status)) {
		if n, ok := strings.CutPrefix(line, "Tgid:"); ok {
			pid, _ = strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return readTask(fmt.Sprintf("/proc/%d/task/%d", pid, tid), pid, readCmdline(dir))
}

func readTask(dir string, pid int, cmdline string) (Task, error) {
	b, err := readCapped(dir + "/stat")
	if err != nil {
		return Task{}, ended(err)
	}
	t, err := parseStat(string(b))
	if err != nil {
		return Task{}, fmt.Errorf("%s/stat: %w", dir, err)
	}
	t.PID, t.Cmdline = pid, cmdline
	if cmdline == "" {
		t.Cmdline = "[" + t.Comm + "]"
	}
	return t, nil
}

// StatFields returns the fields of /proc/PID/stat from the state (field 3) on. The name
// precedes them in parentheses and may contain any byte (proc_pid_stat(5)).
func StatFields(stat string) []string {
	return strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
}

// parseStat parses /proc/PID/stat (proc_pid_stat(5)). The name may contain parentheses.
func parseStat(text string) (Task, error) {
	open, shut := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || shut < open {
		return Task{}, errors.New("no name in parentheses")
	}
	t := Task{Comm: text[open+1 : shut]}
	f := StatFields(text)
	if len(f) < 20 {
		return Task{}, fmt.Errorf("%d fields after the name, want 20 or more", len(f))
	}
	var err [4]error
	var flags uint64
	t.TID, err[0] = strconv.Atoi(strings.TrimSpace(text[:open]))
	t.Parent, err[1] = strconv.Atoi(f[1])
	flags, err[2] = strconv.ParseUint(f[6], 10, 64)
	t.Start, err[3] = strconv.ParseUint(f[19], 10, 64)
	t.Kernel, t.Bound, t.Zombie = flags&pfKthread != 0, flags&pfNoSetAffinity != 0, f[0] == "Z" || f[0] == "X"
	return t, errors.Join(err[:]...)
}

// ended converts the kernel's errors for a missing task to ErrEnded.
func ended(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return ErrEnded
	}
	return err
}

// same returns ErrEnded if the thread id no longer belongs to the same task.
func same(id TaskID) error {
	b, err := readCapped("/proc/" + strconv.Itoa(id.TID) + "/stat")
	if err != nil {
		return ended(err)
	}
	t, err := parseStat(string(b))
	if err == nil && t.Start != id.Start {
		return ErrEnded
	}
	return err
}

func (liveSched) Affinity(id TaskID) (unit.CPUSet, error) {
	if err := same(id); err != nil {
		return unit.CPUSet{}, err
	}
	var cpus unit.CPUSet
	set := unix.NewCPUSet(unit.MaxCPUs)
	if err := unix.SchedGetaffinityDynamic(id.TID, set); err != nil {
		return cpus, ended(err)
	}
	for left, c := set.Count(), 0; left > 0 && c < unit.MaxCPUs; c++ {
		if set.IsSet(c) {
			cpus.AddRange(c, c)
			left--
		}
	}
	return cpus, nil
}

func (liveSched) SetAffinity(id TaskID, cpus unit.CPUSet) error {
	if cpus.IsEmpty() {
		return errors.New("a task needs at least one CPU")
	}
	set := unix.NewCPUSet(unit.MaxCPUs)
	if online, err := onlineCPUs(); err == nil && online.Minus(cpus).IsEmpty() {
		set.Fill()
	} else {
		for _, c := range cpus.Numbers() {
			set.Set(c)
		}
	}
	if err := same(id); err != nil {
		return err
	}
	if err := unix.SchedSetaffinityDynamic(id.TID, set); err != nil {
		return ended(err)
	}
	return nil
}

func onlineCPUs() (unit.CPUSet, error) {
	b, err := readCapped("/sys/devices/system/cpu/online")
	if err != nil {
		return unit.CPUSet{}, err
	}
	return unit.ParseCPUList(trimLine(b))
}

// policies maps policy numbers to names (include/uapi/linux/sched.h).
var policies = map[uint32]string{0: "other", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}

func (liveSched) Policy(id TaskID) (Policy, error) {
	if err := same(id); err != nil {
		return Policy{}, err
	}
	a, err := unix.SchedGetAttr(id.TID, 0)
	if err != nil {
		return Policy{}, ended(err)
	}
	name, ok := policies[a.Policy]
	if !ok {
		name = strconv.FormatUint(uint64(a.Policy), 10)
	}
	if a.Policy == unix.SCHED_FIFO || a.Policy == unix.SCHED_RR {
		// sched_getattr omits the nice value of real-time and deadline tasks.
		if prio, err := unix.Getpriority(unix.PRIO_PROCESS, id.TID); err == nil {
			a.Nice = int32(20 - prio) // the system call returns 40 to 1 (getpriority(2))
		}
	}
	if a.Policy != unix.SCHED_DEADLINE {
		a.Runtime, a.Deadline, a.Period = 0, 0, 0 // since Linux 6.12 these also have the slice of fair tasks
	}
	return Policy{
		Name: name, Priority: int(a.Priority), Nice: int(a.Nice), ResetOnFork: a.Flags&unix.SCHED_FLAG_RESET_ON_FORK != 0,
		Runtime: a.Runtime, Deadline: a.Deadline, Period: a.Period,
	}, nil
}

func (liveSched) SetPolicy(id TaskID, p Policy) error {
	if err := same(id); err != nil {
		return err
	}
	now, err := unix.SchedGetAttr(id.TID, 0)
	if err != nil {
		return ended(err)
	}
	a := unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Nice: int32(p.Nice), Priority: uint32(p.Priority),
		Runtime: p.Runtime, Deadline: p.Deadline, Period: p.Period,
	}
	known := false
	for n, name := range policies {
		if name == p.Name {
			a.Policy, known = n, true
		}
	}
	if n, err := strconv.ParseUint(p.Name, 10, 31); err == nil {
		a.Policy, known = uint32(n), true
	}
	if !known {
		return fmt.Errorf("unknown scheduling policy %q", p.Name)
	}
	// Keep the unknown flags of a deadline task.
	a.Flags = now.Flags &^ (unix.SCHED_FLAG_RESET_ON_FORK | unix.SCHED_FLAG_UTIL_CLAMP)
	if p.Name != "deadline" {
		a.Flags = 0
	}
	if p.ResetOnFork {
		a.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
	}
	return ended(unix.SchedSetAttr(id.TID, &a, 0))
}
