package pod

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// cgroup reads a node's processes with their control groups and allowed CPUs.

// Process is a process of the node.
type Process struct {
	PID  int
	Name string // its command's (comm)
	// Kernel reports whether it is a kernel thread.
	Kernel bool
	// Group is the path of the process's control group in the hierarchy with CPU sets.
	Group string
	// Threads maps each thread to the CPUs that it may run on.
	Threads map[int]unit.CPUSet
}

// Allowed returns the CPUs that any thread of the process may use.
func (p *Process) Allowed() unit.CPUSet {
	var s unit.CPUSet
	for _, cpus := range p.Threads {
		s = s.Union(cpus)
	}
	return s
}

// kernelThread is PF_KTHREAD in the flags of /proc/PID/stat (include/linux/sched.h).
const kernelThread = 0x00200000

// Processes reads all processes of a node. It omits a process that ends meanwhile.
func Processes(files host.Files) ([]Process, error) {
	entries, err := files.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid < 1 {
			continue
		}
		p, err := cgroupProcess(files, pid)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Process) int { return a.PID - b.PID })
	return all, nil
}

// gone reports whether err means that a process has ended.
func gone(err error) bool { return host.NotFound(err) || errors.Is(err, syscall.ESRCH) }

func cgroupProcess(files host.Files, pid int) (Process, error) {
	p := Process{PID: pid, Threads: map[int]unit.CPUSet{}}
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := files.ReadFile(dir + "/stat")
	if err != nil {
		return p, err
	}
	if p.Name, p.Kernel, err = parseStat(string(stat)); err != nil {
		return p, fmt.Errorf("%s/stat: %w", dir, err)
	}
	groups, err := files.ReadFile(dir + "/cgroup")
	if err != nil {
		return p, err
	}
	p.Group = groupOf(string(groups))
	tasks, err := files.ReadDir(dir + "/task")
	if err != nil {
		return p, err
	}
	for _, t := range tasks {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		status, err := files.ReadFile(dir + "/task/" + t.Name() + "/status")
		if gone(err) {
			continue
		}
		if err != nil {
			return p, err
		}
		if p.Threads[tid], err = allowed(string(status)); err != nil {
			return p, fmt.Errorf("%s/task/%d/status: %w", dir, tid, err)
		}
	}
	if len(p.Threads) == 0 {
		return p, &fs.PathError{Op: "read", Path: dir, Err: fs.ErrNotExist}
	}
	return p, nil
}

// parseStat parses name and flags in proc_pid_stat(5). The name is in parentheses and may contain
// parentheses itself.
func parseStat(text string) (name string, kernel bool, err error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return "", false, fmt.Errorf("%.60q has no name in parentheses", text)
	}
	rest := strings.Fields(text[end+1:])
	const flags = 6 // the ninth field; the name is the second
	if len(rest) <= flags {
		return "", false, fmt.Errorf("%.60q is truncated", text)
	}
	bits, err := strconv.ParseUint(rest[flags], 10, 64)
	if err != nil {
		return "", false, fmt.Errorf("flags %.20q are not a number", rest[flags])
	}
	return text[open+1 : end], bits&kernelThread != 0, nil
}

// groupOf returns a process's group in the hierarchy with CPU sets (proc_pid_cgroup(5)): version 1,
// or else the unified one.
func groupOf(text string) string {
	unified := ""
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if slices.Contains(strings.Split(parts[1], ","), "cpuset") {
			return parts[2]
		}
		if parts[0] == "0" && parts[1] == "" {
			unified = parts[2]
		}
	}
	return unified
}

// allowed parses Cpus_allowed_list of proc_pid_status(5).
func allowed(text string) (unit.CPUSet, error) {
	for line := range strings.Lines(text) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return unit.ParseCPUList(list)
		}
	}
	return unit.CPUSet{}, errors.New("no Cpus_allowed_list")
}

// Hierarchy is the mounted hierarchy of control groups with CPU sets.
type Hierarchy struct {
	// Version is 1 or 2.
	Version int
	// Mount is the mount point, and Root the group that is mounted there.
	Mount, Root string

	files host.Files
}

// Find finds the hierarchy with CPU sets among the mounts of the node.
func Find(files host.Files) (*Hierarchy, error) {
	var last error
	// The first process has the node's own mounts, but may be invisible.
	for _, table := range []string{"/proc/1/mountinfo", "/proc/self/mountinfo"} {
		text, err := files.ReadFile(table)
		if err != nil {
			last = err
			continue
		}
		for _, h := range hierarchies(string(text)) {
			if _, err := files.Stat(h.Mount); err != nil {
				last = err
				continue
			}
			h.files = files
			return &h, nil
		}
	}
	if last == nil {
		last = errors.New("no cpuset control groups are mounted")
	}
	return nil, last
}

// hierarchies parses proc_pid_mountinfo(5): hierarchies of version 1 with CPU sets first.
func hierarchies(text string) []Hierarchy {
	var one, two []Hierarchy
	for line := range strings.Lines(text) {
		mount, kind, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(mount), strings.Fields(kind)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		h := Hierarchy{Root: f[3], Mount: f[4]}
		switch {
		case g[0] == "cgroup" && slices.Contains(strings.Split(g[2], ","), "cpuset"):
			h.Version = 1
			one = append(one, h)
		case g[0] == "cgroup2":
			h.Version = 2
			two = append(two, h)
		}
	}
	return append(one, two...)
}

// CPUs returns the CPUs of a control group, and the file they were read from.
func (h *Hierarchy) CPUs(group string) (cpus unit.CPUSet, file string, err error) {
	inside, err := h.inside(group)
	if err != nil {
		return cpus, "", err
	}
	name := "cpuset.cpus"
	if h.Version == 2 {
		name = "cpuset.cpus.effective"
	}
	file = path.Join(h.Mount, inside, name)
	text, err := h.files.ReadFile(file)
	if err != nil {
		return cpus, file, err
	}
	if cpus, err = unit.ParseCPUList(string(text)); err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return cpus, file, err
}

// inside returns the path of a group below the mount.
func (h *Hierarchy) inside(group string) (string, error) {
	inside := group
	if h.Root != "/" {
		var ok bool
		if inside, ok = strings.CutPrefix(group, h.Root); !ok || inside != "" && inside[0] != '/' {
			return "", fmt.Errorf("control group %s is not below %s, the root of the mount at %s", group, h.Root, h.Mount)
		}
	}
	if slices.Contains(strings.Split(inside, "/"), "..") {
		return "", fmt.Errorf("control group %s is outside this process's cgroup namespace", group)
	}
	return inside, nil
}

// ContainerCgroup reports whether a control group belongs to a container, or is inside its group.
// Container runtimes name the group by the ID alone (cgroupfs), or cri-containerd-ID.scope,
// crio-ID.scope, docker-ID.scope (systemd).
func ContainerCgroup(group, id string) bool {
	if id == "" {
		return false
	}
	for part := range strings.SplitSeq(group, "/") {
		part = strings.TrimSuffix(part, ".scope")
		if part == id || strings.HasSuffix(part, "-"+id) {
			return true
		}
	}
	return false
}

// CgroupOf reports whether a control group belongs to a pod, or is inside its group: podUID
// (cgroupfs), or kubepods-CLASS-podUID.slice with underscores instead of dashes (systemd).
func CgroupOf(group, uid string) bool {
	if uid == "" {
		return false
	}
	slice := "-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	for part := range strings.SplitSeq(group, "/") {
		if part == "pod"+uid || strings.HasSuffix(part, slice) {
			return true
		}
	}
	return false
}

// OfPods reports whether a control group is in a kubelet's subtree for pods.
func OfPods(group string) bool {
	return slices.ContainsFunc(strings.Split(group, "/"), func(part string) bool {
		return strings.Contains(part, "kubepods") // below a custom group, such as fleet-kubepods.slice
	})
}

// Class returns the QoS class of a pod's control group, or "": kubelets keep Burstable and
// BestEffort pods in separate groups.
func Class(group string) string {
	if !OfPods(group) {
		return ""
	}
	for part := range strings.SplitSeq(group, "/") {
		part = strings.TrimSuffix(part, ".slice")
		switch {
		case part == "burstable", strings.HasSuffix(part, "kubepods-burstable"):
			return "Burstable"
		case part == "besteffort", strings.HasSuffix(part, "kubepods-besteffort"):
			return "BestEffort"
		}
	}
	return "Guaranteed"
}
