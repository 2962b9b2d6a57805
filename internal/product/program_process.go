package product

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Process is a running process.
type Process struct {
	PID    int      `json:"pid"`
	Parent int      `json:"parent"`
	Argv   []string `json:"argv"`
	UID    int      `json:"uid"` // effective user id
	GID    int      `json:"gid"`
	// StartedS is the start time in seconds since the epoch; 0 if unknown. The real start is up to
	// WithinS later.
	StartedS float64 `json:"started_s"`
	WithinS  float64 `json:"within_s,omitempty"`
	// Ticks is the start time in clock ticks since boot, which clock changes do not affect.
	Ticks int64 `json:"ticks,omitempty"`
	// Unit is the systemd service of the process, or "".
	Unit string `json:"unit,omitempty"`
	// OpenFiles is the soft limit of open files (RLIMIT_NOFILE); -1 if unknown or unlimited.
	OpenFiles int64 `json:"open_files"`
}

// Same reports whether p and q describe the same process.
func (p Process) Same(q Process) bool { return p.PID == q.PID && p.Ticks == q.Ticks }

// ErrStopped is returned if a product is configured but does not run.
var ErrStopped = errors.New("not running")

// maxProcesses limits the processes of one product.
const maxProcesses = 10000

// Find returns the processes with one of the names (/proc/PID/comm, at most 15 bytes), except those
// in containers. The error is host.Unknown if no process is recorded.
func Find(ctx context.Context, h *host.Host, names ...string) ([]Process, error) {
	return host.QueryJSON(ctx, h, "processes "+strings.Join(names, " "), func(_ context.Context, live *host.Host) ([]Process, error) { return read(live, names) })
}

func read(h *host.Host, names []string) ([]Process, error) {
	entries, err := h.Files.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	boot := bootTime(h)
	root := fileID(h, "/")
	all := []Process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := path.Join("/proc", e.Name())
		comm, err := h.Files.ReadFile(dir + "/comm")
		if err != nil || !slices.Contains(names, strings.TrimSuffix(string(comm), "\n")) {
			continue
		}
		if !inside(h, dir, root) {
			continue
		}
		if !h.Live && inContainer(h, dir) {
			continue
		}
		if p, ok := one(h, dir, pid, boot); ok && len(all) < maxProcesses {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Process) int { return a.PID - b.PID })
	return all, nil
}

// one reads a process; ok is false if it has ended or is a zombie.
func one(h *host.Host, dir string, pid int, boot float64) (p Process, ok bool) {
	p = Process{PID: pid, OpenFiles: -1}
	stat, err := h.Files.ReadFile(dir + "/stat")
	began, noted := h.ProcessStart(pid)
	switch {
	case err == nil:
		fields := host.StatFields(string(stat))
		if len(fields) < 20 || ended(string(stat)) {
			return p, false
		}
		p.Parent, _ = strconv.Atoi(fields[1])
		if ticks, err := strconv.ParseInt(fields[19], 10, 64); err == nil {
			p.Ticks = ticks
			if boot > 0 {
				p.StartedS = boot + float64(ticks)/100 // USER_HZ is 100 except on Alpha
			}
		}
	case h.Live:
		return p, false
	default:
		status, _ := h.Files.ReadFile(dir + "/status")
		p.Parent = statusID(string(status), "PPid:", 1)
	}
	if !h.Live && noted {
		p.StartedS, p.WithinS = float64(began.Unix()), 1
	}
	if b, err := arguments(h, dir); err == nil {
		p.Argv = strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
	}
	if b, err := h.Files.ReadFile(dir + "/status"); err == nil {
		p.UID, p.GID = statusID(string(b), "Uid:", 2), statusID(string(b), "Gid:", 2)
	}
	if b, err := h.Files.ReadFile(dir + "/cgroup"); err == nil {
		p.Unit = unitOf(string(b))
	}
	if b, err := h.Files.ReadFile(dir + "/limits"); err == nil {
		p.OpenFiles = openFiles(string(b))
	}
	return p, true
}

// starting limits how long arguments waits for a process that has no arguments yet.
const starting = 5 * time.Second

// arguments returns a process's arguments, each followed by a zero byte. A process has none for a
// moment after exec (between exec_mmap and create_elf_tables of the kernel's fs/exec.c and
// fs/binfmt_elf.c), and when it ends.
func arguments(h *host.Host, dir string) ([]byte, error) {
	for end := time.Now().Add(starting); ; time.Sleep(time.Millisecond) {
		b, err := h.Files.ReadFile(dir + "/cmdline")
		if err != nil || len(b) > 0 || !h.Live || time.Now().After(end) {
			return b, err
		}
		if stat, err := h.Files.ReadFile(dir + "/stat"); err != nil || ended(string(stat)) {
			return b, err
		}
	}
}

// ended reports whether a process is a zombie or dead (proc_pid_stat(5)).
func ended(stat string) bool {
	f := host.StatFields(stat)
	return len(f) == 0 || f[0] == "Z" || f[0] == "X"
}

// Numbered returns the process with the number in a pid file; the error is ErrStopped if it has
// ended.
func Numbered(h *host.Host, pid int) (Process, error) {
	p, ok := one(h, "/proc/"+strconv.Itoa(pid), pid, bootTime(h))
	if !ok {
		return Process{}, ErrStopped
	}
	return p, nil
}

// bootTime returns the boot time in seconds since the epoch; 0 if unknown. It reads both clocks
// three times and uses the fastest reading.
func bootTime(h *host.Host) float64 {
	best, boot := time.Hour, 0.0
	for range 3 {
		before := h.Clock.Now()
		since, err := h.Clock.SinceBoot()
		if took := h.Clock.Now().Sub(before); err == nil && took < best {
			best, boot = took, float64(before.UnixNano())/1e9-since.Seconds()
		}
	}
	return boot
}

// inside reports whether a process's root is this machine's root, a directory below it (chroot), or
// unreadable.
func inside(h *host.Host, dir, root string) bool {
	id := fileID(h, dir+"/root/")
	if id == "" || root == "" || id == root {
		return true
	}
	changed, err := h.Files.Readlink(dir + "/root")
	return err == nil && changed != "/" && fileID(h, changed) == id
}

// fileID returns an ID of a directory that is equal in all mount namespaces; "" if the directory is
// not visible.
func fileID(h *host.Host, name string) string {
	st, err := h.Files.Stat(name)
	if err != nil {
		return ""
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d:%d", sys.Dev, sys.Ino)
	}
	return ""
}

// containers are parts of the control-group names that container engines use.
var containers = []string{"/docker", "docker-", "libpod-", "crio-", "/kubepods", "kubepods.slice", "/lxc", "machine.slice/"}

// inContainer reports whether a process of a copied machine is in a container. Copies do not record
// roots.
func inContainer(h *host.Host, dir string) bool {
	b, err := h.Files.ReadFile(dir + "/cgroup")
	return err == nil && slices.ContainsFunc(containers, func(c string) bool { return strings.Contains(string(b), c) })
}

// statusID returns one number of a line in /proc/PID/status; of user and group ids, number 2 is the
// effective one.
func statusID(status, name string, number int) int {
	for line := range strings.Lines(status) {
		if f := strings.Fields(line); len(f) > number && f[0] == name {
			n, _ := strconv.Atoi(f[number])
			return n
		}
	}
	return 0
}

// unitOf returns the service in the text of /proc/PID/cgroup, from systemd's hierarchy or the only
// one. For processes of users' services it returns user@UID.service.
func unitOf(cgroup string) string {
	for line := range strings.Lines(cgroup) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, dir, _ := strings.Cut(rest, ":")
		if controllers != "" && controllers != "name=systemd" {
			continue
		}
		for _, name := range strings.Split(dir, "/") {
			if strings.HasSuffix(name, ".service") {
				return name
			}
		}
	}
	return ""
}

func openFiles(limits string) int64 {
	for line := range strings.Lines(limits) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				if n, err := strconv.ParseInt(f[0], 10, 64); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

// Main returns the processes whose parent is not in the list: each instance's main process.
func Main(all []Process) []Process {
	return slices.DeleteFunc(slices.Clone(all), func(p Process) bool {
		return slices.ContainsFunc(all, func(q Process) bool { return q.PID == p.Parent })
	})
}

// Children returns the processes whose parent is main.
func Children(all []Process, main int) []Process {
	return slices.DeleteFunc(slices.Clone(all), func(p Process) bool { return p.Parent != main })
}

// Only returns the single main process for which belongs is true, of programs with these names, and
// its children. The error is ErrStopped if none exists. what names the programs in the error:
// "nginx servers".
func Only(ctx context.Context, h *host.Host, what, main string, belongs func(Process) bool, names ...string) (Group, error) {
	all, err := Find(ctx, h, names...)
	if err != nil {
		return Group{}, err
	}
	mains := slices.DeleteFunc(Main(all), func(p Process) bool { return !belongs(p) })
	switch len(mains) {
	case 0:
		return Group{}, ErrStopped
	case 1:
		return Group{Main: mains[0], Children: Children(all, mains[0].PID)}, nil
	}
	return Group{}, fmt.Errorf("%d %s run with the configuration %s, so fettle cannot choose one", len(mains), what, main)
}

// OfService returns the main process of a program in a service, or else the program's only main
// process. The error is ErrStopped if none exists.
func OfService(ctx context.Context, h *host.Host, program, service string) (Process, error) {
	all, err := Find(ctx, h, program)
	if err != nil {
		return Process{}, err
	}
	all = Main(all)
	for _, p := range all {
		if p.Unit == service {
			return p, nil
		}
	}
	switch len(all) {
	case 0:
		return Process{}, ErrStopped
	case 1:
		return all[0], nil
	}
	return Process{}, fmt.Errorf("%d processes of %s are running, but outside %s", len(all), program, service)
}
