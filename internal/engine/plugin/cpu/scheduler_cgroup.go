package cpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/unit"
)

const defaultMount = "/sys/fs/cgroup/cpuset"

// Control groups of version 1 (Documentation/admin-guide/cgroup-v1/cpusets.rst).
const (
	// cgroupKind is the setting kind for the CPUs of a control group, named by its path. The value
	// is "none" if the group does not exist; writing "none" removes it.
	cgroupKind = "cgroup"
	// mountKind is the setting kind for a mount point of the cpuset controller. The value is
	// "cpuset", "none", or "no directory".
	mountKind = "cgroup-mount"

	none        = "none"
	noDirectory = "no directory"
)

// cgroupPath returns a group's path below the mount point. Dots in the name separate levels, so a
// name cannot lead outside.
func cgroupPath(name string) (string, error) {
	p := strings.ReplaceAll(strings.Trim(strings.TrimSpace(name), "/"), ".", "/")
	if p == "" || path.Clean("/"+p) != "/"+p {
		return "", plugin.Invalid("%q is not a name of a control group", name)
	}
	return p, nil
}

func mountPoint(r *plugin.Request) string {
	if o, ok := r.Option("cgroup_mount_point"); ok && strings.HasPrefix(o.Value, "/") {
		return path.Clean(o.Value)
	}
	return defaultMount
}

// isCpuset reports whether a directory is a cpuset of version 1. Version 2 has no file named
// tasks.
func isCpuset(h *host.Host, dir string) bool {
	return plugin.Exists(h, dir+"/tasks") && (plugin.Exists(h, dir+"/cpuset.cpus") || plugin.Exists(h, dir+"/cpus"))
}

func flag(r *plugin.Request, name string, otherwise bool) bool {
	if o, ok := r.Option(name); ok {
		if t, err := truth(o.Value); err == nil {
			return t
		}
	}
	return otherwise
}

// cpusetV1 reports whether control groups of version 1 are available. If not, it returns the
// reason.
func cpusetV1(r *plugin.Request) (bool, string) {
	mount := mountPoint(r)
	if isCpuset(r.Host, mount) {
		return true, ""
	}
	if flag(r, "cgroup_mount_point_init", false) {
		if text, ok := plugin.Attribute(r.Host, "/sys/fs/cgroup/cgroup.controllers"); ok && strings.Contains(" "+text+" ", " cpuset ") {
			return false, "the cpuset controller is in cgroup v2 on this machine"
		}
		return true, ""
	}
	return false, "no cgroup v1 cpuset hierarchy is mounted at " + mount
}

// planCgroup plans one cgroup.NAME option.
func planCgroup(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	name, err := cgroupPath(strings.TrimPrefix(o.Name, cgroupPrefix))
	if err != nil {
		return nil, err
	}
	s := setting.Setting{Kind: cgroupKind, Name: mountPoint(r) + "/" + name}
	cpus, err := profile.ParseCPUs(o.Value)
	if err != nil || cpus.IsEmpty() {
		return plugin.BadValue(s, o, "a CPU list, such as 1,3-4"), nil
	}
	return planGroupCPUs(r, o, s, cpus), nil
}

// planGroupCPUs plans the CPUs of a control group. It also plans the group's creation if
// requested.
func planGroupCPUs(r *plugin.Request, o profile.Option, s setting.Setting, cpus unit.CPUSet) []plugin.Item {
	v1, why := cpusetV1(r)
	if !v1 {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unsupported, "%s; tasks of the group get its CPUs as their affinity", why)}
	}
	mount := flag(r, "cgroup_mount_point_init", false)
	if !plugin.Exists(r.Host, s.Name) && !mount && !flag(r, "cgroup_groups_init", true) {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unsupported, "the control group does not exist, and cgroup_groups_init=0 does not create it")}
	}
	var items []plugin.Item
	if mount {
		items = append(items, plugin.Want(setting.Setting{Kind: mountKind, Name: mountPoint(r)}, "cpuset", o))
	}
	return append(items, plugin.Want(s, cpus.String(), o))
}

// isolateByGroup plans to move tasks into a control group that has only housekeeping CPUs.
func isolateByGroup(r *plugin.Request, o, name profile.Option, rs *rules, tasks []host.Task, housekeeping unit.CPUSet) ([]plugin.Item, error) {
	p, err := cgroupPath(name.Value)
	if err != nil {
		return nil, err
	}
	s := setting.Setting{Kind: cgroupKind, Name: mountPoint(r) + "/" + p}
	// Groups first, because tasks are moved into them later.
	var items []plugin.Item
	for _, g := range r.Unit.Options {
		if strings.HasPrefix(g.Name, cgroupPrefix) && len(g.Deferred) == 0 {
			more, err := planCgroup(context.Background(), r, g, "")
			if err != nil {
				return nil, err
			}
			items = append(items, more...)
		}
	}
	if _, listed := r.Option(cgroupPrefix + strings.ReplaceAll(p, "/", ".")); !listed {
		items = append(items, planGroupCPUs(r, o, s, housekeeping)...)
		if items[len(items)-1].Verdict != "" {
			return items, nil
		}
	}
	for _, t := range tasks {
		if !rs.isolates(r.Host, t) {
			continue
		}
		it := plugin.Want(taskSetting(t.TaskID, cpusetOf), "/"+p, o)
		it.Why, it.Device = t.Comm, t.String()
		items = append(items, it)
	}
	return items, nil
}

type cgroup struct{ host *host.Host }

func (cgroup) Resolve(s setting.Setting) (setting.Setting, error) {
	if path.Clean(s.Name) != s.Name || !strings.HasPrefix(s.Name, "/") {
		return s, fmt.Errorf("%s: want the path of a control group", s)
	}
	return s, nil
}

func (k cgroup) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	if !isCpuset(k.host, s.Name) {
		if _, err := k.host.Files.Stat(s.Name); host.Unknown(err) {
			return setting.Value{}, err
		}
		return setting.Text(none), nil
	}
	b, err := k.host.Files.ReadFile(s.Name + "/cpuset.cpus")
	return setting.Text(strings.TrimSpace(string(b))), err
}

func (k cgroup) Write(_ context.Context, s setting.Setting, v setting.Value) error {
	if v.Text == none {
		return k.remove(s.Name)
	}
	if !isCpuset(k.host, path.Dir(s.Name)) {
		return fmt.Errorf("%s is not in a mounted cpuset hierarchy", s.Name)
	}
	if !plugin.Exists(k.host, s.Name) {
		if err := k.host.Files.Mkdir(s.Name, 0o755); err != nil {
			return err
		}
		// A new group has no memory nodes, and without them it accepts no task.
		mems, err := k.host.Files.ReadFile(path.Dir(s.Name) + "/cpuset.mems")
		if err == nil {
			err = k.host.Files.Store(s.Name+"/cpuset.mems", mems)
		}
		if err != nil {
			return err
		}
	}
	return k.host.Files.Store(s.Name+"/cpuset.cpus", []byte(v.Text+"\n"))
}

// remove moves a group's remaining tasks to its parent and removes the group.
func (k cgroup) remove(dir string) error {
	for range 10 {
		b, err := k.host.Files.ReadFile(dir + "/tasks")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, tid := range strings.Fields(string(b)) {
			_ = k.host.Files.Store(path.Dir(dir)+"/tasks", []byte(tid)) // the task ended meanwhile, or the removal will fail
		}
		if err = k.host.Files.Remove(dir); err == nil || !plugin.Exists(k.host, dir) {
			return nil // a cgroup file system needs no fsync
		}
	}
	return fmt.Errorf("%s still contains tasks or groups", dir)
}

func (cgroup) Equal(a, b setting.Value) bool {
	return a.Text == b.Text || sameCPUs(a.Text, b.Text)
}

func (cgroup) Coupled(setting.Setting) []setting.Setting { return nil }
func (cgroup) Lifetime() setting.Lifetime                { return setting.Runtime }

// cpusetOfTask returns the path of a task's cpuset cgroup (v1), relative to the hierarchy's
// mount point.
func cpusetOfTask(h *host.Host, id host.TaskID) (string, error) {
	t, err := h.Sched.Task(id.TID)
	if err != nil {
		return "", err
	}
	if t.TaskID != id {
		return "", host.ErrEnded
	}
	b, err := h.Files.ReadFile("/proc/" + strconv.Itoa(id.TID) + "/cpuset")
	if errors.Is(err, fs.ErrNotExist) {
		return "", host.ErrEnded
	}
	return strings.TrimSpace(string(b)), err
}

func moveTask(h *host.Host, id host.TaskID, group string) error {
	mount, ok := cpusetMount(h)
	if !ok {
		return errors.New("no cgroup v1 cpuset hierarchy is mounted")
	}
	if t, err := h.Sched.Task(id.TID); err != nil || t.TaskID != id {
		return host.ErrEnded
	}
	return h.Files.Store(path.Join(mount, path.Clean("/"+group), "tasks"), []byte(strconv.Itoa(id.TID)))
}

// cpusetMount returns the mount point of the version 1 cpuset controller, and false if there is
// none.
func cpusetMount(h *host.Host) (string, bool) {
	text, _ := plugin.Attribute(h, "/proc/self/mounts")
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) > 3 && f[2] == "cgroup" && strings.Contains(","+f[3]+",", ",cpuset,") {
			return f[1], true
		}
	}
	return "", false
}

type cgroupMount struct{ host *host.Host }

func (cgroupMount) Resolve(s setting.Setting) (setting.Setting, error) {
	return cgroup{}.Resolve(s)
}

func (k cgroupMount) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	text, err := k.host.Files.ReadFile("/proc/self/mounts")
	if err != nil {
		return setting.Value{}, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == s.Name && f[2] == "cgroup" {
			return setting.Text("cpuset"), nil
		}
	}
	if !plugin.Exists(k.host, s.Name) {
		return setting.Text(noDirectory), nil
	}
	return setting.Text(none), nil
}

func (k cgroupMount) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	if v.Text != "cpuset" {
		if _, err := host.Run(ctx, k.host, "umount", s.Name); err != nil || v.Text == none {
			return err
		}
		return k.host.Files.Remove(s.Name)
	}
	if !plugin.Exists(k.host, s.Name) {
		if err := k.host.Files.Mkdir(s.Name, 0o755); err != nil {
			return err
		}
	}
	_, err := host.Run(ctx, k.host, "mount", "-t", "cgroup", "-o", "cpuset", "cpuset", s.Name)
	return err
}

func (cgroupMount) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (cgroupMount) Coupled(setting.Setting) []setting.Setting { return nil }
func (cgroupMount) Lifetime() setting.Lifetime                { return setting.Runtime }
